//! What may change in a service, and what it keeps by itself.
//!
//! A client that sends an object without what was allocated for it means "as it was"; one that changes the type lets
//! go of what the new type has no use for.

use std::collections::{BTreeMap, BTreeSet};

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Value, json};

use super::super::super::defaulting::{ensure, remove, set, text};
use super::super::super::rules::{At, Errors};
use super::{
    externally_accessible, families, is_headless, needs_cluster_ip, needs_health_check_port, needs_node_ports, rules,
};

const ONCE: &str = "may not change once set";

pub(super) fn prepare(new: &mut Object, old: &Object) {
    let old = old.as_map().get("spec").cloned().unwrap_or_else(|| json!({}));
    let spec = ensure(new.as_map_mut(), "spec");
    keep_allocated(spec, &old);
    let (one, before) = (text(spec, "clusterIP").to_owned(), text(&old, "clusterIP").to_owned());
    if one != before && spec.get("clusterIPs") == old.get("clusterIPs") {
        match one.as_str() {
            "" => drop(remove(spec, "clusterIPs")),
            ip => set(spec, "clusterIPs", json!([ip])),
        }
    } else if !one.is_empty() && spec.get("clusterIPs").is_none_or(Value::is_null) {
        set(spec, "clusterIPs", json!([one]));
    }
    drop_unneeded(spec, &old);
    if text(spec, "type") != "ExternalName" {
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if let Some(value) = old.get(field).filter(|_| spec.get(field).is_none_or(Value::is_null)) {
                set(spec, field, value.clone());
            }
        }
    }
    families(spec);
}

fn keep_allocated(spec: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(spec) {
        if text(spec, "clusterIP").is_empty() && !text(old, "clusterIP").is_empty() {
            set(spec, "clusterIP", text(old, "clusterIP").to_owned());
        }
        let unset = spec.get("clusterIPs").and_then(Value::as_array).is_none_or(Vec::is_empty);
        if unset && text(spec, "clusterIP") == text(old, "clusterIP") && old.get("clusterIPs").is_some() {
            set(spec, "clusterIPs", old["clusterIPs"].clone());
        }
    }
    if needs_node_ports(old) && needs_node_ports(spec) {
        keep_node_ports(spec, old);
    }
    let unset = number(spec, "healthCheckNodePort") == 0;
    if needs_health_check_port(old) && needs_health_check_port(spec) && unset {
        set(spec, "healthCheckNodePort", number(old, "healthCheckNodePort"));
    }
}

fn number(of: &Value, name: &str) -> i64 {
    of.get(name).and_then(Value::as_i64).unwrap_or_default()
}

fn ports(spec: &Value) -> impl Iterator<Item = &Value> {
    spec.get("ports").and_then(Value::as_array).into_iter().flatten()
}

/// A port of the same name keeps its node port, unless another port of the new object has taken that.
fn keep_node_ports(spec: &mut Value, old: &Value) {
    let used = |spec: &Value| ports(spec).map(|port| number(port, "nodePort")).collect::<BTreeSet<i64>>();
    let taken: BTreeSet<i64> = used(old).intersection(&used(spec)).copied().collect();
    let by_name: BTreeMap<String, i64> =
        ports(old).map(|port| (text(port, "name").to_owned(), number(port, "nodePort"))).collect();
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if number(port, "nodePort") != 0 {
            continue;
        }
        if let Some(before) = by_name.get(text(port, "name")).filter(|port| **port != 0 && !taken.contains(port)) {
            set(port, "nodePort", *before);
        }
    }
}

type Need = fn(&Value) -> bool;

/// Takes away unchanged fields that the old type needed and the new one has no use for.
fn drop_unneeded(spec: &mut Value, old: &Value) {
    let unchanged = |spec: &Value, field: &str| spec.get(field) == old.get(field);
    if needs_cluster_ip(old) && !needs_cluster_ip(spec) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if unchanged(spec, field) {
                remove(spec, field);
            }
        }
    }
    if needs_node_ports(old) && !needs_node_ports(spec) {
        let same = ports(spec).map(|p| number(p, "nodePort")).eq(ports(old).map(|p| number(p, "nodePort")));
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten().filter(|_| same) {
            remove(port, "nodePort");
        }
    }
    let balanced = |spec: &Value| text(spec, "type") == "LoadBalancer";
    let rules: [(&str, Need); 4] = [
        ("healthCheckNodePort", needs_health_check_port),
        ("allocateLoadBalancerNodePorts", balanced),
        ("loadBalancerClass", balanced),
        ("externalTrafficPolicy", externally_accessible),
    ];
    for (field, needed) in rules {
        if needed(old) && !needed(spec) && unchanged(spec, field) {
            remove(spec, field);
        }
    }
}

pub(super) fn validate(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let (spec, before) = (At::top(new, "spec"), At::top(old, "spec"));
    if let (Some(value), Some(old_value)) = (spec.value(), before.value()) {
        let external = [value, old_value].iter().any(|spec| text(spec, "type") == "ExternalName");
        let headless = (is_headless(value), is_headless(old_value));
        if !external && headless != (true, true) {
            addresses(&spec, &before, &mut errors);
        }
        if !external && headless == (false, false) {
            address_families(&spec, &before, &mut errors);
        }
        if needs_health_check_port(value)
            && needs_health_check_port(old_value)
            && number(value, "healthCheckNodePort") != number(old_value, "healthCheckNodePort")
        {
            errors.forbidden(&spec.field("healthCheckNodePort"), "field is immutable");
        }
    }
    let balanced = |spec: &At<'_>| spec.field("type").text() == "LoadBalancer";
    let (class, old_class) = (spec.field("loadBalancerClass"), before.field("loadBalancerClass"));
    if balanced(&spec) && balanced(&before) && class.value() != old_class.value() {
        errors.invalid(&class, ONCE);
    }
    errors.extend(rules::validate(new));
    errors.into_vec()
}

/// The first address stays; a second may come or go.
fn addresses(spec: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let (new, old) = (spec.field("clusterIPs"), before.field("clusterIPs"));
    let whole = new.value().cloned().unwrap_or_default();
    let policy = spec.field("ipFamilyPolicy");
    if new.len() == old.len() {
        for (index, _) in old.items().enumerate().filter(|(index, ip)| ip.text() != new.index(*index).text()) {
            errors.invalid_value(&new.index(index), whole.clone(), ONCE);
        }
        return;
    }
    if old.len() > new.len() && new.is_empty() {
        errors.invalid_value(&new.index(0), whole.clone(), "primary clusterIP can not be unset");
    }
    if !old.is_empty() && !new.is_empty() && new.index(0).text() != old.index(0).text() {
        errors.invalid_value(&new.index(0), whole, ONCE);
    }
    if old.len() > new.len() && new.len() == 1 && policy.text() != "SingleStack" {
        errors.invalid(&policy, "must be set to 'SingleStack' when releasing the secondary clusterIP");
    }
}

fn address_families(spec: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let (new, old) = (spec.field("ipFamilies"), before.field("ipFamilies"));
    let first = new.index(0);
    let whole = new.value().cloned().unwrap_or_default();
    let changed = old.items().zip(new.items()).any(|(old, new)| old.text() != new.text());
    if changed {
        errors.invalid_value(&first, whole, ONCE);
    }
    let policy = spec.field("ipFamilyPolicy");
    if old.len() > new.len() && new.len() == 1 && policy.text() != "SingleStack" {
        errors.invalid(&policy, "must be set to 'SingleStack' when releasing the secondary ipFamily");
    }
}
