//! A pod that names its node goes there or nowhere.

use super::Reasons;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

pub(super) fn judge(_view: &View, pod: &PodInfo, state: &NodeState) -> Reasons {
    if pod.node_name.is_empty() || pod.node_name == state.node.name {
        return Reasons::new();
    }
    vec!["node(s) didn't match the requested node name".to_owned()]
}
