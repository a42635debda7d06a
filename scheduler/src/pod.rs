//! What scheduling needs to know of a pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::constraint::{PodAffinity, Spread};
use crate::resources::{Resources, pod_assumed_requests, pod_requests};

/// Namespace and name.
pub type PodKey = (String, String);

/// A port of the node that a pod wants for itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    pub ip: String,
    pub protocol: String,
    pub port: i64,
}

impl HostPort {
    /// Two pods cannot have both: same protocol and port, and the same or an all-encompassing address.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let any = |ip: &str| ip.is_empty() || ip == "0.0.0.0" || ip == "::";
        (&self.protocol, self.port) == (&other.protocol, other.port)
            && (any(&self.ip) || any(&other.ip) || self.ip == other.ip)
    }
}

/// Who manages a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

/// The projection of a Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodInfo {
    pub key: PodKey,
    pub uid: String,
    pub resource_version: String,
    pub labels: BTreeMap<String, String>,
    pub scheduler_name: String,
    /// Empty until the pod is bound.
    pub node_name: String,
    pub requests: Resources,
    pub assumed_requests: Resources,
    pub host_ports: BTreeSet<HostPort>,
    pub priority: i64,
    pub gated: bool,
    pub finished: bool,
    pub deleting: bool,
    pub images: BTreeSet<String>,
    /// By whose selector the pod is spread.
    pub controller: Option<Owner>,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    pub affinity: PodAffinity,
    pub spread: Vec<Spread>,
    /// The volume claims it uses; true for those that are to be made for it alone.
    pub claims: BTreeMap<String, bool>,
    /// What the rules about single nodes read in place.
    pub spec: Map<String, Value>,
}

impl PodInfo {
    /// Nothing if the object is no pod with a name.
    pub fn from_json(pod: &Value) -> Option<Self> {
        let metadata = pod.get("metadata")?;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut spec = pod.get("spec")?.as_object()?.clone();
        let phase = text(pod.pointer("/status/phase"));
        let (namespace, labels) = (text(metadata.get("namespace")), string_map(metadata.get("labels")));
        let info = Self {
            affinity: PodAffinity::from_spec(&spec, &namespace),
            spread: Spread::all(&spec, &labels),
            claims: claims(&spec, metadata),
            key: (namespace, text(metadata.get("name"))),
            uid: text(metadata.get("uid")),
            resource_version: text(metadata.get("resourceVersion")),
            labels,
            scheduler_name: text(spec.get("schedulerName")),
            node_name: text(spec.get("nodeName")),
            requests: pod_requests(&spec),
            assumed_requests: pod_assumed_requests(&spec),
            host_ports: host_ports(&spec),
            priority: spec.get("priority").and_then(Value::as_i64).unwrap_or(0),
            gated: spec.get("schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty()),
            finished: phase == "Succeeded" || phase == "Failed",
            deleting: metadata.get("deletionTimestamp").is_some(),
            images: containers(&spec).map(|container| text(container.get("image"))).collect(),
            controller: controller(metadata),
            never_preempts: spec.get("preemptionPolicy").and_then(Value::as_str) == Some("Never"),
            spec: Map::new(),
        };
        let kept = ["nodeSelector", "affinity", "tolerations"];
        spec.retain(|field, _| kept.contains(&field.as_str()));
        (!info.key.1.is_empty()).then_some(Self { spec, ..info })
    }

    /// Whether `other` is another state of this pod that asks for the same: nothing new to decide on.
    pub fn asks_as(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.labels == other.labels
            && self.spec == other.spec
            && self.spread == other.spread
            && self.requests == other.requests
            && self.priority == other.priority
    }

    pub fn namespace(&self) -> &str {
        &self.key.0
    }

    /// A list below the spec; empty if there is none.
    pub fn list(&self, pointer: &[&str]) -> &[Value] {
        self.value(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// A value below the spec.
    pub fn value(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.spec.get(*first)?, |value, field| value.get(field))
    }
}

/// A JSON object of strings.
pub fn string_map(value: Option<&Value>) -> BTreeMap<String, String> {
    let map = value.and_then(Value::as_object);
    let pairs = map.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    pairs.collect()
}

fn containers(spec: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    spec.get("containers").and_then(Value::as_array).into_iter().flatten()
}

fn host_ports(spec: &Map<String, Value>) -> BTreeSet<HostPort> {
    let text = |port: &Value, field: &str, default: &str| {
        port.get(field).and_then(Value::as_str).unwrap_or(default).to_owned()
    };
    // Restartable init containers hold their ports as long as the pod runs.
    let sidecars = spec.get("initContainers").and_then(Value::as_array).into_iter().flatten();
    let sidecars = sidecars.filter(|one| one.get("restartPolicy").and_then(Value::as_str) == Some("Always"));
    let ports = containers(spec)
        .chain(sidecars)
        .flat_map(|container| container.get("ports").and_then(Value::as_array).into_iter().flatten());
    let wanted = ports.filter_map(|port| {
        let number = port.get("hostPort").and_then(Value::as_i64).filter(|number| *number > 0)?;
        Some(HostPort { ip: text(port, "hostIP", ""), protocol: text(port, "protocol", "TCP"), port: number })
    });
    wanted.collect()
}

fn claims(spec: &Map<String, Value>, metadata: &Value) -> BTreeMap<String, bool> {
    let volumes = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    let claims = volumes.filter_map(|volume| {
        if let Some(claim) = volume.pointer("/persistentVolumeClaim/claimName") {
            return Some((claim.as_str()?.to_owned(), false));
        }
        volume.get("ephemeral").filter(|ephemeral| ephemeral.is_object())?;
        let (pod, name) = (metadata.get("name")?.as_str()?, volume.get("name")?.as_str()?);
        Some((format!("{pod}-{name}"), true))
    });
    claims.collect()
}

fn controller(metadata: &Value) -> Option<Owner> {
    let owners = metadata.get("ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))?;
    let text = |field: &str| Some(owner.get(field)?.as_str()?.to_owned());
    Some(Owner { api_version: text("apiVersion")?, kind: text("kind")?, name: text("name")? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn host_ports_conflict_by_address() {
        let port = |ip: &str, protocol: &str, port| HostPort { ip: ip.to_owned(), protocol: protocol.to_owned(), port };
        assert!(port("", "TCP", 80).conflicts_with(&port("10.0.0.1", "TCP", 80)));
        assert!(port("10.0.0.1", "TCP", 80).conflicts_with(&port("10.0.0.1", "TCP", 80)));
        assert!(!port("10.0.0.1", "TCP", 80).conflicts_with(&port("10.0.0.2", "TCP", 80)));
        assert!(!port("", "TCP", 80).conflicts_with(&port("", "UDP", 80)));
    }

    #[test]
    fn only_what_rules_read_is_kept() {
        let pod = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"containers": [{"image": "i"}], "nodeSelector": {"k": "v"}}});
        let info = PodInfo::from_json(&pod).unwrap();
        assert_eq!(Value::Object(info.spec.clone()), json!({"nodeSelector": {"k": "v"}}));
        assert_eq!(info.images, BTreeSet::from(["i".to_owned()]));
    }
}
