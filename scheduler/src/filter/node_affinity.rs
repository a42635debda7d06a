//! The node selector and the required node affinity.

use quorate_api::placement::chooses_node;

use super::{Refusal, Situation};
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::view::NodeState;

pub(super) fn judge(situation: &Situation<'_>, state: &NodeState) -> Option<Refusal> {
    let chosen = matches(situation.pod, &state.node);
    (!chosen).then(|| Refusal::lasting("node(s) didn't match Pod's node affinity/selector"))
}

/// Whether selector and required affinity let the pod onto the node.
pub(crate) fn matches(pod: &PodInfo, node: &NodeInfo) -> bool {
    chooses_node(&pod.spec, &node.name, &node.labels)
}
