//! From a pod's specification to what the runtime is told to make.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{Container as ContainerSpec, Pod, ResourceRequirements};
use quorate_api::quantity::Quantity;

use super::expansion::expand;
use super::{ContainerKind, PodKey, Qos, host_network};
use crate::runtime::proto;
use crate::runtime::{
    ANNOTATION_GRACE, ANNOTATION_IMAGE, ANNOTATION_MESSAGE_FILE, Image, LABEL_CONTAINER_NAME, LABEL_NODE,
    LABEL_POD_NAME, LABEL_POD_NAMESPACE, LABEL_POD_UID,
};

mod security;

pub use security::ConfigError;

/// The kernel's scheduling period for processor quotas, in microseconds.
pub const CPU_PERIOD_US: i64 = 100_000;
const CPU_QUOTA_MIN_US: i64 = 1000;
const CPU_SHARES_MIN: i64 = 2;
const CPU_SHARES_PER_CORE: i64 = 1024;
/// Host names are cut to what the kernel takes.
const HOSTNAME_MAX: usize = 63;

pub fn log_directory(root: &Path, key: &PodKey) -> std::path::PathBuf {
    root.join(format!("{}_{}_{}", key.namespace, key.name, key.uid))
}

/// Relative to the pod's log directory.
pub fn log_path(container: &str, attempt: u32) -> String {
    format!("{container}/{attempt}.log")
}

pub fn hostname(pod: &Pod) -> String {
    let own = pod.spec.as_ref().and_then(|spec| spec.hostname.clone()).filter(|name| !name.is_empty());
    let name = own.or_else(|| pod.metadata.name.clone()).unwrap_or_default();
    name.chars().take(HOSTNAME_MAX).collect::<String>().trim_end_matches(['-', '.']).to_owned()
}

/// The pod's full name below the cluster's domain, if it has one.
pub fn domain_name(pod: &Pod, domain: &str) -> Option<String> {
    let subdomain = pod.spec.as_ref()?.subdomain.as_deref().filter(|name| !name.is_empty())?;
    let namespace = pod.metadata.namespace.as_deref()?;
    Some(format!("{}.{subdomain}.{namespace}.svc.{domain}", hostname(pod)))
}

/// What the sandbox configuration depends on beside the pod.
#[derive(Clone, Debug)]
pub struct SandboxContext<'a> {
    pub node: &'a str,
    pub log_root: &'a Path,
    pub dns: proto::DnsConfig,
    pub cgroup_parent: String,
    pub domain: &'a str,
}

pub fn sandbox_config(
    pod: &Pod,
    attempt: u32,
    context: &SandboxContext<'_>,
) -> Result<proto::PodSandboxConfig, ConfigError> {
    let key = PodKey::of(pod);
    let spec = super::spec(pod);
    let as_fqdn = spec.set_hostname_as_fqdn == Some(true);
    let hostname = match domain_name(pod, context.domain) {
        // Containers on the host's network keep its name: they share its UTS namespace.
        _ if host_network(pod) => String::new(),
        Some(full) if as_fqdn => full,
        Some(_) | None => hostname(pod),
    };
    let mut annotations = pod.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(ANNOTATION_GRACE.into(), super::spec_grace(pod).as_secs().to_string());
    let mut labels = pod.metadata.labels.clone().unwrap_or_default();
    labels.extend(labels_of(&key));
    labels.insert(LABEL_NODE.into(), context.node.to_owned());
    Ok(proto::PodSandboxConfig {
        metadata: Some(proto::PodSandboxMetadata {
            name: key.name.clone(),
            uid: key.uid.clone(),
            namespace: key.namespace.clone(),
            attempt,
        }),
        hostname,
        log_directory: log_directory(context.log_root, &key).display().to_string(),
        dns_config: Some(context.dns.clone()),
        port_mappings: if host_network(pod) { Vec::new() } else { port_mappings(pod) },
        labels,
        annotations,
        linux: Some(proto::LinuxPodSandboxConfig {
            cgroup_parent: context.cgroup_parent.clone(),
            security_context: Some(security::sandbox(pod)),
            sysctls: security::sysctls(pod),
        }),
    })
}

fn labels_of(key: &PodKey) -> [(String, String); 3] {
    [
        (LABEL_POD_NAME.into(), key.name.clone()),
        (LABEL_POD_NAMESPACE.into(), key.namespace.clone()),
        (LABEL_POD_UID.into(), key.uid.clone()),
    ]
}

fn port_mappings(pod: &Pod) -> Vec<proto::PortMapping> {
    let mut mappings = Vec::new();
    for (_, container) in super::containers(pod) {
        for port in container.ports.iter().flatten() {
            let protocol = match port.protocol.as_deref() {
                Some("UDP") => proto::Protocol::Udp,
                Some("SCTP") => proto::Protocol::Sctp,
                Some(_) | None => proto::Protocol::Tcp,
            };
            mappings.push(proto::PortMapping {
                protocol: protocol.into(),
                container_port: port.container_port,
                host_port: port.host_port.unwrap_or(0),
                host_ip: port.host_ip.clone().unwrap_or_default(),
            });
        }
    }
    mappings
}

/// What a container's configuration depends on beside the pod.
#[derive(Clone, Debug)]
pub struct ContainerContext<'a> {
    pub kind: ContainerKind,
    pub attempt: u32,
    pub image: &'a Image,
    pub environment: Vec<(String, String)>,
    pub mounts: Vec<proto::Mount>,
    pub message_file: Option<&'a Path>,
    pub qos: Qos,
    pub node_memory_bytes: i64,
    /// Id of the container an ephemeral one looks into.
    pub target_id: Option<String>,
}

