//! Pods: what their specification asks for, in the terms the rest of the agent uses.

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as ContainerSpec, EphemeralContainer, Pod, PodSpec};

pub mod config;
pub mod dns;
pub mod environment;
pub mod expansion;
pub mod fields;
pub mod manager;
pub mod memory;
pub mod run;
pub mod status;
pub mod step;
pub mod worker;

#[cfg(test)]
mod step_properties;
#[cfg(test)]
mod step_tests;

/// Grace period of a pod that names none.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// What names a pod in logs, events and files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodKey {
    pub uid: String,
    pub namespace: String,
    pub name: String,
}

impl PodKey {
    pub fn of(pod: &Pod) -> Self {
        Self {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
        }
    }

    /// `name_namespace(uid)`, as messages about pods name them.
    pub fn described(&self) -> String {
        format!("{}_{}({})", self.name, self.namespace, self.uid)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerKind {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that keeps running beside the main ones.
    Sidecar,
    Main,
    /// Added to a running pod to look into it.
    Ephemeral,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    fn parse(text: Option<&str>) -> Self {
        match text {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            Some(_) | None => Self::Always,
        }
    }

    pub fn allows(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

/// A pod without specification cannot be bound to a node; it is read as one that asks for nothing.
pub fn spec(pod: &Pod) -> Cow<'_, PodSpec> {
    pod.spec.as_ref().map_or_else(|| Cow::Owned(PodSpec::default()), Cow::Borrowed)
}

pub fn restart_policy(pod: &Pod) -> RestartPolicy {
    RestartPolicy::parse(pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()))
}

/// The policy that decides over one container.
pub fn container_restart_policy(pod: &Pod, kind: ContainerKind, container: &ContainerSpec) -> RestartPolicy {
    let own = container.restart_policy.as_deref();
    match kind {
        ContainerKind::Sidecar => RestartPolicy::Always,
        ContainerKind::Ephemeral => RestartPolicy::Never,
        ContainerKind::Main if own.is_some() => RestartPolicy::parse(own),
        ContainerKind::Main => restart_policy(pod),
        ContainerKind::Init if own.is_some() => RestartPolicy::parse(own),
        // An init container that succeeded is done, whatever the pod's policy.
        ContainerKind::Init => match restart_policy(pod) {
            RestartPolicy::Always | RestartPolicy::OnFailure => RestartPolicy::OnFailure,
            RestartPolicy::Never => RestartPolicy::Never,
        },
    }
}

pub fn init_kind(container: &ContainerSpec) -> ContainerKind {
    if container.restart_policy.as_deref() == Some("Always") { ContainerKind::Sidecar } else { ContainerKind::Init }
}

/// All containers: init containers and sidecars in order, main ones, ephemeral ones.
pub fn containers(pod: &Pod) -> Vec<(ContainerKind, Cow<'_, ContainerSpec>)> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let init = spec.init_containers.iter().flatten().map(|container| (init_kind(container), Cow::Borrowed(container)));
    let main = spec.containers.iter().map(|container| (ContainerKind::Main, Cow::Borrowed(container)));
    let ephemeral = spec
        .ephemeral_containers
        .iter()
        .flatten()
        .map(|container| (ContainerKind::Ephemeral, Cow::Owned(ephemeral_spec(container))));
    init.chain(main).chain(ephemeral).collect()
}

pub fn container<'a>(pod: &'a Pod, name: &str) -> Option<(ContainerKind, Cow<'a, ContainerSpec>)> {
    containers(pod).into_iter().find(|(_, container)| container.name == name)
}

/// Where a container stands in its pod's specification, as events point to it.
pub fn field_path(pod: &Pod, name: &str) -> String {
    let list = match container(pod, name) {
        Some((ContainerKind::Init | ContainerKind::Sidecar, _)) => "initContainers",
        Some((ContainerKind::Ephemeral, _)) => "ephemeralContainers",
        Some((ContainerKind::Main, _)) | None => "containers",
    };
    format!("spec.{list}{{{name}}}")
}

/// An ephemeral container has the fields of any other; its target is looked up where namespaces are chosen.
fn ephemeral_spec(container: &EphemeralContainer) -> ContainerSpec {
    let fields = serde_json::to_value(container).unwrap_or_default();
    serde_json::from_value(fields)
        .unwrap_or_else(|_| ContainerSpec { name: container.name.clone(), ..Default::default() })
}

pub fn host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false)
}

/// The grace period of the specification, at least a second: nothing is killed without any notice.
pub fn spec_grace(pod: &Pod) -> Duration {
    let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    Duration::from_secs(seconds.unwrap_or(DEFAULT_GRACE_SECONDS).max(1).unsigned_abs())
}

/// The grace period to end the pod with: that of its deletion, if it is being deleted.
pub fn grace(pod: &Pod) -> Duration {
    match pod.metadata.deletion_grace_period_seconds {
        Some(seconds) => Duration::from_secs(seconds.max(1).unsigned_abs()),
        None => spec_grace(pod),
    }
}

/// How firmly a pod's resources are promised to it; chooses its cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl Qos {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// The class the API server has set; it never changes.
pub fn qos(pod: &Pod) -> Qos {
    match pod.status.as_ref().and_then(|status| status.qos_class.as_deref()) {
        Some("Guaranteed") => Qos::Guaranteed,
        Some("Burstable") => Qos::Burstable,
        Some("BestEffort") => Qos::BestEffort,
        Some(_) | None => computed_qos(pod),
    }
}

fn computed_qos(pod: &Pod) -> Qos {
    let mut any = false;
    let mut guaranteed = true;
    for (kind, container) in containers(pod) {
        if kind == ContainerKind::Ephemeral {
            continue;
        }
        let resources = container.resources.clone().unwrap_or_default();
        let (limits, requests) = (resources.limits.unwrap_or_default(), resources.requests.unwrap_or_default());
        any |= ["cpu", "memory"].iter().any(|name| limits.contains_key(*name) || requests.contains_key(*name));
        guaranteed &= ["cpu", "memory"].iter().all(|name| {
            limits.get(*name).is_some_and(|limit| requests.get(*name).is_none_or(|request| request == limit))
        });
    }
    match (any, guaranteed) {
        (false, _) => Qos::BestEffort,
        (true, true) => Qos::Guaranteed,
        (true, false) => Qos::Burstable,
    }
}
