//! The node selector and the required node affinity.

use serde_json::Value;

use super::Reasons;
use crate::matching::node_term_matches;
use crate::node::NodeInfo;
use crate::pod::{PodInfo, string_map};
use crate::view::{NodeState, View};

const REQUIRED: [&str; 3] = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];

pub(super) fn judge(_view: &View, pod: &PodInfo, state: &NodeState) -> Reasons {
    if matches(pod, &state.node) {
        return Reasons::new();
    }
    vec!["node(s) didn't match Pod's node affinity/selector".to_owned()]
}

/// Whether selector and required affinity let the pod onto the node; spreading counts only such nodes.
pub(crate) fn matches(pod: &PodInfo, node: &NodeInfo) -> bool {
    let selected =
        string_map(pod.value(&["nodeSelector"])).iter().all(|(key, value)| node.labels.get(key) == Some(value));
    let terms = pod.value(&REQUIRED).and_then(|required| required.get("nodeSelectorTerms")).and_then(Value::as_array);
    selected && terms.is_none_or(|terms| terms.iter().any(|term| node_term_matches(term, node)))
}
