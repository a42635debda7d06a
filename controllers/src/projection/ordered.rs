//! Workloads whose pods have a place of their own: one per node, or one per number.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::int_or_string::IntOrString;
use serde::Deserialize;
use serde_json::Value;

use super::{Condition, projected};

/// A template as it once was.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerRevision {
    pub metadata: ObjectMeta,
    pub revision: i64,
    pub data: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSet {
    pub metadata: ObjectMeta,
    pub spec: DaemonSetSpec,
    pub status: DaemonSetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    pub selector: Value,
    pub template: Value,
    pub update_strategy: OrderedStrategy,
    pub min_ready_seconds: i32,
    pub revision_history_limit: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OrderedStrategy {
    #[serde(rename = "type")]
    pub kind: String,
    pub rolling_update: OrderedRollingUpdate,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OrderedRollingUpdate {
    pub max_surge: Option<IntOrString>,
    pub max_unavailable: Option<IntOrString>,
    /// Only numbers from this one on are updated.
    pub partition: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    pub current_number_scheduled: i32,
    pub number_misscheduled: i32,
    pub desired_number_scheduled: i32,
    pub number_ready: i32,
    pub observed_generation: i64,
    pub updated_number_scheduled: i32,
    pub number_available: i32,
    pub number_unavailable: i32,
    pub collision_count: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSet {
    pub metadata: ObjectMeta,
    pub spec: StatefulSetSpec,
    pub status: StatefulSetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetSpec {
    pub replicas: Option<i32>,
    pub selector: Value,
    pub template: Value,
    pub volume_claim_templates: Vec<Value>,
    pub service_name: String,
    pub pod_management_policy: String,
    pub update_strategy: OrderedStrategy,
    pub revision_history_limit: Option<i32>,
    pub min_ready_seconds: i32,
    pub ordinals: BTreeMap<String, i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetStatus {
    pub observed_generation: i64,
    pub replicas: i32,
    pub ready_replicas: i32,
    pub current_replicas: i32,
    pub updated_replicas: i32,
    pub available_replicas: i32,
    pub current_revision: String,
    pub update_revision: String,
    pub collision_count: Option<i32>,
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaim {
    pub metadata: ObjectMeta,
}

projected!(ControllerRevision, NamespaceResourceScope);
projected!(DaemonSet, NamespaceResourceScope);
projected!(StatefulSet, NamespaceResourceScope);
projected!(PersistentVolumeClaim, NamespaceResourceScope);

impl StatefulSet {
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// The number of the first pod.
    pub fn first_ordinal(&self) -> i32 {
        self.spec.ordinals.get("start").copied().unwrap_or(0)
    }
}