pub fn container_config(
    pod: &Pod,
    container: &ContainerSpec,
    context: &ContainerContext<'_>,
) -> Result<proto::ContainerConfig, ConfigError> {
    let key = PodKey::of(pod);
    let known: BTreeMap<String, String> = context.environment.iter().cloned().collect();
    let words = |words: &Option<Vec<String>>| words.iter().flatten().map(|word| expand(word, &known)).collect();
    let named = container.image.clone().unwrap_or_default();
    let mut labels: BTreeMap<String, String> = labels_of(&key).into();
    labels.insert(LABEL_CONTAINER_NAME.into(), container.name.clone());
    let mut annotations = BTreeMap::from([(ANNOTATION_IMAGE.to_owned(), named.clone())]);
    if let Some(file) = context.message_file {
        annotations.insert(ANNOTATION_MESSAGE_FILE.into(), file.display().to_string());
    }
    let mut security_context = security::container(pod, container, context.image)?;
    if let (Some(options), Some(target)) = (&mut security_context.namespace_options, &context.target_id) {
        options.set_pid(proto::NamespaceMode::Target);
        options.target_id.clone_from(target);
    }
    Ok(proto::ContainerConfig {
        metadata: Some(proto::ContainerMetadata { name: container.name.clone(), attempt: context.attempt }),
        image: Some(proto::ImageSpec {
            image: context.image.id.clone(),
            user_specified_image: named,
            ..Default::default()
        }),
        command: words(&container.command),
        args: words(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: context
            .environment
            .iter()
            .map(|(key, value)| proto::KeyValue { key: key.clone(), value: value.clone() })
            .collect(),
        mounts: context.mounts.clone(),
        labels,
        annotations,
        log_path: log_path(&container.name, context.attempt),
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        linux: Some(proto::LinuxContainerConfig {
            resources: Some(resources(container.resources.as_ref(), context.qos, context.node_memory_bytes)),
            security_context: Some(security_context),
        }),
    })
}

/// The limits the kernel is to enforce on one container.
pub fn resources(
    requirements: Option<&ResourceRequirements>,
    qos: Qos,
    node_memory_bytes: i64,
) -> proto::LinuxContainerResources {
    let amounts = Amounts::of(requirements);
    proto::LinuxContainerResources {
        cpu_period: CPU_PERIOD_US,
        cpu_quota: amounts.cpu_limit_milli.map_or(0, cpu_quota),
        cpu_shares: cpu_shares(amounts.cpu_request_milli.or(amounts.cpu_limit_milli).unwrap_or(0)),
        memory_limit_in_bytes: amounts.memory_limit.unwrap_or(0),
        oom_score_adj: oom_score(qos, amounts.memory_request.unwrap_or(0), node_memory_bytes),
        ..Default::default()
    }
}

/// What one container asks for and may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub cpu_request_milli: Option<i64>,
    pub cpu_limit_milli: Option<i64>,
    pub memory_request: Option<i64>,
    pub memory_limit: Option<i64>,
}

impl Amounts {
    pub fn of(requirements: Option<&ResourceRequirements>) -> Self {
        let Some(requirements) = requirements else { return Self::default() };
        let get = |list: &Option<BTreeMap<String, _>>, name: &str| {
            let quantity: &k8s_openapi::apimachinery::pkg::api::resource::Quantity = list.as_ref()?.get(name)?;
            Quantity::parse(&quantity.0).ok()
        };
        Self {
            cpu_request_milli: get(&requirements.requests, "cpu").map(|quantity| quantity.milli_value()),
            cpu_limit_milli: get(&requirements.limits, "cpu").map(|quantity| quantity.milli_value()),
            memory_request: get(&requirements.requests, "memory").map(|quantity| quantity.value()),
            memory_limit: get(&requirements.limits, "memory").map(|quantity| quantity.value()),
        }
    }
}

pub fn cpu_shares(milli: i64) -> i64 {
    (milli.saturating_mul(CPU_SHARES_PER_CORE) / 1000).max(CPU_SHARES_MIN)
}

pub fn cpu_quota(milli: i64) -> i64 {
    if milli <= 0 { 0 } else { (milli.saturating_mul(CPU_PERIOD_US) / 1000).max(CPU_QUOTA_MIN_US) }
}

/// Who is killed first when the machine runs out of memory: the higher, the sooner.
fn oom_score(qos: Qos, memory_request: i64, node_memory_bytes: i64) -> i64 {
    match qos {
        Qos::Guaranteed => -997,
        Qos::BestEffort => 1000,
        Qos::Burstable => {
            let share = memory_request.saturating_mul(1000) / node_memory_bytes.max(1);
            (1000 - share).clamp(3, 999)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_become_kernel_values() {
        let requirements: ResourceRequirements = serde_json::from_value(serde_json::json!({
            "requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}
        }))
        .unwrap();
        let resources = resources(Some(&requirements), Qos::Burstable, 1 << 30);
        assert_eq!((resources.cpu_shares, resources.cpu_quota), (512, 100_000));
        assert_eq!((resources.memory_limit_in_bytes, resources.oom_score_adj), (128 << 20, 938));
        let none = super::resources(None, Qos::BestEffort, 1 << 30);
        assert_eq!((none.cpu_shares, none.cpu_quota, none.memory_limit_in_bytes), (2, 0, 0));
    }

    #[test]
    fn host_names_fit_the_kernel() {
        let pod: Pod =
            serde_json::from_value(serde_json::json!({"metadata": {"name": format!("{}-b", "a".repeat(62))}})).unwrap();
        assert_eq!(hostname(&pod), "a".repeat(62));
    }
}
