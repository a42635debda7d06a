//! `apidiscovery.k8s.io/v2`: everything in one document.

use quorate_api::resource::Subresource;
use serde_json::{Value, json};

use super::legacy::{aliases, group_names, group_versions, verbs};
use crate::registry::{Registry, Row};

pub(super) fn core(registry: &Registry) -> Value {
    list(vec![group(registry, "")])
}

pub(super) fn groups(registry: &Registry) -> Value {
    list(group_names(registry).iter().map(|name| group(registry, name)).collect())
}

fn list(items: Vec<Value>) -> Value {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn group(registry: &Registry, name: &str) -> Value {
    let versions: Vec<Value> = group_versions(registry, name)
        .iter()
        .map(|version| {
            let rows = registry.rows().iter().filter(|row| row.resource.group == name && row.version == *version);
            let mut resources: Vec<Value> = rows.map(|row| resource(row)).collect();
            resources.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn resource(row: &Row) -> Value {
    let resource = &row.resource;
    let mut value = json!({
        "resource": resource.plural,
        "responseKind": response_kind(row, &resource.kind, &resource.group, &row.version),
        "scope": if resource.namespaced() { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": verbs(&resource.verbs),
    });
    for (field, names) in aliases(row) {
        value[field] = json!(names);
    }
    if !resource.subresources.is_empty() {
        value["subresources"] = resource.subresources.iter().map(|part| subresource(row, part)).collect();
    }
    value
}

fn subresource(row: &Row, part: &Subresource) -> Value {
    let version = if part.kind.version.is_empty() { &row.version } else { &part.kind.version };
    json!({
        "subresource": part.name,
        "responseKind": response_kind(row, &part.kind.kind, &part.kind.group, version),
        "verbs": verbs(&part.verbs),
    })
}

/// Group and version stand there only where they are not those of the list; readers fill them in.
fn response_kind(row: &Row, kind: &str, group: &str, version: &str) -> Value {
    let is_own = (group, version) == (row.resource.group.as_str(), row.version.as_str());
    let (group, version) = if is_own { ("", "") } else { (group, version) };
    json!({"group": group, "version": version, "kind": kind})
}
