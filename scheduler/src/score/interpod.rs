//! Preferred pod affinity and anti-affinity, in both directions, and the required affinity of pods that stand: they
//! would like the pod near.

use std::collections::BTreeMap;

use super::MAX_SCORE;
use crate::constraint::Term;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

/// What a standing pod's required affinity weighs (upstream's `hardPodAffinityWeight`).
const REQUIRED_WEIGHT: i64 = 1;

/// Topology key and value → the sum of the weights that speak for it.
type Pull<'a> = BTreeMap<(&'a str, &'a str), i64>;

pub(super) fn rate(view: &View, pod: &PodInfo, nodes: &[&NodeState]) -> Vec<i64> {
    let mut pull = Pull::new();
    if pod.affinity.weighs() {
        for state in view.nodes() {
            for standing in state.pods.values() {
                own_terms(&mut pull, view, pod, standing, &state.node);
            }
        }
    }
    let labels = view.namespace_labels(pod.namespace());
    for (standing, node) in view.affine_pods() {
        for term in &standing.affinity.required {
            add(&mut pull, term, REQUIRED_WEIGHT, term.selects(pod, labels), node);
        }
        for (weight, term) in &standing.affinity.preferred {
            add(&mut pull, term, *weight, term.selects(pod, labels), node);
        }
        for (weight, term) in &standing.affinity.preferred_anti {
            add(&mut pull, term, -weight, term.selects(pod, labels), node);
        }
    }
    let sum = |state: &&NodeState| {
        let felt = pull.iter().filter(|((key, value), _)| state.node.labels.get(*key).is_some_and(|own| own == value));
        felt.map(|(_, weight)| weight).sum()
    };
    stretched(&nodes.iter().map(sum).collect::<Vec<i64>>())
}

fn own_terms<'a>(pull: &mut Pull<'a>, view: &View, pod: &'a PodInfo, standing: &PodInfo, node: &'a NodeInfo) {
    let labels = view.namespace_labels(standing.namespace());
    for (weight, term) in &pod.affinity.preferred {
        add(pull, term, *weight, term.selects(standing, labels), node);
    }
    for (weight, term) in &pod.affinity.preferred_anti {
        add(pull, term, -weight, term.selects(standing, labels), node);
    }
}

fn add<'a>(pull: &mut Pull<'a>, term: &'a Term, weight: i64, selected: bool, node: &'a NodeInfo) {
    if let Some(value) = node.labels.get(&term.topology_key).filter(|_| selected) {
        *pull.entry((&term.topology_key, value)).or_default() += weight;
    }
}

/// The least becomes 0, the largest the maximum; equal ones say nothing.
fn stretched(sums: &[i64]) -> Vec<i64> {
    let (min, max) = (sums.iter().min().copied().unwrap_or(0), sums.iter().max().copied().unwrap_or(0));
    sums.iter().map(|sum| if max == min { 0 } else { MAX_SCORE * (sum - min) / (max - min) }).collect()
}
