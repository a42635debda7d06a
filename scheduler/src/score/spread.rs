//! Pods of one kind spread over host names and zones: those of a soft constraint, else those that services or an owner
//! select alike (upstream's system defaults).

use std::collections::BTreeMap;

use super::MAX_SCORE;
use crate::constraint::Spread;
use crate::filter::topology_spread::{count_selected, is_eligible};
use crate::node::{HOSTNAME_LABEL, ZONE_LABEL};
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

/// Upstream's default constraints and their skews.
const DEFAULTS: [(&str, i64); 2] = [(HOSTNAME_LABEL, 3), (ZONE_LABEL, 5)];

pub(super) fn rate(view: &View, pod: &PodInfo, nodes: &[&NodeState]) -> Vec<i64> {
    // A node without a zone still takes part in spreading by default, but not in what a pod asks for itself.
    let defaulted = pod.spread.is_empty();
    let constraints =
        if defaulted { defaults(view, pod) } else { pod.spread.iter().filter(|c| !c.hard).cloned().collect() };
    if constraints.is_empty() {
        return vec![0; nodes.len()];
    }
    let counts_in = |state: &NodeState| {
        defaulted || constraints.iter().all(|constraint| state.node.labels.contains_key(&constraint.topology_key))
    };
    let rated: Vec<&NodeState> = nodes.iter().copied().filter(|state| counts_in(state)).collect();
    let mut crowds = vec![0.0; rated.len()];
    for constraint in &constraints {
        let counts = counts(view, pod, constraint, &rated, &counts_in);
        let domains = if constraint.topology_key == HOSTNAME_LABEL { rated.len() } else { counts.len() };
        for (crowd, state) in crowds.iter_mut().zip(&rated) {
            let Some(domain) = state.node.labels.get(&constraint.topology_key) else { continue };
            let count = match constraint.topology_key.as_str() {
                HOSTNAME_LABEL => count_selected(constraint, pod, state),
                _ => counts.get(domain.as_str()).copied().unwrap_or(0),
            };
            *crowd += weighed(count, constraint.max_skew, domains);
        }
    }
    let mut scores = spread_out(&crowds).into_iter();
    nodes.iter().map(|state| if counts_in(state) { scores.next().unwrap_or(0) } else { 0 }).collect()
}

/// How many of the constraint's pods stand in each domain of the nodes that are rated.
fn counts<'a>(
    view: &View,
    pod: &PodInfo,
    constraint: &Spread,
    rated: &[&'a NodeState],
    counts_in: &impl Fn(&NodeState) -> bool,
) -> BTreeMap<&'a str, i64> {
    let key = constraint.topology_key.as_str();
    if key == HOSTNAME_LABEL {
        return BTreeMap::new();
    }
    let domains = rated.iter().filter_map(|state| state.node.labels.get(key));
    let mut counts: BTreeMap<&str, i64> = domains.map(|domain| (domain.as_str(), 0)).collect();
    for state in view.nodes().filter(|state| counts_in(state) && is_eligible(constraint, pod, &state.node)) {
        let count = state.node.labels.get(key).and_then(|domain| counts.get_mut(domain.as_str()));
        if let Some(count) = count {
            *count += count_selected(constraint, pod, state);
        }
    }
    counts
}

/// The more domains there are, the more a pod in one of them counts; a larger skew waters differences down.
#[expect(clippy::cast_precision_loss, reason = "counts of pods and nodes are far below 2^52")]
fn weighed(count: i64, max_skew: i64, domains: usize) -> f64 {
    count as f64 * ((domains + 2) as f64).ln() + (max_skew - 1) as f64
}

/// The emptiest gets the maximum, the fullest the least.
#[expect(clippy::cast_possible_truncation, reason = "sums of weighed counts of pods are far below 2^63")]
fn spread_out(crowds: &[f64]) -> Vec<i64> {
    let crowds: Vec<i64> = crowds.iter().map(|crowd| crowd.round() as i64).collect();
    let (min, max) = (crowds.iter().min().copied().unwrap_or(0), crowds.iter().max().copied().unwrap_or(0));
    crowds.iter().map(|crowd| if max == 0 { MAX_SCORE } else { MAX_SCORE * (max + min - crowd) / max }).collect()
}

fn defaults(view: &View, pod: &PodInfo) -> Vec<Spread> {
    let selector = view.default_selector(pod);
    if selector.is_everything() {
        return Vec::new();
    }
    DEFAULTS.map(|(key, skew)| Spread::default_for(key, skew, selector.clone())).to_vec()
}
