//! What scheduling needs to know of a node.

use std::collections::{BTreeMap, BTreeSet};

use quorate_api::placement;
use serde_json::Value;

use crate::pod::string_map;
use crate::resources::Resources;

pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

impl Taint {
    /// Whether it keeps away pods that do not tolerate it.
    pub fn repels(&self) -> bool {
        self.effect == "NoSchedule" || self.effect == "NoExecute"
    }

    pub fn is_tolerated(&self, tolerations: &[Value]) -> bool {
        let taint = placement::Taint { key: &self.key, value: &self.value, effect: &self.effect };
        tolerations.iter().any(|own| placement::Toleration::from_json(own).tolerates(taint))
    }
}

/// The projection of a Node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeInfo {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    pub allocatable: Resources,
    pub images: BTreeSet<String>,
}

impl NodeInfo {
    pub fn from_json(node: &Value) -> Option<Self> {
        let name = node.pointer("/metadata/name")?.as_str()?.to_owned();
        let list = |pointer: &str| node.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let taint = |taint: &Value| Taint {
            key: text(taint, "key"),
            value: text(taint, "value"),
            effect: text(taint, "effect"),
        };
        let names =
            list("/status/images").flat_map(|image| image.get("names").and_then(Value::as_array).into_iter().flatten());
        Some(Self {
            name,
            labels: string_map(node.pointer("/metadata/labels")),
            taints: list("/spec/taints").map(taint).collect(),
            unschedulable: node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false),
            allocatable: Resources::from_json(node.pointer("/status/allocatable")),
            images: names.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
        })
    }

    /// Whether `other` offers the same to pods; images only weigh.
    pub fn offers_as(&self, other: &Self) -> bool {
        self.labels == other.labels
            && self.taints == other.taints
            && self.unschedulable == other.unschedulable
            && self.allocatable == other.allocatable
    }

    pub fn zone(&self) -> Option<&str> {
        self.labels.get(ZONE_LABEL).map(String::as_str)
    }
}
