//! What decoding says of bodies that do not fit.

use proptest::prelude::*;
use serde_json::json;

use super::kind;
use crate::codec::{DecodeError, FieldValidation, MAX_DEPTH, MAX_STRICT_FINDINGS, json, yaml};

fn deployment(text: &str, validation: FieldValidation) -> Result<crate::codec::Decoded, DecodeError> {
    json::decode(text.as_bytes(), Some(kind("apps/v1", "Deployment")), validation)
}

#[track_caller]
fn refused(text: &str, message: &str) {
    assert_eq!(deployment(text, FieldValidation::Warn).unwrap_err().to_string(), message);
}

const CARELESS: &str = r#"{
    "apiVersion": "apps/v1", "kind": "Deployment", "unknown1": 1,
    "metadata": {"name": "a", "labels": {"app": "x", "app": "y"}, "unknownMeta": {}},
    "spec": {
        "unknownDupe": true, "paused": true, "unknownDupe": false, "paused": false,
        "template": {"spec": {"containers": [
            {"name": "c", "unknownNested": [], "imagePullPolicy": "Always", "imagePullPolicy": "Never"}]}}}}"#;

#[test]
fn findings_come_in_document_order_with_their_paths() {
    let expected = [
        r#"unknown field "unknown1""#,
        r#"duplicate field "metadata.labels.app""#,
        r#"unknown field "metadata.unknownMeta""#,
        // A field that is unknown and repeated is reported as unknown only.
        r#"unknown field "spec.unknownDupe""#,
        r#"duplicate field "spec.paused""#,
        r#"unknown field "spec.template.spec.containers[0].unknownNested""#,
        r#"duplicate field "spec.template.spec.containers[0].imagePullPolicy""#,
    ];
    let decoded = deployment(CARELESS, FieldValidation::Warn).unwrap();
    assert_eq!(decoded.warnings, expected);
    assert_eq!(
        decoded.value,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "labels": {"app": "y"}},
            "spec": {"paused": false, "template": {"spec": {"containers": [
                {"name": "c", "imagePullPolicy": "Never"}]}}}
        })
    );
    let strict = deployment(CARELESS, FieldValidation::Strict).unwrap_err().to_string();
    assert_eq!(strict, format!("strict decoding error: {}", expected.join(", ")));
    let ignored = deployment(CARELESS, FieldValidation::Ignore).unwrap();
    assert_eq!((ignored.value, ignored.warnings), (decoded.value, Vec::new()));
}

