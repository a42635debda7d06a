//! Required pod affinity and anti-affinity, in both directions: the pod's own terms, and those of pods that stand.

use serde_json::Value;

use super::Reasons;
use crate::matching::label_selector_matches;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

pub(super) fn judge(view: &View, pod: &PodInfo, state: &NodeState) -> Reasons {
    let objection = if !affinity_holds(view, pod, state) {
        Some("node(s) didn't match pod affinity rules")
    } else if pod.list(&["affinity", "podAntiAffinity", REQUIRED]).iter().any(|t| shares_domain(view, pod, state, t)) {
        Some("node(s) didn't match pod anti-affinity rules")
    } else if standing_pods_object(view, pod, state) {
        Some("node(s) didn't satisfy existing pods anti-affinity rules")
    } else {
        None
    };
    objection.map(str::to_owned).into_iter().collect()
}

/// Every affinity term has a match in the node's domain; the first pod of a group that selects itself may stand alone.
fn affinity_holds(view: &View, pod: &PodInfo, state: &NodeState) -> bool {
    let terms = pod.list(&["affinity", "podAffinity", REQUIRED]);
    if terms.iter().all(|term| shares_domain(view, pod, state, term)) {
        return true;
    }
    let has_keys = terms.iter().all(|term| state.node.labels.contains_key(topology_key(term)));
    let nobody_matches =
        view.nodes().all(|other| other.pods.values().all(|p| !terms.iter().any(|t| term_selects(t, pod, p))));
    has_keys && nobody_matches && terms.iter().all(|term| term_selects(term, pod, pod))
}

fn topology_key(term: &Value) -> &str {
    term.get("topologyKey").and_then(Value::as_str).unwrap_or_default()
}

/// Whether a pod that the term of `owner` selects stands in the same domain as `state`.
fn shares_domain(view: &View, owner: &PodInfo, state: &NodeState, term: &Value) -> bool {
    let key = topology_key(term);
    let Some(domain) = state.node.labels.get(key) else { return false };
    let mut same = view.nodes().filter(|other| other.node.labels.get(key) == Some(domain));
    same.any(|other| other.pods.values().any(|pod| term_selects(term, owner, pod)))
}

fn term_selects(term: &Value, owner: &PodInfo, pod: &PodInfo) -> bool {
    let named = term.get("namespaces").and_then(Value::as_array).filter(|names| !names.is_empty());
    let everywhere = term.get("namespaceSelector").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty);
    let namespace_fits = match named {
        Some(names) => names.iter().any(|name| name.as_str() == Some(pod.namespace())),
        None => owner.namespace() == pod.namespace(),
    };
    (namespace_fits || everywhere) && label_selector_matches(term.get("labelSelector"), &pod.labels)
}

fn standing_pods_object(view: &View, pod: &PodInfo, state: &NodeState) -> bool {
    view.nodes().any(|other| {
        other.pods.values().any(|standing| {
            standing.list(&["affinity", "podAntiAffinity", REQUIRED]).iter().any(|term| {
                let (here, there) =
                    (state.node.labels.get(topology_key(term)), other.node.labels.get(topology_key(term)));
                here.is_some() && here == there && term_selects(term, standing, pod)
            })
        })
    })
}
