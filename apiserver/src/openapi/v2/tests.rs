use http::HeaderMap;
use http::header::ACCEPT;
use prost::Message as _;
use serde_json::{Value, json};

use super::{Form, OLD_PROTOBUF, PROTOBUF, document, message};
use crate::registry::Registry;

fn negotiate(accept: &str) -> Result<Form, u16> {
    let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
    Form::negotiate(&headers).map_err(|status| status.code)
}

fn whole() -> Value {
    document::of(&Registry::built_in(quorate_api::resource::table(), true))
}

/// Every value under a member of this name, anywhere.
fn members<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, inner)| {
            if key == name {
                found.push(inner);
            }
            members(inner, name, found);
        }),
        Value::Array(items) => items.iter().for_each(|inner| members(inner, name, found)),
        _ => {}
    }
}

#[test]
fn the_form_is_what_the_client_takes_first() {
    assert_eq!(Form::negotiate(&HeaderMap::new()).ok(), Some(Form::Json));
    assert_eq!(negotiate("application/json, */*"), Ok(Form::Json));
    assert_eq!(negotiate(PROTOBUF), Ok(Form::Protobuf));
    assert!(!Form::Protobuf.media_type().contains('@'), "Go's parser of media types refuses it");
    assert_eq!(negotiate(&format!("{OLD_PROTOBUF}, application/json")), Ok(Form::Protobuf));
    assert_eq!(negotiate("text/html"), Err(406));
}

#[test]
fn every_reference_leads_to_a_definition() {
    let document = whole();
    let mut references = Vec::new();
    members(&document, "$ref", &mut references);
    assert!(references.len() > 1000, "{} references", references.len());
    for reference in references {
        // A schema of schemas has a property of that name.
        let Some(reference) = reference.as_str() else { continue };
        let name = reference.strip_prefix("#/definitions/");
        assert!(name.is_some_and(|name| document["definitions"].get(name).is_some()), "{reference}");
    }
}

#[test]
fn a_path_and_a_schema_are_as_v2_writes_them() {
    let document = whole();
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    let expected = json!({"name": "fieldValidation", "in": "query", "type": "string", "uniqueItems": true});
    assert!(patch["parameters"].as_array().unwrap().contains(&expected), "{patch}");
    let schema = json!({"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"});
    let body = json!({"name": "body", "in": "body", "required": true, "schema": schema});
    assert!(patch["parameters"].as_array().unwrap().contains(&body), "{patch}");
    let number = &document["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"];
    assert_eq!((&number["type"], &number["format"]), (&json!("string"), &json!("int-or-string")));
    let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["properties"]["spec"]["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    assert_eq!(pod["x-kubernetes-group-version-kind"], json!([{"group": "", "version": "v1", "kind": "Pod"}]));
    assert_eq!(pod.get("required"), None);
}

#[test]
fn the_protobuf_form_has_the_numbers_of_openapi_v2() {
    let parameter = json!({"name": "force", "in": "query", "type": "boolean", "uniqueItems": true});
    let one = json!({
        "swagger": "2.0",
        "paths": {"/a": {"patch": {"parameters": [parameter], "x-b": {"c": 1}}}},
        "definitions": {"D": {"type": "object", "properties": {"e": {"$ref": "#/definitions/D"}}}},
    });
    let bytes = message::document(&one).encode_to_vec();
    let expected: [&[u8]; 3] = [
        // Query parameter: in, name, type, unique_items; in NonBodyParameter 3, Parameter 2, ParametersItem 1.
        b"\x0a\x1e\x12\x1c\x1a\x1a\x12\x05query\x22\x05force\x32\x07boolean\xa0\x01\x01",
        // Extension 13 of the operation: name, Any with yaml 2.
        b"\x6a\x10\x0a\x03x-b\x12\x09\x12\x07{\"c\":1}",
        // Definition: name, then Schema with type 22 and properties 25, whose schema has the reference 1.
        b"\x0a\x01D\x12\x26\xb2\x01\x08\x0a\x06object\xca\x01\x18\x0a\x16\x0a\x01e\x12\x11\x0a\x0f#/definitions/D",
    ];
    for part in expected {
        assert!(bytes.windows(part.len()).any(|window| window == part), "{} in {bytes:x?}", part.escape_ascii());
    }
}
