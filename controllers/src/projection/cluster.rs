//! Nodes, namespaces and what each namespace is given.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use serde::{Deserialize, Serialize};

use super::{Condition, projected};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    pub metadata: ObjectMeta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    pub effect: String,
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lease {
    pub metadata: ObjectMeta,
    pub spec: LeaseSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    pub renew_time: Option<MicroTime>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Namespace {
    pub metadata: ObjectMeta,
    pub spec: NamespaceSpec,
    pub status: NamespaceStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceSpec {
    pub finalizers: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceStatus {
    pub phase: String,
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceAccount {
    pub metadata: ObjectMeta,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMap {
    pub metadata: ObjectMeta,
    pub data: BTreeMap<String, String>,
}

/// A bootstrap token, without what it opens.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Secret {
    pub metadata: ObjectMeta,
    #[serde(rename = "type")]
    pub kind: String,
    pub data: SecretData,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SecretData {
    pub expiration: Option<ByteString>,
}

projected!(Secret, NamespaceResourceScope);
projected!(Node, ClusterResourceScope);
projected!(Lease, NamespaceResourceScope);
projected!(Namespace, ClusterResourceScope);
projected!(ServiceAccount, NamespaceResourceScope);
projected!(ConfigMap, NamespaceResourceScope);

impl Node {
    pub fn zone(&self) -> Option<&String> {
        self.metadata.labels.as_ref().and_then(|labels| labels.get("topology.kubernetes.io/zone"))
    }

    /// Region and zone: where nodes fail together.
    pub fn failure_domain(&self) -> (String, String) {
        let label = |key: &str| self.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        (
            label("topology.kubernetes.io/region").unwrap_or_default(),
            label("topology.kubernetes.io/zone").unwrap_or_default(),
        )
    }
}
