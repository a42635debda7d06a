//! Required pod affinity and anti-affinity, in both directions: the pod's own terms, and those of pods that stand.

use std::collections::BTreeMap;

use super::{Refusal, Situation};
use crate::constraint::Term;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

/// Topology key → its value → how many pods.
type Domains = BTreeMap<String, BTreeMap<String, i64>>;

/// Pods that matter to the pod, by the domains they stand in.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours {
    /// Those that all of the pod's affinity terms select.
    wanted: Domains,
    /// Those that one of its anti-affinity terms selects.
    shunned: Domains,
    /// Those whose own anti-affinity selects the pod.
    shunning: Domains,
}

pub(super) fn judge(situation: &Situation<'_>, state: &NodeState) -> Option<Refusal> {
    let (neighbours, affinity) = (&situation.neighbours, &situation.pod.affinity);
    if !neighbours.affinity_holds(situation, &state.node) {
        return Some(Refusal::lasting("node(s) didn't match pod affinity rules"));
    }
    if affinity.required_anti.iter().any(|term| here(&neighbours.shunned, &state.node, &term.topology_key)) {
        return Some(Refusal::removable("node(s) didn't match pod anti-affinity rules"));
    }
    let shunned = neighbours.shunning.keys().any(|key| here(&neighbours.shunning, &state.node, key));
    shunned.then(|| Refusal::removable("node(s) didn't satisfy existing pods anti-affinity rules"))
}

fn here(domains: &Domains, node: &NodeInfo, key: &str) -> bool {
    let count = || domains.get(key)?.get(node.labels.get(key)?).copied();
    count().is_some_and(|count| count > 0)
}

fn add(domains: &mut Domains, node: &NodeInfo, key: &str, delta: i64) {
    if let Some(value) = node.labels.get(key) {
        *domains.entry(key.to_owned()).or_default().entry(value.clone()).or_default() += delta;
    }
}

impl Neighbours {
    pub(super) fn of(view: &View, pod: &PodInfo) -> Self {
        let mut neighbours = Self::default();
        if pod.affinity.required.is_empty() && pod.affinity.required_anti.is_empty() {
            for (standing, node) in view.affine_pods() {
                neighbours.count(view, pod, standing, node, 1);
            }
            return neighbours;
        }
        for state in view.nodes() {
            for standing in state.pods.values() {
                neighbours.count(view, pod, standing, &state.node, 1);
            }
        }
        neighbours
    }

    /// Counts a pod that stands on `node` in (1) or out (-1).
    pub(super) fn count(&mut self, view: &View, pod: &PodInfo, standing: &PodInfo, node: &NodeInfo, delta: i64) {
        let labels = view.namespace_labels(standing.namespace());
        if selected_by_all(&pod.affinity.required, standing, labels) {
            for term in &pod.affinity.required {
                add(&mut self.wanted, node, &term.topology_key, delta);
            }
        }
        for term in pod.affinity.required_anti.iter().filter(|term| term.selects(standing, labels)) {
            add(&mut self.shunned, node, &term.topology_key, delta);
        }
        let own_labels = view.namespace_labels(pod.namespace());
        for term in standing.affinity.required_anti.iter().filter(|term| term.selects(pod, own_labels)) {
            add(&mut self.shunning, node, &term.topology_key, delta);
        }
    }

    /// Every affinity term has a match in the node's domain; the first pod of a group that selects itself may stand
    /// alone.
    fn affinity_holds(&self, situation: &Situation<'_>, node: &NodeInfo) -> bool {
        let (pod, terms) = (situation.pod, &situation.pod.affinity.required);
        if !terms.iter().all(|term| node.labels.contains_key(&term.topology_key)) {
            return false;
        }
        if terms.iter().all(|term| here(&self.wanted, node, &term.topology_key)) {
            return true;
        }
        let nobody = self.wanted.values().flat_map(BTreeMap::values).all(|count| *count == 0);
        nobody && selected_by_all(terms, pod, situation.view.namespace_labels(pod.namespace()))
    }
}

/// Not by none of them: no terms select nobody.
fn selected_by_all(terms: &[Term], pod: &PodInfo, namespace_labels: &BTreeMap<String, String>) -> bool {
    !terms.is_empty() && terms.iter().all(|term| term.selects(pod, namespace_labels))
}
