//! Hard topology spread constraints (KEP-895): the difference between the fullest choice and the emptiest domain must
//! stay within `maxSkew`.

use std::collections::BTreeMap;

use super::{Refusal, Situation, node_affinity, taints};
use crate::constraint::Spread;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

/// A hard constraint, and how many of its pods stand in each eligible domain.
#[derive(Clone, Debug)]
pub(super) struct Count<'a> {
    constraint: &'a Spread,
    domains: BTreeMap<String, i64>,
}

pub(super) fn judge(situation: &Situation<'_>, state: &NodeState) -> Option<Refusal> {
    situation.spread.iter().find_map(|count| count.objection(situation.pod, &state.node))
}

/// The counts of the pod's hard constraints, over all nodes that have every one of their topology keys.
pub(super) fn counts<'a>(view: &View, pod: &'a PodInfo) -> Vec<Count<'a>> {
    let hard = pod.spread.iter().filter(|constraint| constraint.hard);
    let mut counts: Vec<Count<'a>> = hard.map(|constraint| Count { constraint, domains: BTreeMap::new() }).collect();
    if counts.is_empty() {
        return counts;
    }
    for state in view.nodes() {
        if !has_all_keys(&counts, &state.node) {
            continue;
        }
        for Count { constraint, domains } in &mut counts {
            let Some(domain) = state.node.labels.get(&constraint.topology_key) else { continue };
            if is_eligible(constraint, pod, &state.node) {
                *domains.entry(domain.clone()).or_default() += count_selected(constraint, pod, state);
            }
        }
    }
    counts
}

/// As if a pod that stands on `node` were not there.
pub(super) fn remove(counts: &mut [Count<'_>], pod: &PodInfo, gone: &PodInfo, node: &NodeInfo) {
    if !has_all_keys(counts, node) {
        return;
    }
    for Count { constraint, domains } in counts {
        let domain = node.labels.get(&constraint.topology_key).and_then(|domain| domains.get_mut(domain));
        if let Some(count) = domain
            && is_eligible(constraint, pod, node)
            && is_selected(constraint, pod, gone)
        {
            *count -= 1;
        }
    }
}

impl Count<'_> {
    fn objection(&self, pod: &PodInfo, node: &NodeInfo) -> Option<Refusal> {
        let Self { constraint, domains } = self;
        let Some(domain) = node.labels.get(&constraint.topology_key) else {
            return Some(Refusal::lasting(
                "node(s) didn't match pod topology spread constraints (missing required label)",
            ));
        };
        let too_few = domains.len() < constraint.min_domains;
        let least = if too_few { 0 } else { domains.values().copied().min().unwrap_or(0) };
        let own = i64::from(constraint.selector.matches(&pod.labels));
        let after = domains.get(domain).copied().unwrap_or(0) + own;
        (after - least > constraint.max_skew)
            .then(|| Refusal::removable("node(s) didn't match pod topology spread constraints"))
    }
}

fn has_all_keys(counts: &[Count<'_>], node: &NodeInfo) -> bool {
    counts.iter().all(|count| node.labels.contains_key(&count.constraint.topology_key))
}

/// Whether the node's pods count, as the constraint's inclusion policies say (KEP-3094).
pub(crate) fn is_eligible(constraint: &Spread, pod: &PodInfo, node: &NodeInfo) -> bool {
    (!constraint.honors_affinity || node_affinity::matches(pod, node))
        && (!constraint.honors_taints || taints::tolerates(pod, node))
}

/// A pod that is going no longer counts, and a selector of everything counts nobody, as upstream.
fn is_selected(constraint: &Spread, pod: &PodInfo, other: &PodInfo) -> bool {
    other.namespace() == pod.namespace()
        && !other.deleting
        && !constraint.selector.is_everything()
        && constraint.selector.matches(&other.labels)
}

/// How many of the node's pods the constraint selects.
pub(crate) fn count_selected(constraint: &Spread, pod: &PodInfo, state: &NodeState) -> i64 {
    let selected = state.pods.values().filter(|other| is_selected(constraint, pod, other));
    i64::try_from(selected.count()).unwrap_or(i64::MAX)
}
