//! Service: a stable address for a set of pods.
//!
//! Defaulting and rules are here and below; addresses and node ports come from `service_allocation`, inside the write's
//! own transaction, so rules must not ask for what is only allocated there.

mod row;
mod rules;
#[cfg(test)]
mod tests;
mod update;

use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::{Value, json};

use super::super::defaulting::{default_text, default_value, each, ensure, remove, set, text};
use super::super::display::text_at;
use super::super::strategy::Strategy;
use super::service_allocation;

pub(crate) use row::ingress as ingress_addresses;

const AFFINITY_SECONDS: i64 = 10_800;

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update: update::prepare,
    validate_create: rules::validate,
    validate_update: update::validate,
    validate_name: names::name_is_dns_label,
    warnings: |new, _| rules::warnings(new),
    validate_status: |new, _| rules::validate_status(new),
    columns: row::COLUMNS,
    cells: row::cells,
    field_labels: |service| {
        vec![
            ("spec.clusterIP", text_at(service, "/spec/clusterIP").to_owned()),
            ("spec.type", text_at(service, "/spec/type").to_owned()),
        ]
    },
    guards: Some(service_allocation::guard),
    return_deleted_object: true,
    allow_create_on_update: true,
    ..Strategy::DEFAULT
};

fn default(service: &mut Object) {
    let spec = ensure(service.as_map_mut(), "spec");
    default_text(spec, "sessionAffinity", "None");
    if text(spec, "sessionAffinity") == "None" {
        remove(spec, "sessionAffinityConfig");
    } else if text(spec, "sessionAffinity") == "ClientIP"
        && spec.pointer("/sessionAffinityConfig/clientIP/timeoutSeconds").is_none()
    {
        set(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}));
    }
    default_text(spec, "type", "ClusterIP");
    each(spec, "ports", port);
    if externally_accessible(spec) {
        default_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(text(spec, "type"), "ClusterIP" | "NodePort" | "LoadBalancer") {
        default_value(spec, "internalTrafficPolicy", "Cluster");
    }
    if text(spec, "type") == "LoadBalancer" {
        default_value(spec, "allocateLoadBalancerNodePorts", true);
        let ingress = service.as_map_mut().get_mut("status").and_then(|s| s.pointer_mut("/loadBalancer/ingress"));
        for address in ingress.and_then(Value::as_array_mut).into_iter().flatten() {
            if !text(address, "ip").is_empty() {
                default_value(address, "ipMode", "VIP");
            }
        }
    }
}

fn port(port: &mut Value) {
    default_text(port, "protocol", "TCP");
    let target = port.get("targetPort");
    let unset = target.is_none_or(|target| target.is_null() || target == &json!(0) || target == &json!(""));
    if let Some(number) = port.get("port").cloned().filter(|_| unset) {
        set(port, "targetPort", number);
    }
}

fn prepare_create(service: &mut Object) {
    service.as_map_mut().insert("status".to_owned(), json!({"loadBalancer": {}}));
    let spec = ensure(service.as_map_mut(), "spec");
    let one = text(spec, "clusterIP").to_owned();
    if !one.is_empty() {
        default_value(spec, "clusterIPs", json!([one]));
    }
    families(spec);
}

/// One family is served; what asks for more than it must have gets one. [`rules`] refuse what asks for another.
fn families(spec: &mut Value) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    // Where the user's own endpoints are nobody knows, so both families are offered for them.
    let anywhere = text(spec, "clusterIP") == "None" && !has_selector(spec);
    default_value(spec, "ipFamilyPolicy", if anywhere { "RequireDualStack" } else { "SingleStack" });
    let ips = spec.get("clusterIPs").and_then(Value::as_array).cloned().unwrap_or_default();
    let first_is_v6 = ips.first().and_then(Value::as_str).is_some_and(super::super::formats::is_ipv6);
    let unset = spec.get("ipFamilies").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if unset {
        set(spec, "ipFamilies", json!([if first_is_v6 { "IPv6" } else { "IPv4" }]));
    }
    let other = match spec.get("ipFamilies").and_then(Value::as_array).map(Vec::as_slice) {
        Some([Value::String(family)]) if family == "IPv4" => "IPv6",
        Some([Value::String(family)]) if family == "IPv6" => "IPv4",
        _ => return,
    };
    if anywhere
        && text(spec, "ipFamilyPolicy") != "SingleStack"
        && let Some(families) = spec.get_mut("ipFamilies").and_then(Value::as_array_mut)
    {
        families.push(other.into());
    }
}

fn has_selector(spec: &Value) -> bool {
    spec.get("selector").and_then(Value::as_object).is_some_and(|selector| !selector.is_empty())
}

// What a service's type and fields make of it.

pub(super) fn is_headless(spec: &Value) -> bool {
    spec.get("clusterIPs").and_then(Value::as_array).is_some_and(|ips| ips.len() == 1 && ips[0] == "None")
}

pub(super) fn needs_cluster_ip(spec: &Value) -> bool {
    matches!(text(spec, "type"), "ClusterIP" | "NodePort" | "LoadBalancer")
}

pub(super) fn needs_node_ports(spec: &Value) -> bool {
    let allocates = spec.get("allocateLoadBalancerNodePorts").and_then(Value::as_bool).unwrap_or(true);
    text(spec, "type") == "NodePort" || (text(spec, "type") == "LoadBalancer" && allocates)
}

pub(super) fn needs_health_check_port(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

/// By a port on every node, by a load balancer, or by addresses from outside.
pub(super) fn externally_accessible(spec: &Value) -> bool {
    let has_ips = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer") || (text(spec, "type") == "ClusterIP" && has_ips)
}
