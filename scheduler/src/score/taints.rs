//! Fewer untolerated PreferNoSchedule taints are better.

use super::normalize;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

pub(super) fn rate(_view: &View, pod: &PodInfo, nodes: &[&NodeState]) -> Vec<i64> {
    let tolerations = pod.list(&["tolerations"]);
    let soft = |state: &&NodeState| {
        let taints = state.node.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
        i64::try_from(taints.filter(|taint| !taint.is_tolerated(tolerations)).count()).unwrap_or(i64::MAX)
    };
    normalize(nodes.iter().map(soft).collect(), true)
}
