//! What a service must satisfy.

use std::collections::BTreeSet;

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::{Value, json};

use super::super::super::formats;
use super::super::super::rules::{At, Errors};
use super::super::super::selectors;
use super::super::pod_spec::port_number_or_name;
use super::{externally_accessible, is_headless, needs_health_check_port};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const AFFINITIES: &[&str] = &["ClientIP", "None"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const TRAFFIC_POLICIES: &[&str] = &["Cluster", "Local"];
const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameNode", "PreferSameZone"];
const FAMILIES: &[&str] = &["IPv4", "IPv6"];
/// The one family that cluster addresses have.
const CLUSTER_FAMILY: &str = "IPv4";
const FAMILY_POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
const IP_MODES: &[&str] = &["Proxy", "VIP"];
const MAX_AFFINITY_SECONDS: i64 = 86_400;
const MAX_CLUSTER_IPS: usize = 2;
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const WHEN_CLIENT_IP: &str = "when session affinity type is ClientIP";

pub(super) fn validate(service: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(service, "spec");
    let empty = json!({});
    let value = spec.value().unwrap_or(&empty);
    let headless = is_headless(value);
    let kind = spec.field("type").text();
    if spec.field("ports").is_empty() && !headless && kind != "ExternalName" {
        errors.required(&spec.field("ports"), "");
    }
    by_type(&spec, kind, headless, &mut errors);
    ports(&spec, kind, &mut errors);
    selectors::labels(&spec.field("selector"), &mut errors);
    session_affinity(&spec, &mut errors);
    cluster_ips(&spec, kind, headless, &mut errors);
    for ip in spec.field("externalIPs").items() {
        let messages = formats::ip(ip.text());
        let messages = if messages.is_empty() { formats::routable_ip(ip.text()) } else { messages };
        errors.invalid_each(&ip, messages);
    }
    errors.need_one_of(&spec.field("type"), TYPES);
    load_balancer(service, &spec, kind, &mut errors);
    traffic(&spec, value, &mut errors);
    errors.into_vec()
}

fn by_type(spec: &At<'_>, kind: &str, headless: bool, errors: &mut Errors) {
    if headless && matches!(kind, "LoadBalancer" | "NodePort") {
        let detail = format!("may not be set to 'None' for {kind} services");
        errors.invalid(&spec.field("clusterIPs").index(0), detail);
    }
    if kind != "ExternalName" {
        return;
    }
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"].map(|field| spec.field(field)) {
        if !field.is_empty() {
            errors.forbidden(&field, "may not be set for ExternalName services");
        }
    }
    let name = spec.field("externalName");
    // The name may end in a dot, as fully qualified names do.
    match name.text().strip_suffix('.').unwrap_or(name.text()) {
        "" => errors.required(&name, ""),
        domain => {
            for message in names::dns1123_subdomain(domain) {
                errors.invalid_value(&name, domain, message);
            }
        }
    }
}

fn ports(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    let all = spec.field("ports");
    let mut taken = BTreeSet::new();
    for port in all.items() {
        one_port(&port, all.len() > 1, &mut taken, errors);
    }
    if kind == "ClusterIP" {
        for port in all.items().map(|port| port.field("nodePort")).filter(|port| !port.is_empty()) {
            errors.forbidden(&port, "may not be used when `type` is 'ClusterIP'");
        }
    }
    let (mut node_ports, mut own_ports) = (BTreeSet::new(), BTreeSet::new());
    for port in all.items() {
        let (node, protocol) = (port.field("nodePort"), port.field("protocol").text());
        if !node.is_empty() && !node_ports.insert((protocol, node.number())) {
            errors.duplicate(&node);
        }
    }
    for port in all.items() {
        let (own, protocol) = (port.field("port").number(), port.field("protocol").text());
        if !own_ports.insert((protocol, own)) {
            let shown = json!({"Name": "", "Protocol": protocol, "AppProtocol": null, "Port": own, "TargetPort": 0, "NodePort": 0});
            errors.duplicate_value(&port, shown);
        }
    }
}

