//! Which of several pods goes first.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::projection::{Pod, Projected, condition};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorted so that the pods that are missed least come first: not yet placed, not running, not ready, cheap by their own
/// account, crowded on their node, ready for a short time, often restarted, young.
pub(super) fn first_to_go(pods: &[Arc<Pod>], neighbours: &BTreeMap<String, usize>, now: Timestamp) -> Vec<Arc<Pod>> {
    let mut sorted = pods.to_vec();
    sorted.sort_by(|a, b| compare(a, b, neighbours, now));
    sorted
}

fn compare(a: &Pod, b: &Pod, neighbours: &BTreeMap<String, usize>, now: Timestamp) -> Ordering {
    let placed = |pod: &Pod| !pod.spec.node_name.is_empty();
    let crowd = |pod: &Pod| Reverse(neighbours.get(&pod.spec.node_name).copied().unwrap_or(0));
    let restarts = |pod: &Pod| {
        Reverse(pod.status.container_statuses.iter().map(|status| i64::from(status.restart_count)).max().unwrap_or(0))
    };
    placed(a)
        .cmp(&placed(b))
        .then_with(|| phase_order(a).cmp(&phase_order(b)))
        .then_with(|| a.is_ready().cmp(&b.is_ready()))
        .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
        .then_with(|| crowd(a).cmp(&crowd(b)))
        .then_with(|| age_order(ready_since(a), ready_since(b), now))
        .then_with(|| restarts(a).cmp(&restarts(b)))
        .then_with(|| age_order(Some(a.created()), Some(b.created()), now))
        .then_with(|| a.uid().cmp(b.uid()))
}

fn phase_order(pod: &Pod) -> u8 {
    match pod.status.phase.as_str() {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    pod.annotations().get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(&pod.status.conditions, "Ready").filter(|ready| ready.status == "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// The younger goes first, but ages are compared by their power of two only: among pods of about one age, chance
/// decides and not the order in which they were made.
fn age_order(a: Option<Timestamp>, b: Option<Timestamp>, now: Timestamp) -> Ordering {
    let bucket = |time: Option<Timestamp>| {
        let age = time.map_or(0, |time| now.as_nanosecond() - time.as_nanosecond());
        if age <= 0 { 0 } else { age.ilog2() + 1 }
    };
    bucket(a).cmp(&bucket(b))
}