#[test]
fn a_parsed_value_is_checked_alike() {
    let value = json!({"spec": {"replicas": 1, "foo": 2}, "kind": "Deployment"});
    let checked = json::check(value, Some(kind("apps/v1", "Deployment")), FieldValidation::Warn).unwrap();
    assert_eq!(checked.warnings, [r#"unknown field "spec.foo""#]);
    assert_eq!(checked.value, json!({"spec": {"replicas": 1}, "kind": "Deployment"}));
}

#[test]
fn without_a_schema_only_duplicates_are_found() {
    let decoded = json::decode(br#"{"spec":{"a":null,"b":[{"c":1,"c":2}]}}"#, None, FieldValidation::Warn).unwrap();
    assert_eq!(decoded.warnings, [r#"duplicate field "spec.b[0].c""#]);
    assert_eq!(decoded.value, json!({"spec": {"a": null, "b": [{"c": 2}]}}));
}

#[test]
fn findings_are_bounded() {
    let fields: Vec<String> = (0..2 * MAX_STRICT_FINDINGS).map(|at| format!("\"x{at}\":1")).collect();
    let decoded = deployment(&format!("{{{}}}", fields.join(",")), FieldValidation::Warn).unwrap();
    assert_eq!(decoded.warnings.len(), MAX_STRICT_FINDINGS);
}

#[test]
fn wrong_types_are_worded_as_go_words_them() {
    refused(
        r#"{"spec":{"replicas":"3"}}"#,
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    refused(
        r#"{"spec":{"replicas":1.5}}"#,
        "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    refused(
        r#"{"spec":{"template":{"spec":{"containers":{"name":"x"}}}}}"#,
        "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
    );
    refused(
        r#"{"spec":{"template":{"spec":{"containers":[{"name":1}]}}}}"#,
        "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string",
    );
    refused(
        r#"{"metadata":{"labels":{"a":1}}}"#,
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
    );
    refused(
        r#"{"metadata":[]}"#,
        "json: cannot unmarshal array into Go struct field Deployment.metadata of type v1.ObjectMeta",
    );
    refused("[]", "json: cannot unmarshal array into Go value of type v1.Deployment");
}

#[test]
fn unreadable_scalars_are_refused() {
    refused(
        r#"{"metadata":{"creationTimestamp":"yesterday"}}"#,
        &crate::time::Time::parse("yesterday").unwrap_err().to_string(),
    );
    refused(
        r#"{"spec":{"template":{"spec":{"overhead":{"cpu":"much"}}}}}"#,
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
    let secret = kind("v1", "Secret");
    let error = json::decode(br#"{"data":{"a":"*"}}"#, Some(secret), FieldValidation::Warn).unwrap_err();
    assert_eq!(error.to_string(), "illegal base64 data at input byte 0");
    assert!(matches!(deployment("{", FieldValidation::Warn), Err(DecodeError::Syntax(_))));
    assert!(matches!(deployment("{} {}", FieldValidation::Warn), Err(DecodeError::Syntax(_))));
    assert!(matches!(deployment("", FieldValidation::Warn), Err(DecodeError::Syntax(_))));
}

#[test]
fn depth_is_bounded() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(json::decode(deep.as_bytes(), None, FieldValidation::Warn), Err(DecodeError::TooDeep));
    let fits = format!("{}{}", "[".repeat(MAX_DEPTH - 1), "]".repeat(MAX_DEPTH - 1));
    assert!(json::decode(fits.as_bytes(), None, FieldValidation::Warn).is_ok());
}

#[test]
fn yaml_is_validated_alike() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 2\n  foo: 1\n  paused: true\n  paused: false\n\
                \x20 template:\n    metadata:\n      labels: {app: \"1\"}\n";
    let schema = Some(kind("apps/v1", "Deployment"));
    let decoded = yaml::decode(text.as_bytes(), schema, FieldValidation::Warn).unwrap();
    assert_eq!(decoded.warnings, [r#"unknown field "spec.foo""#, r#"duplicate field "spec.paused""#]);
    assert_eq!(
        decoded.value,
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
               "spec": {"replicas": 2, "paused": false, "template": {"metadata": {"labels": {"app": "1"}}}}})
    );
    let error = yaml::decode(b"spec: {replicas: two}", schema, FieldValidation::Warn).unwrap_err();
    assert_eq!(
        error.to_string(),
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
    );
    assert!(yaml::decode(b"a: [", schema, FieldValidation::Warn).is_err());
}

#[test]
fn yaml_scalars_are_read_as_upstream_reads_them() {
    for (text, expected) in [
        ("a: yes", json!({"a": true})),
        ("a: off", json!({"a": false})),
        ("a: \"yes\"", json!({"a": "yes"})),
        ("a: 0644", json!({"a": 420})),
        ("a: 0x10", json!({"a": 16})),
        ("a: ~", json!({"a": null})),
        ("a: 2026-11-30", json!({"a": "2026-11-30"})),
        ("1: x", json!({"1": "x"})),
        ("a: &x {b: 1}\nc: *x", json!({"a": {"b": 1}, "c": {"b": 1}})),
        ("{a: b, c: [1, 2]}", json!({"a": "b", "c": [1, 2]})),
        (r#"  {"a": "b"}"#, json!({"a": "b"})),
    ] {
        assert_eq!(yaml::decode(text.as_bytes(), None, FieldValidation::Strict).unwrap().value, expected, "{text}");
    }
}

#[test]
fn yaml_is_bounded() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        bomb += &["a", &level.to_string(), ": &a", &level.to_string(), " [", &aliases, "]\n"].concat();
    }
    for text in [
        deep,
        "- ".repeat(100_000),
        format!("{}1{}", "{a: ".repeat(2 * MAX_DEPTH), "}".repeat(2 * MAX_DEPTH)),
        bomb,
        "a: 1\n---\nb: 2".to_owned(),
    ] {
        assert!(yaml::decode(text.as_bytes(), None, FieldValidation::Warn).is_err());
    }
}

proptest! {
    #[test]
    fn random_text_never_panics(text in "[{}\\[\\]\":,a0.\\-&*!| \n]{0,80}", bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let schema = Some(kind("v1", "Pod"));
        for body in [text.as_bytes(), &bytes] {
            drop(json::decode(body, schema, FieldValidation::Warn));
            drop(yaml::decode(body, schema, FieldValidation::Warn));
        }
    }
}
