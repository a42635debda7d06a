//! Taints with effect NoSchedule or NoExecute must be tolerated.

use super::{Refusal, Situation};
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::view::NodeState;

pub(super) fn judge(situation: &Situation<'_>, state: &NodeState) -> Option<Refusal> {
    (!tolerates(situation.pod, &state.node)).then(|| Refusal::lasting("node(s) had untolerated taint(s)"))
}

/// Whether the pod tolerates every taint that keeps pods away.
pub(crate) fn tolerates(pod: &PodInfo, node: &NodeInfo) -> bool {
    let tolerations = pod.list(&["tolerations"]);
    node.taints.iter().filter(|taint| taint.repels()).all(|taint| taint.is_tolerated(tolerations))
}
