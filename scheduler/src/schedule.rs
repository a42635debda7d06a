//! The pure decision: which node, or why none.

use std::collections::BTreeMap;

use crate::filter::objections;
use crate::pod::PodInfo;
use crate::score::totals;
use crate::view::{NodeState, View};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Bind { node: String },
    Unschedulable(Diagnosis),
}

/// Why no node would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    pub nodes: usize,
    /// Reason → on how many nodes.
    pub reasons: BTreeMap<String, usize>,
}

impl std::fmt::Display for Diagnosis {
    /// Upstream's `FitError`: `0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        write!(f, "0/{} nodes are available", self.nodes)?;
        let mut texts: Vec<String> = self.reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        texts.sort();
        if texts.is_empty() { Ok(()) } else { write!(f, ": {}.", texts.join(", ")) }
    }
}

/// `sequence` takes the place of upstream's random choice among equals: it makes pods rotate over nodes of equal score.
pub fn schedule(view: &View, pod: &PodInfo, sequence: u64) -> Decision {
    let mut diagnosis = Diagnosis { nodes: view.nodes().len(), reasons: BTreeMap::new() };
    let mut feasible: Vec<&NodeState> = Vec::new();
    for state in view.nodes() {
        let reasons = objections(view, pod, state);
        if reasons.is_empty() {
            feasible.push(state);
        }
        for reason in reasons {
            *diagnosis.reasons.entry(reason).or_default() += 1;
        }
    }
    match best(view, pod, &feasible, sequence) {
        Some(state) => Decision::Bind { node: state.node.name.clone() },
        None => Decision::Unschedulable(diagnosis),
    }
}

fn best<'a>(view: &View, pod: &PodInfo, feasible: &[&'a NodeState], sequence: u64) -> Option<&'a NodeState> {
    let totals = totals(view, pod, feasible);
    let highest = totals.iter().copied().max()?;
    let equals: Vec<&NodeState> =
        feasible.iter().zip(&totals).filter(|(_, total)| **total == highest).map(|(s, _)| *s).collect();
    let turn = sequence % u64::try_from(equals.len()).ok()?;
    equals.get(usize::try_from(turn).ok()?).copied()
}

#[cfg(test)]
mod tests;
