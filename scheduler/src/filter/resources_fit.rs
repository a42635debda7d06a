//! What the pod requests must be free.

use super::Reasons;
use crate::pod::PodInfo;
use crate::resources::PODS;
use crate::view::{NodeState, View};

pub(super) fn judge(_view: &View, pod: &PodInfo, state: &NodeState) -> Reasons {
    let mut reasons = Reasons::new();
    if state.free(PODS) < 1 {
        reasons.push("Too many pods".to_owned());
    }
    let short = pod.requests.iter().filter(|(name, wanted)| *wanted > 0 && *wanted > state.free(name));
    reasons.extend(short.map(|(name, _)| format!("Insufficient {name}")));
    reasons
}
