//! What scheduling needs to know of a node.

use std::collections::{BTreeMap, BTreeSet};

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

    pub fn zone(&self) -> Option<&str> {
        self.labels.get(ZONE_LABEL).map(String::as_str)
    }
}
