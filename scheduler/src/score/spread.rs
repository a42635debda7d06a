//! Pods of one controller, or those of a soft constraint, spread over zones and host names (upstream's system defaults:
//! skew 3 over host names and 5 over zones for pods with a controller).

use serde_json::{Value, json};

use super::MAX_SCORE;
use crate::filter::topology_spread::domain_counts;
use crate::node::{HOSTNAME_LABEL, ZONE_LABEL};
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

pub(super) fn rate(view: &View, pod: &PodInfo, nodes: &[&NodeState]) -> Vec<i64> {
    let constraints = soft_constraints(pod);
    let mut crowds = vec![0; nodes.len()];
    for constraint in &constraints {
        let key = constraint.get("topologyKey").and_then(Value::as_str).unwrap_or_default();
        let counts = domain_counts(view, pod, constraint, key);
        // The more domains there are, the more an unevenness in one of them counts, as upstream's log weight does.
        let weight = 100 + i64::from(counts.len().checked_ilog2().unwrap_or(0)) * 10;
        for (crowd, state) in crowds.iter_mut().zip(nodes) {
            let own = state.node.labels.get(key).and_then(|domain| counts.get(domain.as_str())).copied().unwrap_or(0);
            *crowd += own * weight;
        }
    }
    spread_out(&crowds)
}

/// The emptiest gets the maximum, the fullest the least.
fn spread_out(crowds: &[i64]) -> Vec<i64> {
    let (min, max) = (crowds.iter().min().copied().unwrap_or(0), crowds.iter().max().copied().unwrap_or(0));
    crowds.iter().map(|crowd| if max == 0 { MAX_SCORE } else { MAX_SCORE * (max + min - crowd) / max }).collect()
}

fn soft_constraints(pod: &PodInfo) -> Vec<Value> {
    let own = pod.list(&["topologySpreadConstraints"]);
    if !own.is_empty() {
        let soft = own.iter().filter(|c| c.get("whenUnsatisfiable").and_then(Value::as_str) == Some("ScheduleAnyway"));
        return soft.cloned().collect();
    }
    if pod.controller.is_none() || pod.labels.is_empty() {
        return Vec::new();
    }
    let selector = json!({"matchLabels": pod.labels});
    [HOSTNAME_LABEL, ZONE_LABEL].map(|key| json!({"topologyKey": key, "labelSelector": selector})).to_vec()
}
