//! How well a node suits a pod: each rule gives 0 to [`MAX_SCORE`], weighted as upstream's default plugins.

pub mod image_locality;
pub mod interpod;
pub mod node_affinity;
pub mod resources;
pub mod spread;
pub mod taints;

use crate::pod::PodInfo;
use crate::view::{NodeState, View};

pub const MAX_SCORE: i64 = 100;

/// A rule: its name upstream, its weight, and the raw scores of all feasible nodes at once, since some rules compare
/// nodes with each other.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    pub name: &'static str,
    pub weight: i64,
    pub rate: fn(&View, &PodInfo, &[&NodeState]) -> Vec<i64>,
}

pub const SCORES: [Score; 7] = [
    Score { name: "TaintToleration", weight: 3, rate: taints::rate },
    Score { name: "NodeAffinity", weight: 2, rate: node_affinity::rate },
    Score { name: "PodTopologySpread", weight: 2, rate: spread::rate },
    Score { name: "InterPodAffinity", weight: 2, rate: interpod::rate },
    Score { name: "NodeResourcesFit", weight: 1, rate: resources::least_allocated },
    Score { name: "NodeResourcesBalancedAllocation", weight: 1, rate: resources::balanced },
    Score { name: "ImageLocality", weight: 1, rate: image_locality::rate },
];

/// The weighted sum for each node.
pub fn totals(view: &View, pod: &PodInfo, nodes: &[&NodeState]) -> Vec<i64> {
    let mut totals = vec![0; nodes.len()];
    for score in SCORES {
        for (total, rated) in totals.iter_mut().zip((score.rate)(view, pod, nodes)) {
            *total += score.weight * rated;
        }
    }
    totals
}

/// Scales raw values so that the largest becomes [`MAX_SCORE`]; `reverse` prefers small ones (upstream's
/// `DefaultNormalizeScore`).
fn normalize(raw: Vec<i64>, reverse: bool) -> Vec<i64> {
    let max = raw.iter().copied().max().unwrap_or(0);
    let scale = |value: i64| if max == 0 { 0 } else { value * MAX_SCORE / max };
    raw.into_iter().map(|value| if reverse { MAX_SCORE - scale(value) } else { scale(value) }).collect()
}
