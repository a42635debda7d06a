//! A pod that names its node goes there or nowhere.

use super::{Refusal, Situation};
use crate::view::NodeState;

pub(super) fn judge(situation: &Situation<'_>, state: &NodeState) -> Option<Refusal> {
    let named = &situation.pod.node_name;
    let other = !named.is_empty() && *named != state.node.name;
    other.then(|| Refusal::lasting("node(s) didn't match the requested node name"))
}
