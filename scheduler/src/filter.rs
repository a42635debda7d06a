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

use crate::pod::PodInfo;
use crate::view::{NodeState, View};

/// Reasons why a node cannot take the pod; empty if it can.
pub type Reasons = Vec<String>;

/// A rule: what it is called upstream, and its judgement.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    pub name: &'static str,
    pub judge: fn(&View, &PodInfo, &NodeState) -> Reasons,
}

/// All rules; the first that objects decides the reason, as upstream.
pub const FILTERS: [Filter; 8] = [
    Filter { name: "NodeUnschedulable", judge: unschedulable::judge },
    Filter { name: "NodeName", judge: node_name::judge },
    Filter { name: "TaintToleration", judge: taints::judge },
    Filter { name: "NodeAffinity", judge: node_affinity::judge },
    Filter { name: "NodePorts", judge: node_ports::judge },
    Filter { name: "NodeResourcesFit", judge: resources_fit::judge },
    Filter { name: "PodTopologySpread", judge: topology_spread::judge },
    Filter { name: "InterPodAffinity", judge: interpod::judge },
];

/// What keeps `pod` off the node; empty if nothing does.
pub fn objections(view: &View, pod: &PodInfo, state: &NodeState) -> Reasons {
    FILTERS
        .iter()
        .map(|filter| (filter.judge)(view, pod, state))
        .find(|reasons| !reasons.is_empty())
        .unwrap_or_default()
}
