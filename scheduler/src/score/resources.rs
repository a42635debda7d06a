//! Empty nodes are better (LeastAllocated), and nodes whose CPU and memory are used alike (BalancedAllocation).

use super::MAX_SCORE;
use crate::pod::PodInfo;
use crate::resources::{CPU, MEMORY};
use crate::view::{NodeState, View};

pub(super) fn least_allocated(_view: &View, pod: &PodInfo, nodes: &[&NodeState]) -> Vec<i64> {
    let free_share = |state: &&NodeState| {
        let shares = [CPU, MEMORY].map(|resource| {
            let (capacity, used) = usage(pod, state, resource);
            if capacity == 0 || used > capacity { 0 } else { (capacity - used) * MAX_SCORE / capacity }
        });
        shares.iter().sum::<i64>() / 2
    };
    nodes.iter().map(free_share).collect()
}

/// 100 minus the spread between the used shares of CPU and memory, in parts per thousand to stay in integers.
pub(super) fn balanced(_view: &View, pod: &PodInfo, nodes: &[&NodeState]) -> Vec<i64> {
    let balance = |state: &&NodeState| {
        let [cpu, memory] = [CPU, MEMORY].map(|resource| {
            let (capacity, used) = usage(pod, state, resource);
            if capacity == 0 { 1000 } else { (i128::from(used) * 1000 / i128::from(capacity)).min(1000) }
        });
        // Two values deviate from their mean by half their difference.
        let deviation = i64::try_from((cpu - memory).abs() / 2).unwrap_or(1000);
        MAX_SCORE - deviation * MAX_SCORE / 1000
    };
    nodes.iter().map(balance).collect()
}

/// Capacity, and what would be used with the pod, counting an assumed amount for containers that request none.
fn usage(pod: &PodInfo, state: &NodeState, resource: &str) -> (i64, i64) {
    let used = state.assumed_requested.get(resource).saturating_add(pod.assumed_requests.get(resource));
    (state.node.allocatable.get(resource), used)
}
