//! Host ports can be had once.

use super::Reasons;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

pub(super) fn judge(_view: &View, pod: &PodInfo, state: &NodeState) -> Reasons {
    let mut taken = state.pods.values().flat_map(|other| &other.host_ports);
    if taken.any(|taken| pod.host_ports.iter().any(|wanted| wanted.conflicts_with(taken))) {
        return vec!["node(s) didn't have free ports for the requested pod ports".to_owned()];
    }
    Reasons::new()
}
