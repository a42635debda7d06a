//! The operations on each resource. Clients look for the kind of a PATCH and its `fieldValidation` parameter.

use quorate_api::resource::Verb;
use serde_json::{Map, Value, json};

use crate::registry::Row;

const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// `schemas` are those that the document holds beside the paths.
pub(super) fn of(rows: &[&Row], schemas: &Value) -> Value {
    let item = |row: &Row, operations: &[(&str, Verb, &str)], named: bool, part: Option<Part<'_>>| {
        item(row, operations, named, part, schemas)
    };
    let mut paths = Map::new();
    for row in rows {
        let base = if row.resource.group.is_empty() {
            format!("/api/{}", row.version)
        } else {
            format!("/apis/{}", row.api_version)
        };
        let plural = &row.resource.plural;
        let collection = if row.namespaced() {
            format!("{base}/namespaces/{{namespace}}/{plural}")
        } else {
            format!("{base}/{plural}")
        };
        if row.namespaced() && row.allows(Verb::List) {
            paths.insert(format!("{base}/{plural}"), item(row, &[("get", Verb::List, "list")], false, None));
        }
        let on_collection = [
            ("get", Verb::List, "list"),
            ("post", Verb::Create, "post"),
            ("delete", Verb::DeleteCollection, "deletecollection"),
        ];
        paths.insert(collection.clone(), item(row, &on_collection, false, None));
        let on_object = [
            ("get", Verb::Get, "get"),
            ("put", Verb::Update, "put"),
            ("patch", Verb::Patch, "patch"),
            ("delete", Verb::Delete, "delete"),
        ];
        paths.insert(format!("{collection}/{{name}}"), item(row, &on_object, true, None));
        for part in &row.resource.subresources {
            let operations = [
                ("get", Verb::Get, "get"),
                ("post", Verb::Create, "post"),
                ("put", Verb::Update, "put"),
                ("patch", Verb::Patch, "patch"),
            ];
            let kind = (part.kind.group.as_str(), part.kind.version.as_str(), part.kind.kind.as_str());
            let path = format!("{collection}/{{name}}/{}", part.name);
            paths.insert(path, item(row, &operations, true, Some((&part.verbs, kind, &part.message))));
        }
    }
    Value::Object(paths)
}

type Part<'a> = (&'a [Verb], (&'a str, &'a str, &'a str), &'a str);

fn item(row: &Row, operations: &[(&str, Verb, &str)], named: bool, part: Option<Part<'_>>, schemas: &Value) -> Value {
    let mut item = Map::new();
    let allowed = part.map_or(row.resource.verbs.as_slice(), |(verbs, _, _)| verbs);
    for (method, verb, action) in operations.iter().filter(|(_, verb, _)| allowed.contains(verb)) {
        item.insert((*method).to_owned(), operation(row, *verb, action, part, schemas));
    }
    let mut parameters = Vec::new();
    if named {
        parameters.push(path_parameter("name", &format!("name of the {}", row.resource.kind)));
    }
    if row.namespaced() {
        parameters.push(path_parameter("namespace", "object name and auth scope, such as for teams and projects"));
    }
    item.insert("parameters".to_owned(), Value::Array(parameters));
    Value::Object(item)
}

fn path_parameter(name: &str, description: &str) -> Value {
    json!({"name": name, "in": "path", "description": description, "required": true, "schema": {"type": "string", "uniqueItems": true}})
}

fn operation(row: &Row, verb: Verb, action: &str, part: Option<Part<'_>>, schemas: &Value) -> Value {
    let (group, version, kind) = match part {
        Some((_, (group, "", kind), _)) => (group, row.version.as_str(), kind),
        Some((_, kind, _)) => kind,
        None => (row.resource.group.as_str(), row.version.as_str(), row.resource.kind.as_str()),
    };
    let message = part.map_or(row.message.as_str(), |(_, _, message)| message);
    // Streams and proxies have options instead of a message, and those have no schema.
    let schema = match schemas.get(message) {
        Some(_) => json!({"$ref": format!("#/components/schemas/{message}")}),
        None => json!({"type": "string"}),
    };
    let mut operation = json!({
        "tags": [format!("{}_{}", row.resource.group.replace('.', "_"), row.version)],
        "operationId": format!("{action}{}{}{}", row.version, row.resource.kind, part.map_or("", |(_, (_, _, kind), _)| kind)),
        "parameters": query_parameters(verb),
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema.clone()}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    });
    match verb {
        Verb::Create | Verb::Update => {
            operation["requestBody"] = json!({"content": {"*/*": {"schema": schema}}, "required": true});
        }
        Verb::Patch => {
            let patch = json!({"schema": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"}});
            let content: Map<String, Value> =
                PATCH_TYPES.iter().map(|kind| ((*kind).to_owned(), patch.clone())).collect();
            operation["requestBody"] = json!({"content": content, "required": true});
        }
        Verb::Delete | Verb::DeleteCollection | Verb::Get | Verb::List | Verb::Watch => {}
    }
    operation
}

fn query_parameters(verb: Verb) -> Vec<Value> {
    let names: &[(&str, &str)] = match verb {
        Verb::Create | Verb::Update => {
            &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("pretty", "string")]
        }
        Verb::Patch => &[
            ("dryRun", "string"),
            ("fieldManager", "string"),
            ("fieldValidation", "string"),
            ("force", "boolean"),
            ("pretty", "string"),
        ],
        Verb::Delete => &[
            ("dryRun", "string"),
            ("gracePeriodSeconds", "integer"),
            ("orphanDependents", "boolean"),
            ("propagationPolicy", "string"),
        ],
        Verb::List | Verb::DeleteCollection | Verb::Watch => &[
            ("allowWatchBookmarks", "boolean"),
            ("continue", "string"),
            ("fieldSelector", "string"),
            ("labelSelector", "string"),
            ("limit", "integer"),
            ("resourceVersion", "string"),
            ("resourceVersionMatch", "string"),
            ("sendInitialEvents", "boolean"),
            ("timeoutSeconds", "integer"),
            ("watch", "boolean"),
        ],
        Verb::Get => &[("pretty", "string")],
    };
    names
        .iter()
        .map(|(name, kind)| json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}}))
        .collect()
}
