//! Users, capabilities, namespaces and profiles of a pod's containers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container as ContainerSpec, Pod, PodSecurityContext, SeccompProfile};

use crate::pod::host_network;
use crate::runtime::Image;
use crate::runtime::proto::{
    Capability, Int64Value, LinuxContainerSecurityContext, LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption,
    SecurityProfile, security_profile::ProfileType,
};

/// Parts of `/proc` and `/sys` that tell of, or reach into, the host: hidden from containers.
const MASKED_PATHS: [&str; 11] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The specification cannot be turned into a container, as it stands.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error("container has runAsNonRoot and image will run as root (pod: \"{pod}\", container: {container})")]
    RunsAsRoot { pod: String, container: String },
    #[error("container's runAsUser breaks non-root policy (pod: \"{pod}\", container: {container})")]
    UserIsRoot { pod: String, container: String },
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: \"{pod}\", container: {container})"
    )]
    UnknownUser { user: String, pod: String, container: String },
}

fn pod_context(pod: &Pod) -> PodSecurityContext {
    pod.spec.as_ref().and_then(|spec| spec.security_context.clone()).unwrap_or_default()
}

fn namespaces(pod: &Pod) -> NamespaceOption {
    let spec = crate::pod::spec(pod);
    let node_or =
        |host: Option<bool>, other: NamespaceMode| if host == Some(true) { NamespaceMode::Node } else { other };
    // The interface's own default would share one process namespace with the sandbox.
    let own_pid =
        if spec.share_process_namespace == Some(true) { NamespaceMode::Pod } else { NamespaceMode::Container };
    let mut options = NamespaceOption::default();
    options.set_network(node_or(Some(host_network(pod)), NamespaceMode::Pod));
    options.set_pid(node_or(spec.host_pid, own_pid));
    options.set_ipc(node_or(spec.host_ipc, NamespaceMode::Pod));
    options
}

pub(super) fn sandbox(pod: &Pod) -> LinuxSandboxSecurityContext {
    let context = pod_context(pod);
    let privileged = crate::pod::containers(pod).iter().any(|(_, container)| {
        container.security_context.as_ref().and_then(|context| context.privileged).unwrap_or(false)
    });
    LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(pod)),
        run_as_user: context.run_as_user.map(|value| Int64Value { value }),
        run_as_group: context.run_as_user.and(context.run_as_group).map(|value| Int64Value { value }),
        supplemental_groups: groups(&context),
        privileged,
        seccomp: Some(profile(Some(ProfileType::RuntimeDefault), None)),
        readonly_rootfs: false,
    }
}

pub(super) fn sysctls(pod: &Pod) -> BTreeMap<String, String> {
    pod_context(pod).sysctls.into_iter().flatten().map(|sysctl| (sysctl.name, sysctl.value)).collect()
}

fn groups(context: &PodSecurityContext) -> Vec<i64> {
    let mut groups = context.supplemental_groups.clone().unwrap_or_default();
    groups.extend(context.fs_group);
    groups
}

fn profile(kind: Option<ProfileType>, reference: Option<String>) -> SecurityProfile {
    let mut profile = SecurityProfile { localhost_ref: reference.unwrap_or_default(), ..Default::default() };
    profile.set_profile_type(kind.unwrap_or(ProfileType::Unconfined));
    profile
}

fn seccomp(own: Option<&SeccompProfile>, of_pod: Option<&SeccompProfile>) -> SecurityProfile {
    let Some(chosen) = own.or(of_pod) else { return profile(None, None) };
    match chosen.type_.as_str() {
        "RuntimeDefault" => profile(Some(ProfileType::RuntimeDefault), None),
        "Localhost" => profile(Some(ProfileType::Localhost), chosen.localhost_profile.clone()),
        _ => profile(None, None),
    }
}

pub(super) fn container(
    pod: &Pod,
    container: &ContainerSpec,
    image: &Image,
) -> Result<LinuxContainerSecurityContext, ConfigError> {
    let of_pod = pod_context(pod);
    let own = container.security_context.clone().unwrap_or_default();
    let user = own.run_as_user.or(of_pod.run_as_user);
    if own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true) {
        not_root(pod, container, user, image)?;
    }
    let privileged = own.privileged.unwrap_or(false);
    let unmasked = privileged || own.proc_mount.as_deref() == Some("Unmasked");
    let paths =
        |paths: &[&str]| if unmasked { Vec::new() } else { paths.iter().map(|path| (*path).to_owned()).collect() };
    let group = own.run_as_group.or(of_pod.run_as_group);
    // A group alone is refused by the interface: the image's own user is made explicit then.
    let user_value = user.or_else(|| group.and(Some(image.uid.unwrap_or(0))));
    let named = if user_value.is_none() && image.uid.is_none() { image.username.clone() } else { String::new() };
    Ok(LinuxContainerSecurityContext {
        capabilities: own.capabilities.map(|capabilities| Capability {
            add_capabilities: capabilities.add.unwrap_or_default(),
            drop_capabilities: capabilities.drop.unwrap_or_default(),
        }),
        privileged,
        namespace_options: Some(namespaces(pod)),
        run_as_user: user_value.or(image.uid).map(|value| Int64Value { value }),
        run_as_username: named,
        run_as_group: group.map(|value| Int64Value { value }),
        readonly_rootfs: own.read_only_root_filesystem.unwrap_or(false),
        supplemental_groups: groups(&of_pod),
        no_new_privs: !privileged && own.allow_privilege_escalation == Some(false),
        masked_paths: paths(&MASKED_PATHS),
        readonly_paths: paths(&READONLY_PATHS),
        seccomp: Some(if privileged {
            profile(None, None)
        } else {
            seccomp(own.seccomp_profile.as_ref(), of_pod.seccomp_profile.as_ref())
        }),
    })
}

fn not_root(pod: &Pod, container: &ContainerSpec, user: Option<i64>, image: &Image) -> Result<(), ConfigError> {
    let described = crate::pod::PodKey::of(pod).described();
    let name = container.name.clone();
    match (user, image.uid) {
        (Some(0), _) => Err(ConfigError::UserIsRoot { pod: described, container: name }),
        (Some(_), _) => Ok(()),
        (None, Some(0)) => Err(ConfigError::RunsAsRoot { pod: described, container: name }),
        (None, Some(_)) => Ok(()),
        (None, None) if image.username.is_empty() => Err(ConfigError::RunsAsRoot { pod: described, container: name }),
        (None, None) => Err(ConfigError::UnknownUser { user: image.username.clone(), pod: described, container: name }),
    }
}
