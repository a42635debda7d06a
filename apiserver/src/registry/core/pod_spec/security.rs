//! Security contexts of the pod and of its containers.

use std::collections::BTreeSet;

use quorate_api::validate as names;

use super::super::super::rules::{At, Errors};
use super::{Context, paths, windows};

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
const FS_GROUP_CHANGES: &[&str] = &["Always", "OnRootMismatch"];
const SUPPLEMENTAL_GROUPS: &[&str] = &["Merge", "Strict"];
const SELINUX_CHANGES: &[&str] = &["MountOption", "Recursive"];
const PROC_MOUNTS: &[&str] = &["Default", "Unmasked"];
const MAX_SYSCTL: usize = 253;
const MAX_APP_ARMOR_PATH: usize = 4095;
const SYSCTL_PATTERN: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const WITHOUT_HOST_USERS: &str = "when `pod.Spec.HostUsers` is false";

pub(super) fn pod(spec: &At<'_>, errors: &mut Errors) {
    let at = spec.field("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        unix_id(&at.field(field), errors);
    }
    for group in at.field("supplementalGroups").items() {
        unix_id(&group, errors);
    }
    let shared = spec.field("shareProcessNamespace");
    if shared.truth() && spec.field("hostPID").truth() {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&shared.filed_under(&at.field("shareProcessNamespace")), detail);
    }
    sysctls(spec, &at.field("sysctls"), errors);
    errors.if_set_one_of(&at.field("fsGroupChangePolicy"), FS_GROUP_CHANGES);
    seccomp(&at.field("seccompProfile"), errors);
    windows::options(&at.field("windowsOptions"), errors);
    app_armor(&at.field("appArmorProfile"), errors);
    errors.if_set_one_of(&at.field("supplementalGroupsPolicy"), SUPPLEMENTAL_GROUPS);
    errors.if_set_one_of(&at.field("seLinuxChangePolicy"), SELINUX_CHANGES);
}

fn unix_id(at: &At<'_>, errors: &mut Errors) {
    if let Some(id) = at.integer() {
        errors.invalid_each(at, names::user_id(id));
    }
}

fn sysctls(spec: &At<'_>, all: &At<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for sysctl in all.items() {
        let name = sysctl.field("name");
        let text = name.text();
        if text.is_empty() {
            errors.required(&name, "");
        } else if !is_sysctl(text) {
            let detail = format!("must have at most {MAX_SYSCTL} characters and match regex {SYSCTL_PATTERN}");
            errors.invalid(&name, detail);
        } else if taken.contains(text) {
            errors.duplicate(&name);
        }
        taken.insert(text);
        for (host, of_host) in [("hostNetwork", is_network_sysctl(text)), ("hostIPC", is_ipc_sysctl(text))] {
            if of_host && spec.field(host).truth() {
                errors.invalid(&name, format!("may not be specified when '{host}' is true"));
            }
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    let outer = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let segment = |s: &str| s.bytes().all(inner) && outer(s.as_bytes().first()) && outer(s.as_bytes().last());
    name.len() <= MAX_SYSCTL && name.split(['.', '/']).all(segment)
}

fn is_network_sysctl(name: &str) -> bool {
    name.replace('/', ".").starts_with("net.")
}

fn is_ipc_sysctl(name: &str) -> bool {
    let name = name.replace('/', ".");
    name == "kernel.sem" || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| name.starts_with(prefix))
}

fn seccomp(at: &At<'_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    let (kind, path) = (at.field("type"), at.field("localhostProfile"));
    match kind.text() {
        "" => errors.required(&kind, "type is required when seccompProfile is set"),
        _ => errors.one_of(&kind, PROFILES),
    }
    match (kind.text(), path.is_set()) {
        ("Localhost", false) => errors.required(&path, "must be set when seccomp type is Localhost"),
        ("Localhost", true) => paths::descending(&path, errors),
        (_, true) => errors.invalid(&at.filed_under(&path), "can only be set when seccomp type is Localhost"),
        (_, false) => {}
    }
}

fn app_armor(at: &At<'_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    let (kind, path) = (at.field("type"), at.field("localhostProfile"));
    match kind.text() {
        "Localhost" => {
            let text = path.text();
            if text.trim() != text {
                errors.invalid(&path, "must not be padded with whitespace");
            } else if text.is_empty() {
                errors.required(&path, "must be set when AppArmor type is Localhost");
            }
            if text.len() > MAX_APP_ARMOR_PATH {
                errors.too_long(&path, MAX_APP_ARMOR_PATH);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if path.is_set() {
                errors.invalid(&path, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errors.required(&kind, "type is required when appArmorProfile is set"),
        _ => errors.not_supported(&kind, PROFILES),
    }
}

pub(super) fn container(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    unix_id(&at.field("runAsUser"), errors);
    unix_id(&at.field("runAsGroup"), errors);
    let proc_mount = at.field("procMount");
    errors.if_set_one_of(&proc_mount, PROC_MOUNTS);
    if context.host_users && proc_mount.text() == "Unmasked" {
        errors.invalid(&proc_mount, "`hostUsers` must be false to use `Unmasked`");
    }
    seccomp(&at.field("seccompProfile"), errors);
    if at.field("allowPrivilegeEscalation").boolean() == Some(false) {
        escalation(at, errors);
    }
    windows::options(&at.field("windowsOptions"), errors);
    app_armor(&at.field("appArmorProfile"), errors);
}

/// What would escalate all the same.
fn escalation(at: &At<'_>, errors: &mut Errors) {
    if at.field("privileged").truth() {
        errors.invalid(at, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
    for capability in at.field("capabilities").field("add").items() {
        if capability.text() == "CAP_SYS_ADMIN" {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(at, detail);
        }
    }
}

/// A pod with its own user namespace may share no other namespace with the host.
pub(super) fn host_users(spec: &At<'_>, errors: &mut Errors) {
    if spec.field("hostUsers").boolean() != Some(false) {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.field(field).truth() {
            errors.forbidden(&spec.field(shown), WITHOUT_HOST_USERS);
        }
    }
}
