//! The lists that came before aggregated discovery: APIVersions, APIGroupList, APIGroup, APIResourceList.

use quorate_api::resource::{Subresource, Verb};
use serde_json::{Value, json};

use crate::registry::{Registry, Row};

pub(super) fn versions(api_url: &str) -> Value {
    let address = api_url.trim_start_matches("https://");
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

pub(super) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = group_names(registry).iter().filter_map(|name| group_body(registry, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

pub(super) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let mut body = group_body(registry, name)?;
    body["kind"] = "APIGroup".into();
    body["apiVersion"] = "v1".into();
    Some(body)
}

/// All groups but the core one, in the table's order.
pub(super) fn group_names(registry: &Registry) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in registry.rows().iter().filter(|row| !row.resource.group.is_empty()) {
        if !names.contains(&row.resource.group) {
            names.push(row.resource.group.clone());
        }
    }
    names
}

/// A group's versions in order of preference: today's rows come before those of old APIs.
pub(super) fn group_versions(registry: &Registry, group: &str) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for row in registry.rows().iter().filter(|row| row.resource.group == group) {
        if !versions.contains(&row.version) {
            versions.push(row.version.clone());
        }
    }
    versions
}

fn group_body(registry: &Registry, name: &str) -> Option<Value> {
    let versions: Vec<Value> = group_versions(registry, name)
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": name, "versions": versions, "preferredVersion": preferred}))
}

pub(super) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let rows = registry.rows().iter().filter(|row| row.resource.group == group && row.version == version);
    let mut resources: Vec<Value> = rows.flat_map(|row| resource_and_parts(row)).collect();
    if resources.is_empty() {
        return None;
    }
    resources.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

fn resource_and_parts(row: &Row) -> Vec<Value> {
    let resource = &row.resource;
    let mut own = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced(),
        "kind": resource.kind,
        "verbs": verbs(&resource.verbs),
    });
    for (field, names) in aliases(row) {
        own[field] = json!(names);
    }
    let parts = resource.subresources.iter().map(|part| part_of(row, part));
    std::iter::once(own).chain(parts).collect()
}

/// Short names and categories; old APIs have none, or clients would find each of them twice.
pub(super) fn aliases(row: &Row) -> impl Iterator<Item = (&'static str, &Vec<String>)> {
    let both = [("shortNames", &row.resource.short_names), ("categories", &row.resource.categories)];
    both.into_iter().filter(|(_, names)| !row.resource.legacy && !names.is_empty())
}

fn part_of(row: &Row, part: &Subresource) -> Value {
    let mut value = json!({
        "name": format!("{}/{}", row.resource.plural, part.name),
        "singularName": "",
        "namespaced": row.namespaced(),
        "kind": part.kind.kind,
        "verbs": verbs(&part.verbs),
    });
    let version = if part.kind.version.is_empty() { &row.version } else { &part.kind.version };
    if (&part.kind.group, version) != (&row.resource.group, &row.version) {
        value["group"] = part.kind.group.clone().into();
        value["version"] = version.clone().into();
    }
    value
}

pub(super) fn verbs(verbs: &[Verb]) -> Vec<&'static str> {
    verbs.iter().map(|verb| verb.as_str()).collect()
}