fn one_port<'a>(port: &At<'a>, needs_name: bool, taken: &mut BTreeSet<&'a str>, errors: &mut Errors) {
    let (name, number) = (port.field("name"), port.field("port"));
    if !name.is_empty() {
        errors.invalid_each(&name, names::dns1123_label(name.text()));
        if !taken.insert(name.text()) {
            errors.duplicate(&name);
        }
    } else if needs_name {
        errors.required(&name, "");
    }
    for message in names::port_number(number.number()) {
        errors.invalid_value(&number, number.number(), message);
    }
    errors.need_one_of(&port.field("protocol"), PROTOCOLS);
    port_number_or_name(&port.field("targetPort"), errors);
    let protocol = port.field("appProtocol");
    if protocol.is_set() {
        errors.invalid_each(&protocol, names::qualified_name(protocol.text()));
    }
}

fn session_affinity(spec: &At<'_>, errors: &mut Errors) {
    let (affinity, config) = (spec.field("sessionAffinity"), spec.field("sessionAffinityConfig"));
    errors.need_one_of(&affinity, AFFINITIES);
    match affinity.text() {
        "ClientIP" => {
            let client = config.field("clientIP");
            let timeout = client.field("timeoutSeconds");
            if let Some(missing) = [&config, &client, &timeout].into_iter().find(|at| !at.is_set()) {
                errors.required(missing, WHEN_CLIENT_IP);
            } else if !(1..=MAX_AFFINITY_SECONDS).contains(&timeout.number()) {
                let detail = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
                errors.invalid(&timeout, detail);
            }
        }
        "None" if config.is_set() => errors.forbidden(&config, "must not be set when session affinity is None"),
        _ => {}
    }
}

fn cluster_ips(spec: &At<'_>, kind: &str, headless: bool, errors: &mut Errors) {
    if kind == "ExternalName" {
        return;
    }
    let (one, all) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    let first = all.index(0);
    if !one.is_empty() {
        if all.is_empty() {
            errors.required(&all, "");
        } else if first.text() != one.text() {
            errors.invalid(&all, "first value must match `clusterIP`");
        }
    } else if !all.is_empty() {
        errors.invalid(&all, "must be empty when `clusterIP` is not specified");
    }
    families(spec, errors);
    let before = errors.len();
    for (index, ip) in all.items().enumerate() {
        if index == 0 && ip.text() == "None" {
            if all.len() > 1 {
                errors.invalid(&all, "'None' must be the first and only value");
            }
            continue;
        }
        errors.invalid_each(&ip, formats::ip(ip.text()));
    }
    if all.len() > MAX_CLUSTER_IPS {
        errors.invalid(&all, "may only hold up to 2 values");
    }
    if errors.len() > before {
        return;
    }
    if all.len() > 1 && !formats::is_dual_stack(all.items().map(|ip| ip.text())) {
        errors.invalid(&all, "may specify no more than one IP for each IP family");
    }
    if !headless {
        for (index, (ip, family)) in all.items().zip(spec.field("ipFamilies").items()).enumerate() {
            let actual = if formats::is_ipv6(ip.text()) { "IPv6" } else { "IPv4" };
            if FAMILIES.contains(&family.text()) && family.text() != actual {
                let detail = format!("expected an {} value as indicated by `ipFamilies[{index}]`", family.text());
                errors.invalid(&ip, detail);
            }
        }
    }
    if errors.len() == before {
        stacks(spec, headless, errors);
    }
}

/// What the cluster cannot give: it has IPv4 only. A headless service without selector gets no address of the
/// cluster's, so it may say what it likes.
fn stacks(spec: &At<'_>, headless: bool, errors: &mut Errors) {
    let (policy, all, families) = (spec.field("ipFamilyPolicy"), spec.field("clusterIPs"), spec.field("ipFamilies"));
    let before = errors.len();
    if policy.text() == "SingleStack" {
        for (list, what) in [(&all, "cluster IPs"), (&families, "IP families")] {
            if list.len() == 2 {
                let detail =
                    format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
                errors.invalid(&policy, detail);
            }
        }
    }
    for (index, ip) in all.items().enumerate().skip(families.len()) {
        if formats::is_ipv6(ip.text()) {
            let whole = all.value().cloned().unwrap_or_default();
            errors.invalid_value(&all.index(index), whole, "IPv6 is not configured on this cluster");
        }
    }
    if errors.len() > before || (headless && spec.field("selector").is_empty()) {
        return;
    }
    if policy.text() == "RequireDualStack" {
        errors.invalid(&policy, "this cluster is not configured for dual-stack services");
    }
    for family in families.items().filter(|family| family.text() != CLUSTER_FAMILY) {
        errors.invalid(&family, "not configured on this cluster");
    }
}

