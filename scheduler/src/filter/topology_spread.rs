//! Hard topology spread constraints (KEP-895): the difference between the fullest choice and the emptiest domain must
//! stay within `maxSkew`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Reasons, node_affinity};
use crate::matching::label_selector_matches;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

pub(super) fn judge(view: &View, pod: &PodInfo, state: &NodeState) -> Reasons {
    let hard = pod.list(&["topologySpreadConstraints"]).iter();
    let hard =
        hard.filter(|constraint| constraint.get("whenUnsatisfiable").and_then(Value::as_str) == Some("DoNotSchedule"));
    hard.filter_map(|constraint| objection(view, pod, state, constraint)).take(1).collect()
}

fn objection(view: &View, pod: &PodInfo, state: &NodeState, constraint: &Value) -> Option<String> {
    let key = constraint.get("topologyKey").and_then(Value::as_str).unwrap_or_default();
    let Some(domain) = state.node.labels.get(key) else {
        return Some("node(s) didn't match pod topology spread constraints (missing required label)".to_owned());
    };
    let counts = domain_counts(view, pod, constraint, key);
    let wanted_domains = constraint.get("minDomains").and_then(Value::as_u64).unwrap_or(1);
    let too_few = u64::try_from(counts.len()).is_ok_and(|found| found < wanted_domains);
    let least = if too_few { 0 } else { counts.values().copied().min().unwrap_or(0) };
    let own = label_selector_matches(constraint.get("labelSelector"), &pod.labels);
    let after = counts.get(domain.as_str()).copied().unwrap_or(0) + i64::from(own);
    let allowed = constraint.get("maxSkew").and_then(Value::as_i64).unwrap_or(1);
    (after - least > allowed).then(|| "node(s) didn't match pod topology spread constraints".to_owned())
}

/// How many of the selected pods stand in each domain that the pod may choose.
pub(crate) fn domain_counts<'a>(
    view: &'a View,
    pod: &PodInfo,
    constraint: &Value,
    key: &str,
) -> BTreeMap<&'a str, i64> {
    let mut counts = BTreeMap::new();
    for state in view.nodes().filter(|state| node_affinity::matches(pod, &state.node)) {
        let Some(domain) = state.node.labels.get(key) else { continue };
        let selected = state.pods.values().filter(|other| {
            other.namespace() == pod.namespace()
                && !other.deleting
                && label_selector_matches(constraint.get("labelSelector"), &other.labels)
        });
        *counts.entry(domain.as_str()).or_default() += i64::try_from(selected.count()).unwrap_or(i64::MAX);
    }
    counts
}
