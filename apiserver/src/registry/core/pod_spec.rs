//! The pod spec, shared by Pod and by the templates of all workloads.
//!
//! [`defaults`] fills it in, [`validate`] judges it; one file per part. What only a Pod (and not a template) must
//! satisfy is asked with [`Owner::Pod`].

pub(crate) mod affinity;
mod containers;
pub(crate) mod defaults;
mod dns;
mod env;
mod mounts;
mod paths;
mod probes;
mod projected;
pub(crate) mod qos;
mod resource_claims;
pub(crate) mod resources;
mod scheduling;
mod security;
pub(crate) mod template;
pub(crate) mod volume_sources;
pub(crate) mod volumes;
pub(crate) mod warnings;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use quorate_api::validate as names;
use serde_json::Value;

use super::super::rules::{At, Errors};
use super::super::selectors;

pub(crate) use resources::overhead;
pub(crate) use scheduling::{only_added_tolerations, only_removed_gates, taints};

/// Whose spec it is. A Pod must be runnable as it is; a template may leave some things to the pods made from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner<'a> {
    /// The pod's name, empty while it is not known yet.
    Pod(&'a str),
    Template,
}

/// What the rules of one part need to know of the others.
#[derive(Debug)]
struct Context<'a> {
    owner: Owner<'a>,
    volumes: BTreeMap<&'a str, &'a Value>,
    claims: BTreeSet<&'a str>,
    grace_period: Option<i64>,
    restart_policy: &'a str,
    /// Whether the pod shares the host's user namespace.
    host_users: bool,
}

const MAX_ACTIVE_DEADLINE: i64 = i32::MAX as i64;

pub(crate) const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const PREEMPTION_POLICIES: &[&str] = &["PreemptLowerPriority", "Never"];
const SYSTEMS: &[&str] = &["linux", "windows"];

/// Everything wrong with the spec, in upstream's order.
pub(crate) fn validate(spec: &At<'_>, owner: Owner<'_>, errors: &mut Errors) {
    if !spec.field("terminationGracePeriodSeconds").is_set() {
        errors.required(&spec.field("terminationGracePeriodSeconds"), "");
    }
    let volumes = volumes::validate(&spec.field("volumes"), owner, errors);
    let context = Context {
        owner,
        volumes,
        claims: resource_claims::names(&spec.field("resourceClaims")),
        grace_period: spec.field("terminationGracePeriodSeconds").integer(),
        restart_policy: spec.field("restartPolicy").text(),
        host_users: spec.field("hostUsers").boolean().unwrap_or(true),
    };
    resource_claims::validate(&spec.field("resourceClaims"), errors);
    containers::regular(spec, &context, errors);
    containers::init(spec, &context, errors);
    containers::ephemeral(spec, &context, errors);
    resources::pod_level(spec, errors);
    host_network_ports(spec, owner, errors);
    errors.need_one_of(&spec.field("restartPolicy"), RESTART_POLICIES);
    errors.need_one_of(&spec.field("dnsPolicy"), DNS_POLICIES);
    selectors::labels(&spec.field("nodeSelector"), errors);
    security::pod(spec, errors);
    affinity::validate(&spec.field("affinity"), errors);
    dns::config(spec, errors);
    scheduling::readiness_gates(&spec.field("readinessGates"), errors);
    scheduling::gates(&spec.field("schedulingGates"), errors);
    affinity::topology_spread(&spec.field("topologySpreadConstraints"), errors);
    windows::host_process(spec, errors);
    security::host_users(spec, errors);
    references(spec, errors);
    identity(spec, errors);
    system(spec, errors);
}

/// The names of other objects that the spec mentions.
fn references(spec: &At<'_>, errors: &mut Errors) {
    for field in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        let at = spec.field(field);
        let optional = field == "runtimeClassName";
        if at.is_set() && (optional || !at.is_empty()) {
            errors.invalid_each(&at, names::name_is_dns_subdomain(at.text(), false));
        }
    }
    errors.within(&spec.field("activeDeadlineSeconds"), 1, MAX_ACTIVE_DEADLINE);
}

fn identity(spec: &At<'_>, errors: &mut Errors) {
    for field in ["hostname", "subdomain"] {
        let at = spec.field(field);
        if !at.is_empty() {
            errors.invalid_each(&at, names::dns1123_label(at.text()));
        }
    }
    scheduling::tolerations(&spec.field("tolerations"), errors);
    dns::host_aliases(&spec.field("hostAliases"), errors);
    let preemption = spec.field("preemptionPolicy");
    if preemption.is_set() {
        errors.need_one_of(&preemption, PREEMPTION_POLICIES);
    }
    overhead(&spec.field("overhead"), errors);
}

/// Fields that fit the declared operating system only.
fn system(spec: &At<'_>, errors: &mut Errors) {
    let os = spec.field("os");
    if !os.is_set() {
        return;
    }
    match os.field("name").text() {
        "" => errors.required(&os.field("name"), "cannot be empty"),
        "linux" => windows::not_on_linux(spec, errors),
        "windows" => windows::only_on_windows(spec, errors),
        _ => errors.not_supported(&os.field("name").filed_under(&os), SYSTEMS),
    }
}

/// On the host's network a container's port is the host's port.
fn host_network_ports(spec: &At<'_>, owner: Owner<'_>, errors: &mut Errors) {
    if !spec.field("hostNetwork").truth() {
        return;
    }
    for container in spec.field("containers").items() {
        for port in container.field("ports").items() {
            let host = port.field("hostPort").number();
            let judged = matches!(owner, Owner::Pod(_)) || host != 0;
            if judged && host != port.field("containerPort").number() {
                errors.invalid_value(
                    &port.field("hostPort"),
                    host,
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
        }
    }
}

/// All containers of the spec, of all three kinds, each at its path.
fn all_containers<'a>(spec: &At<'a>) -> impl Iterator<Item = At<'a>> + use<'a> {
    let spec = spec.clone();
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |field| spec.field(field).items())
}

/// A port by number or by a container's port name.
pub(crate) fn port_number_or_name(at: &At<'_>, errors: &mut Errors) {
    match at.value() {
        Some(Value::String(name)) => {
            for message in names::port_name(name) {
                errors.invalid(at, message);
            }
        }
        _ => {
            for message in names::port_number(at.number()) {
                errors.invalid_value(at, at.number(), message);
            }
        }
    }
}
