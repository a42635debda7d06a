//! Cordoned nodes take only pods that tolerate it.

use super::Reasons;
use crate::matching::tolerates;
use crate::node::Taint;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

pub(super) fn judge(_view: &View, pod: &PodInfo, state: &NodeState) -> Reasons {
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
    };
    if !state.node.unschedulable || tolerates(pod.list(&["tolerations"]), &cordon) {
        return Reasons::new();
    }
    vec!["node(s) were unschedulable".to_owned()]
}