fn families(spec: &At<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for family in spec.field("ipFamilies").items() {
        errors.one_of(&family, FAMILIES);
        if !taken.insert(family.text()) {
            errors.duplicate(&family);
        }
    }
    errors.if_set_one_of(&spec.field("ipFamilyPolicy"), FAMILY_POLICIES);
}

fn load_balancer(service: &Object, spec: &At<'_>, kind: &str, errors: &mut Errors) {
    let balanced = kind == "LoadBalancer";
    let ranges = spec.field("loadBalancerSourceRanges").filed_under(&spec.field("LoadBalancerSourceRanges"));
    let note = At::top(service, "metadata").field("annotations").key(SOURCE_RANGES);
    if !ranges.is_empty() {
        if !balanced {
            errors.forbidden(&ranges, ONLY_LOAD_BALANCER);
        }
        for range in ranges.items() {
            for message in formats::cidr(range.text().trim()) {
                errors.invalid_value(&range, range.text().trim(), message);
            }
        }
    } else if note.is_set() {
        if !balanced {
            errors.forbidden(&note, ONLY_LOAD_BALANCER);
        }
        for range in note.text().split(',').map(str::trim).filter(|range| !range.is_empty()) {
            for message in formats::cidr(range) {
                errors.invalid_value(&note, range, message);
            }
        }
    }
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"].map(|field| spec.field(field)) {
        if field.is_set() && !balanced {
            errors.forbidden(&field, ONLY_LOAD_BALANCER);
        }
    }
    if balanced && !spec.field("allocateLoadBalancerNodePorts").is_set() {
        errors.required(&spec.field("allocateLoadBalancerNodePorts").filed_at_top("allocateLoadBalancerNodePorts"), "");
    }
    let class = spec.field("loadBalancerClass");
    if balanced && class.is_set() {
        errors.invalid_each(&class, names::qualified_name(class.text()));
    }
}

fn traffic(spec: &At<'_>, value: &Value, errors: &mut Errors) {
    let external = spec.field("externalTrafficPolicy");
    if externally_accessible(value) {
        errors.need_one_of(&external, TRAFFIC_POLICIES);
    } else if !external.is_empty() {
        errors.invalid(&external, "may only be set for externally-accessible services");
    }
    let health = spec.field("healthCheckNodePort");
    if !health.is_empty() {
        if needs_health_check_port(value) {
            errors.invalid_each(&health, names::port_number(health.number()));
        } else {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&health, detail);
        }
    }
    let internal = spec.field("internalTrafficPolicy");
    if internal.is_set() {
        errors.one_of(&internal, TRAFFIC_POLICIES);
    } else if matches!(spec.field("type").text(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        errors.required(&internal, "");
    }
    errors.if_set_one_of(&spec.field("trafficDistribution"), DISTRIBUTIONS);
}

pub(super) fn validate_status(service: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let balanced = At::top(service, "spec").field("type").text() == "LoadBalancer";
    let ingress = At::top(service, "status").field("loadBalancer").field("ingress");
    if !balanced && !ingress.is_empty() {
        errors.forbidden(&ingress, "may only be used when `spec.type` is 'LoadBalancer'");
        return errors.into_vec();
    }
    for entry in ingress.items() {
        let (ip, mode, host) = (entry.field("ip"), entry.field("ipMode"), entry.field("hostname"));
        if !ip.is_empty() {
            errors.invalid_each(&ip, formats::ip(ip.text()));
        }
        match (mode.is_set(), ip.is_empty()) {
            (false, false) => errors.required(&mode, "must be specified when `ip` is set"),
            (true, true) => errors.forbidden(&mode, "may not be specified when `ip` is not set"),
            (true, false) => errors.one_of(&mode, IP_MODES),
            (false, true) => {}
        }
        if !host.is_empty() {
            errors.invalid_each(&host, names::dns1123_subdomain(host.text()));
            if formats::ip(host.text()).is_empty() {
                errors.invalid(&host, "must be a DNS name, not an IP address");
            }
        }
    }
    errors.into_vec()
}

pub(super) fn warnings(service: &Object) -> Vec<String> {
    let spec = At::top(service, "spec");
    let mut warnings = Vec::new();
    if spec.value().is_some_and(is_headless) {
        if !spec.field("externalIPs").is_empty() {
            warnings.push("spec.externalIPs is ignored when spec.clusterIP is \"None\"".to_owned());
        }
        if spec.field("sessionAffinity").text() == "ClientIP" {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    if spec.field("type").text() != "ExternalName" && !spec.field("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    warnings
}
