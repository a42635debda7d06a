//! The sum of the weights of the preferred node affinity terms that match.

use serde_json::Value;

use super::normalize;
use crate::matching::node_term_matches;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

pub(super) fn rate(_view: &View, pod: &PodInfo, nodes: &[&NodeState]) -> Vec<i64> {
    let preferred = pod.list(&["affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"]);
    let weight = |state: &&NodeState| {
        let matching =
            preferred.iter().filter(|term| term.get("preference").is_some_and(|p| node_term_matches(p, &state.node)));
        matching.filter_map(|term| term.get("weight").and_then(Value::as_i64)).sum()
    };
    normalize(nodes.iter().map(weight).collect(), false)
}
