//! Windows: its options, and what fits only one of the two systems.

use quorate_api::validate as names;

use super::super::super::rules::{At, Errors};
use super::all_containers;

const MAX_CREDENTIAL_SPEC: usize = 64 * 1024;
const MAX_USER_DOMAIN: usize = 256;
const MAX_USER: usize = 104;
const BAD_USER_CHARACTERS: &[char] = &['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']'];

const NOT_ON_LINUX: &str = "windows options cannot be set for a linux pod";
const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";
const POD_FIELDS: [&str; 4] = ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"];
const POD_CONTEXT_FIELDS: [&str; 11] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
const CONTAINER_CONTEXT_FIELDS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

pub(super) fn not_on_linux(spec: &At<'_>, errors: &mut Errors) {
    for owner in std::iter::once(spec.clone()).chain(all_containers(spec)) {
        let options = owner.field("securityContext").field("windowsOptions");
        if options.is_set() {
            errors.forbidden(&options, NOT_ON_LINUX);
        }
    }
}

pub(super) fn only_on_windows(spec: &At<'_>, errors: &mut Errors) {
    let forbid = |at: At<'_>, errors: &mut Errors| {
        if at.is_set() {
            errors.forbidden(&at, NOT_ON_WINDOWS);
        }
    };
    let context = spec.field("securityContext");
    for field in POD_FIELDS {
        forbid(spec.field(field), errors);
    }
    for field in POD_CONTEXT_FIELDS {
        forbid(context.field(field), errors);
    }
    for container in all_containers(spec) {
        let context = container.field("securityContext");
        for field in CONTAINER_CONTEXT_FIELDS {
            forbid(context.field(field), errors);
        }
    }
}

pub(super) fn options(at: &At<'_>, errors: &mut Errors) {
    let name = at.field("gmsaCredentialSpecName");
    if name.is_set() {
        errors.invalid_each(&name, names::dns1123_subdomain(name.text()));
    }
    let spec = at.field("gmsaCredentialSpec");
    if spec.is_set() && spec.is_empty() {
        errors.invalid(&spec, "gmsaCredentialSpec cannot be an empty string");
    } else if spec.text().len() > MAX_CREDENTIAL_SPEC {
        errors.invalid(&spec, "gmsaCredentialSpec size must be under 64 KiB");
    }
    let user = at.field("runAsUserName");
    if user.is_set() {
        for message in user_name(user.text()) {
            errors.invalid(&user, message);
        }
    }
}

/// `USER` or `DOMAIN\USER`.
fn user_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_owned()];
    }
    if text.chars().any(char::is_control) {
        return vec!["runAsUserName cannot contain control characters".to_owned()];
    }
    if text.matches('\\').count() > 1 {
        return vec!["runAsUserName cannot contain more than one backslash".to_owned()];
    }
    let (domain, user) = match text.split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, text),
    };
    let mut messages = Vec::new();
    let mut unless = |fine: bool, message: String| {
        if !fine {
            messages.push(message);
        }
    };
    if let Some(domain) = domain {
        let short = domain.len() < MAX_USER_DOMAIN;
        unless(short, format!("runAsUserName's Domain length must be under {MAX_USER_DOMAIN} characters"));
        let known = is_netbios_name(domain) || is_dns_domain(domain);
        unless(known, "runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    unless(!user.is_empty(), "runAsUserName's User cannot be empty".to_owned());
    let short = user.len() <= MAX_USER;
    unless(short, format!("runAsUserName's User length must not be longer than {MAX_USER} characters"));
    let blank = !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ');
    unless(!blank, "runAsUserName's User cannot contain only periods or spaces".to_owned());
    let plain = !user.contains(BAD_USER_CHARACTERS);
    unless(plain, "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]".to_owned());
    messages
}

fn is_netbios_name(domain: &str) -> bool {
    let plain = !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|']);
    plain && !domain.starts_with('.') && (1..=15).contains(&domain.chars().count())
}

fn is_dns_domain(domain: &str) -> bool {
    names::dns1123_subdomain(&domain.to_lowercase()).is_empty()
}

/// Host-process containers come only all together, and on the host's network.
pub(super) fn host_process(spec: &At<'_>, errors: &mut Errors) {
    let of = |owner: &At<'_>| owner.field("securityContext").field("windowsOptions").field("hostProcess").boolean();
    let pod = of(spec);
    let (mut containers, mut on_host) = (0, 0);
    for container in all_containers(spec) {
        containers += 1;
        let own = of(&container);
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            let at = container.field("securityContext").field("windowsOptions").field("hostProcess");
            errors.invalid(&at, format!("pod hostProcess value must be identical if both are specified, was {pod}"));
        }
        if own.or(pod) == Some(true) {
            on_host += 1;
        }
    }
    if on_host == 0 {
        return;
    }
    if on_host != containers {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid_value(spec, "", detail);
    }
    if !spec.field("hostNetwork").truth() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid_value(&spec.field("hostNetwork"), false, detail);
    }
}
