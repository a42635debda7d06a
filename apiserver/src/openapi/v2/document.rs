//! The document as JSON, from the paths and schemas of the v3 documents.

use serde_json::{Map, Value, json};

use crate::openapi::{paths, schemas};
use crate::registry::{Registry, Row};

const V3_REFERENCE: &str = "#/components/schemas/";
const V2_REFERENCE: &str = "#/definitions/";
const PRODUCES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// What v2 has no word for; a schema without them says less, not something else.
const UNKNOWN_TO_V2: [&str; 4] = ["oneOf", "anyOf", "not", "nullable"];

pub(super) fn of(registry: &Registry) -> Value {
    let rows: Vec<&Row> = registry.rows().iter().map(|row| &**row).collect();
    let version = format!("v{}.{}.0", crate::paths::KUBERNETES_MAJOR, crate::paths::KUBERNETES_MINOR);
    let schemas = schemas::of(&rows);
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": each(paths::of(&rows, &schemas), path_item),
        "definitions": each(schemas, schema),
        "securityDefinitions": {"BearerToken": {
            "type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication",
        }},
        "security": [{"BearerToken": []}],
    })
}

fn each(map: Value, change: fn(Value) -> Value) -> Value {
    match map {
        Value::Object(map) => Value::Object(map.into_iter().map(|(name, value)| (name, change(value))).collect()),
        other => other,
    }
}

fn path_item(item: Value) -> Value {
    let Value::Object(item) = item else { return item };
    let parts = item.into_iter().map(|(name, value)| {
        let value = if name == "parameters" { parameters(value) } else { operation(value) };
        (name, value)
    });
    Value::Object(parts.collect())
}

fn operation(operation: Value) -> Value {
    let Value::Object(mut operation) = operation else { return operation };
    let mut list = parameters(operation.remove("parameters").unwrap_or_else(|| json!([])));
    if let Some(body) = operation.remove("requestBody") {
        let content = body["content"].as_object().cloned().unwrap_or_default();
        let schema = schema(content.values().next().map_or_else(|| json!({}), |form| form["schema"].clone()));
        operation.insert("consumes".to_owned(), content.keys().map(String::as_str).collect());
        if let Some(list) = list.as_array_mut() {
            list.push(json!({"name": "body", "in": "body", "required": true, "schema": schema}));
        }
    }
    operation.insert("parameters".to_owned(), list);
    operation.insert("produces".to_owned(), json!(PRODUCES));
    if let Some(responses) = operation.remove("responses") {
        operation.insert("responses".to_owned(), each(responses, response));
    }
    Value::Object(operation)
}

fn response(response: Value) -> Value {
    let answer = response["content"]["application/json"]["schema"].clone();
    json!({"description": response["description"], "schema": schema(answer)})
}

/// A parameter's type stands beside its name here, not in a schema.
fn parameters(parameters: Value) -> Value {
    let Value::Array(parameters) = parameters else { return parameters };
    let flat = parameters.into_iter().map(|parameter| {
        let Value::Object(mut parameter) = parameter else { return parameter };
        if let Some(Value::Object(schema)) = parameter.remove("schema") {
            parameter.extend(schema);
        }
        Value::Object(parameter)
    });
    Value::Array(flat.collect())
}

fn schema(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    for word in UNKNOWN_TO_V2 {
        schema.remove(word);
    }
    if schema.remove("x-kubernetes-int-or-string").is_some() {
        schema.insert("type".to_owned(), "string".into());
        schema.insert("format".to_owned(), "int-or-string".into());
    }
    lift_reference(&mut schema);
    if let Some(Value::String(reference)) = schema.get_mut("$ref") {
        *reference = reference.replacen(V3_REFERENCE, V2_REFERENCE, 1);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(name) {
            *inner = self::schema(inner.take());
        }
    }
    if let Some(properties) = schema.get_mut("properties") {
        *properties = each(properties.take(), self::schema);
    }
    Value::Object(schema)
}

/// v3 wraps a reference that has a description into `allOf`; v2 has both side by side.
fn lift_reference(schema: &mut Map<String, Value>) {
    let Some(Value::Array(mut all)) = schema.remove("allOf") else { return };
    if let (1, Some(Value::Object(only))) = (all.len(), all.pop()) {
        schema.extend(only);
    }
}
