//! Pods.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::{Condition, condition, projected};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: String,
    pub hostname: String,
    pub subdomain: String,
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub tolerations: Vec<Toleration>,
    /// Kept whole: which node a daemon's pod is meant for is said in it.
    pub affinity: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub ports: Vec<ContainerPort>,
    pub restart_policy: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    pub name: String,
    pub container_port: i32,
    pub protocol: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    pub key: String,
    pub operator: String,
    pub value: String,
    pub effect: String,
    pub toleration_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub phase: String,
    pub reason: String,
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    pub conditions: Vec<Condition>,
    pub container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodIp {
    pub ip: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub restart_count: i32,
}

projected!(Pod, NamespaceResourceScope);

impl Pod {
    /// Neither finished nor on its way out: counts as a replica.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && self.metadata.deletion_timestamp.is_none()
    }

    pub fn is_finished(&self) -> bool {
        self.status.phase == "Succeeded" || self.status.phase == "Failed"
    }

    pub fn is_ready(&self) -> bool {
        condition(&self.status.conditions, "Ready").is_some_and(|ready| ready.status == "True")
    }

    /// Ready for at least `min_ready` seconds. `Err` holds how many seconds are missing, if only time is.
    pub fn availability(&self, min_ready: i32, now: jiff::Timestamp) -> Result<(), Option<i64>> {
        if !self.is_ready() {
            return Err(None);
        }
        if min_ready <= 0 {
            return Ok(());
        }
        let since = condition(&self.status.conditions, "Ready").and_then(|ready| ready.last_transition_time.as_ref());
        let missing =
            since.map_or(i64::from(min_ready), |since| since.0.as_second() + i64::from(min_ready) - now.as_second());
        if missing <= 0 { Ok(()) } else { Err(Some(missing)) }
    }

    /// All addresses; the first is the primary one.
    pub fn addresses(&self) -> Vec<&str> {
        if self.status.pod_ips.is_empty() {
            return Some(self.status.pod_ip.as_str()).filter(|ip| !ip.is_empty()).into_iter().collect();
        }
        self.status.pod_ips.iter().map(|own| own.ip.as_str()).collect()
    }

    /// Containers whose ports a service may name: the ordinary ones and the init containers that stay.
    pub fn port_containers(&self) -> impl Iterator<Item = &Container> {
        let sidecars = self.spec.init_containers.iter().filter(|container| container.restart_policy == "Always");
        self.spec.containers.iter().chain(sidecars)
    }
}
