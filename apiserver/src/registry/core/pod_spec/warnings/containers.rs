//! Environment, ports and profiles of containers.

use std::collections::{BTreeMap, BTreeSet};

use quorate_api::field::FieldPath;
use quorate_api::quote::quote;
use serde_json::{Value, json};

use super::super::super::super::rules::At;
use super::super::all_containers;
use super::{USE_SECCOMP_FIELD, fractions};

const SECCOMP_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn warn(notes: &At<'_>, spec: &At<'_>, in_template: bool, warnings: &mut Vec<String>) {
    for container in all_containers(spec) {
        profiles(&container, notes, spec, in_template, warnings);
        for list in ["limits", "requests"] {
            fractions(&container.field("resources").field(list), warnings);
        }
        environment(&container, warnings);
    }
    ports(spec, warnings);
    port_names(spec, warnings);
}

/// Annotations in place of fields.
fn profiles(container: &At<'_>, notes: &At<'_>, spec: &At<'_>, in_template: bool, warnings: &mut Vec<String>) {
    let name = container.field("name").text();
    let context = container.field("securityContext");
    let seccomp = notes.key(&format!("{SECCOMP_PREFIX}{name}"));
    if seccomp.is_set() && !context.field("seccompProfile").is_set() {
        warnings.push(format!("{}: {USE_SECCOMP_FIELD}", seccomp.path()));
    }
    let profile = notes.key(&format!("{APP_ARMOR_PREFIX}{name}"));
    // For pods the annotation still becomes the field.
    if !in_template || !profile.is_set() || context.field("appArmorProfile").is_set() {
        return;
    }
    let pods = spec.field("securityContext").field("appArmorProfile");
    if pods.value() != app_armor(profile.text()).as_ref() || !pods.is_set() {
        let path = profile.path();
        warnings.push(format!("{path}: deprecated since v1.30; use the \"appArmorProfile\" field instead"));
    }
}

/// The field that an annotation stands for.
fn app_armor(text: &str) -> Option<Value> {
    match (text, text.strip_prefix("localhost/")) {
        ("unconfined", _) => Some(json!({"type": "Unconfined"})),
        ("runtime/default", _) => Some(json!({"type": "RuntimeDefault"})),
        (_, Some(profile)) if !profile.is_empty() => Some(json!({"type": "Localhost", "localhostProfile": profile})),
        _ => None,
    }
}

/// A variable may build on its earlier self; anything else hides it.
fn environment(container: &At<'_>, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for variable in container.field("env").items() {
        let name = variable.field("name").text();
        if seen.insert(name) {
            continue;
        }
        let value = variable.field("value").text();
        let itself = format!("$({name})");
        if variable.field("valueFrom").is_set() || value == itself || !value.contains(&itself) {
            let (path, name) = (variable.path(), quote(name));
            warnings
                .push(format!("{path}: hides previous definition of {name}, which may be dropped when using apply"));
        }
    }
}

fn ports(spec: &At<'_>, warnings: &mut Vec<String>) {
    type Seen<'a> = Vec<(FieldPath, &'a str, i64)>;
    let mut seen: BTreeMap<(i64, &str), Seen<'_>> = BTreeMap::new();
    for port in all_containers(spec).flat_map(|container| container.field("ports").items()) {
        let (number, protocol) = (port.field("containerPort").number(), port.field("protocol").text());
        let (ip, host) = (port.field("hostIP").text(), port.field("hostPort").number());
        let path = port.path();
        if !ip.is_empty() && host == 0 {
            let name = port.field("name").text();
            warnings.push(format!(
                "{path}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}"
            ));
        }
        let others = seen.entry((number, protocol)).or_default();
        for (other, other_ip, other_host) in others.iter() {
            let how = if (ip, host) == (*other_ip, *other_host) {
                "duplicate"
            } else if host == 0 || *other_host == 0 {
                "overlapping"
            } else if host == *other_host && ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{path}: {how} port definition with {other}"));
        }
        others.push((path.clone(), ip, host));
    }
}

fn port_names(spec: &At<'_>, warnings: &mut Vec<String>) {
    let mut seen: BTreeMap<&str, FieldPath> = BTreeMap::new();
    for port in all_containers(spec).flat_map(|container| container.field("ports").items()) {
        let name = port.field("name").text();
        if name.is_empty() {
            continue;
        }
        match seen.get(name) {
            Some(other) => warnings.push(format!(
                "{}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                port.path(),
                quote(name)
            )),
            None => drop(seen.insert(name, port.path().clone())),
        }
    }
}
