//! The sum of the weights of the preferred node affinity terms that match.

use quorate_api::placement::node_term_matches;
use serde_json::Value;

use super::normalize;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

pub(super) fn rate(_view: &View, pod: &PodInfo, nodes: &[&NodeState]) -> Vec<i64> {
    let preferred = pod.list(&["affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"]);
    let weight = |state: &&NodeState| {
        let matching = preferred.iter().filter(|term| {
            let preference = term.get("preference");
            preference.is_some_and(|own| node_term_matches(own, &state.node.name, &state.node.labels))
        });
        matching.filter_map(|term| term.get("weight").and_then(Value::as_i64)).sum()
    };
    normalize(nodes.iter().map(weight).collect(), false)
}
