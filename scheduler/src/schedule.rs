//! The pure decision: which node, or why none.

use std::collections::BTreeMap;

use crate::filter::{Objection, RuleSet, Situation};
use crate::pod::PodInfo;
use crate::preemption;
use crate::score::totals;
use crate::view::{NodeState, View};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Bind { node: String },
    Unschedulable(Diagnosis),
}

/// Why no node would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    pub nodes: usize,
    /// What is in the way whatever the node.
    pub obstacle: Option<String>,
    /// Reason → on how many nodes.
    pub reasons: BTreeMap<String, usize>,
    /// The rules that objected anywhere: only what may turn one of them is worth another try.
    pub rules: RuleSet,
    /// What preemption has to say to it.
    pub preemption: Option<String>,
}

impl std::fmt::Display for Diagnosis {
    /// Upstream's `FitError`: `0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption:
    /// 0/2 nodes are available: …`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        match &self.obstacle {
            Some(obstacle) => write!(f, "0/{} nodes are available: {obstacle}.", self.nodes)?,
            None => f.write_str(&unavailable(self.nodes, &self.reasons))?,
        }
        self.preemption.as_ref().map_or(Ok(()), |outlook| write!(f, " preemption: {outlook}"))
    }
}

/// How many nodes of how many will do (none), and why.
pub(crate) fn unavailable(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    let mut texts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    texts.sort();
    let texts = if texts.is_empty() { String::new() } else { format!(" {}.", texts.join(", ")) };
    format!("0/{nodes} nodes are available:{texts}")
}

/// `sequence` takes the place of upstream's random choice among equals: it makes pods rotate over nodes of equal score.
pub fn schedule(view: &View, pod: &PodInfo, sequence: u64) -> Decision {
    let situation = Situation::of(view, pod);
    if let Some((rule, obstacle)) = situation.obstacle() {
        let nodes = view.nodes().len();
        return Decision::Unschedulable(Diagnosis {
            nodes,
            obstacle: Some(obstacle),
            reasons: BTreeMap::new(),
            // The nodes were not asked: any of them may be in the way too, once this is not.
            rules: if nodes == 0 { RuleSet::ALL } else { RuleSet::of(&[rule]) },
            preemption: Some(preemption::outlook_everywhere(&situation, nodes)),
        });
    }
    let (mut feasible, mut refused) = (Vec::new(), Vec::new());
    for state in view.nodes() {
        match situation.objection(state) {
            Some(objection) => refused.push((state, objection)),
            None => feasible.push(state),
        }
    }
    match best(view, pod, &feasible, sequence) {
        Some(state) => Decision::Bind { node: state.node.name.clone() },
        None => Decision::Unschedulable(diagnose(&situation, &refused)),
    }
}

fn diagnose(situation: &Situation<'_>, refused: &[(&NodeState, Objection)]) -> Diagnosis {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut rules = if refused.is_empty() { RuleSet::ALL } else { RuleSet::default() };
    for (_, objection) in refused {
        rules.insert(objection.rule);
        for reason in &objection.refusal.reasons {
            *reasons.entry(reason.clone()).or_default() += 1;
        }
    }
    let preemption = preemption::outlook(situation, refused);
    Diagnosis { nodes: refused.len(), obstacle: None, reasons, rules, preemption }
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
