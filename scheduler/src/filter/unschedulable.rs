//! Cordoned nodes take only pods that tolerate it.

use super::{Refusal, Situation};
use crate::node::Taint;
use crate::view::NodeState;

pub(super) fn judge(situation: &Situation<'_>, state: &NodeState) -> Option<Refusal> {
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
    };
    let kept_off = state.node.unschedulable && !cordon.is_tolerated(situation.pod.list(&["tolerations"]));
    kept_off.then(|| Refusal::lasting("node(s) were unschedulable"))
}
