//! Taints with effect NoSchedule or NoExecute must be tolerated.

use super::Reasons;
use crate::matching::tolerates;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

pub(super) fn judge(_view: &View, pod: &PodInfo, state: &NodeState) -> Reasons {
    let tolerations = pod.list(&["tolerations"]);
    let mut hard = state.node.taints.iter().filter(|taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute");
    let untolerated = hard.find(|taint| !tolerates(tolerations, taint));
    untolerated.map(|_taint| "node(s) had untolerated taint(s)".to_owned()).into_iter().collect()
}
