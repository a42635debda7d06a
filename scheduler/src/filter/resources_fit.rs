//! What the pod requests must be free.

use super::{Refusal, Situation};
use crate::resources::PODS;
use crate::view::NodeState;

pub(super) fn judge(situation: &Situation<'_>, state: &NodeState) -> Option<Refusal> {
    let requests = &situation.pod.requests;
    let mut reasons = Vec::new();
    if state.free(PODS) < 1 {
        reasons.push("Too many pods".to_owned());
    }
    let short = || requests.iter().filter(|(name, wanted)| *wanted > 0 && *wanted > state.free(name));
    reasons.extend(short().map(|(name, _)| format!("Insufficient {name}")));
    // What an empty node would not have either, no other pod can make room for.
    let removable = short().all(|(name, wanted)| wanted <= state.node.allocatable.get(name));
    (!reasons.is_empty()).then_some(Refusal { reasons, removable })
}
