//! The rules that a node must pass, in upstream's order, one file each. A rule answers with upstream's words for what
//! was in the way, because people and autoscalers read them.

pub mod interpod;
pub mod node_affinity;
pub mod node_name;
pub mod node_ports;
pub mod resources_fit;
pub mod taints;
pub mod topology_spread;
pub mod unschedulable;
pub mod volumes;

use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::view::{NodeState, View};

/// The rules, in the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Unschedulable,
    NodeName,
    Taints,
    NodeAffinity,
    NodePorts,
    Resources,
    Volumes,
    TopologySpread,
    InterPod,
}

/// Some of the rules: those that kept a pod waiting, or those that a change may have turned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleSet(u16);

/// What a rule holds against a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reasons: Vec<String>,
    /// Whether it might go away with pods that stand on the node (else upstream's `UnschedulableAndUnresolvable`).
    pub removable: bool,
}

/// A refusal with its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    pub rule: Rule,
    pub refusal: Refusal,
}

/// One pod before the whole view: what the rules about other pods count is counted once, not once per node.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    pub view: &'a View,
    pub pod: &'a PodInfo,
    spread: Vec<topology_spread::Count<'a>>,
    neighbours: interpod::Neighbours,
}

type Judge = fn(&Situation<'_>, &NodeState) -> Option<Refusal>;

/// The first rule that objects decides the reason, as upstream.
const FILTERS: [(Rule, Judge); 9] = [
    (Rule::Unschedulable, unschedulable::judge),
    (Rule::NodeName, node_name::judge),
    (Rule::Taints, taints::judge),
    (Rule::NodeAffinity, node_affinity::judge),
    (Rule::NodePorts, node_ports::judge),
    (Rule::Resources, resources_fit::judge),
    (Rule::Volumes, volumes::judge),
    (Rule::TopologySpread, topology_spread::judge),
    (Rule::InterPod, interpod::judge),
];

// === impl RuleSet ===

impl RuleSet {
    pub const ALL: Self = Self(u16::MAX);
    /// The rules that look at pods which stand.
    pub const NEIGHBOURS: Self = Self::of(&[Rule::TopologySpread, Rule::InterPod]);
    /// What a pod that leaves a node, or asks for less, may free.
    pub const FREED: Self = Self::of(&[Rule::NodePorts, Rule::Resources, Rule::TopologySpread, Rule::InterPod]);

    pub const fn of(rules: &[Rule]) -> Self {
        let (mut bits, mut at) = (0_u16, 0);
        while at < rules.len() {
            bits |= 1 << rules[at] as u16;
            at += 1;
        }
        Self(bits)
    }

    pub fn insert(&mut self, rule: Rule) {
        self.0 |= Self::of(&[rule]).0;
    }

    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

// === impl Refusal ===

impl Refusal {
    fn lasting(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], removable: false }
    }

    fn removable(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], removable: true }
    }
}

// === impl Situation ===

impl<'a> Situation<'a> {
    pub fn of(view: &'a View, pod: &'a PodInfo) -> Self {
        let spread = topology_spread::counts(view, pod);
        Self { view, pod, spread, neighbours: interpod::Neighbours::of(view, pod) }
    }

    /// As if a pod that stands on `node` were not there.
    pub fn remove(&mut self, gone: &PodInfo, node: &NodeInfo) {
        topology_spread::remove(&mut self.spread, self.pod, gone, node);
        self.neighbours.count(self.view, self.pod, gone, node, -1);
    }

    /// What keeps the pod off every node, whatever they are like (upstream's `PreFilter`), and the rule that says so.
    pub fn obstacle(&self) -> Option<(Rule, String)> {
        Some((Rule::Volumes, volumes::missing(self.view, self.pod)?))
    }

    /// What keeps the pod off the node, if anything.
    pub fn objection(&self, state: &NodeState) -> Option<Objection> {
        FILTERS.iter().find_map(|(rule, judge)| Some(Objection { rule: *rule, refusal: judge(self, state)? }))
    }
}
