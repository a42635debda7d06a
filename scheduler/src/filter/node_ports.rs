//! Host ports can be had once.

use super::{Refusal, Situation};
use crate::view::NodeState;

pub(super) fn judge(situation: &Situation<'_>, state: &NodeState) -> Option<Refusal> {
    let mut taken = state.pods.values().flat_map(|other| &other.host_ports);
    let conflict = taken.any(|taken| situation.pod.host_ports.iter().any(|wanted| wanted.conflicts_with(taken)));
    conflict.then(|| Refusal::removable("node(s) didn't have free ports for the requested pod ports"))
}
