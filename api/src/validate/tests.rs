use serde_json::json;

use super::*;
use crate::object::Object;
use crate::resource::Scope;

const LABEL_TAIL: &str =
    " (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const KEY_TAIL: &str = " (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn check(messages: Vec<String>, want: &[&str]) {
    assert_eq!(messages, want);
}

#[test]
fn labels_of_dns() {
    for good in ["a", "0", "my-name", "a--b", &"a".repeat(63)] {
        check(dns1123_label(good), &[]);
    }
    let rule = format!(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character{LABEL_TAIL}"
    );
    for bad in ["", "-a", "a-", "A", "a_b", "a b", "é"] {
        check(dns1123_label(bad), &[&rule]);
    }
    check(dns1123_label("a.b"), &["must not contain dots"]);
    check(dns1123_label(&"a".repeat(64)), &["must be no more than 63 characters"]);
    check(dns1035_label("abc-123"), &[]);
    check(
        dns1035_label("1a"),
        &[
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        ],
    );
}

#[test]
fn subdomains() {
    for good in ["a", "a.b", "example.com", "1.2.3.4"] {
        check(dns1123_subdomain(good), &[]);
    }
    let rule = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    for bad in ["", ".a", "a.", "a..b", "a.-b", "A.b", "_"] {
        check(dns1123_subdomain(bad), &[rule]);
    }
    check(dns1123_subdomain(&"a".repeat(254)), &["must be no more than 253 characters"]);
    check(wildcard_dns1123_subdomain("*.a.b"), &[]);
    assert_eq!(wildcard_dns1123_subdomain("*.*.a").len(), 1);
}

#[test]
fn keys_and_values_of_labels() {
    for good in ["a", "A_b.c-d", "a.io/Name", &format!("{}/x", "a".repeat(253))] {
        check(label_key(good), &[]);
    }
    let rule = format!(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character{KEY_TAIL}"
    );
    check(label_key(""), &["name part must be non-empty", &format!("name part {rule}")]);
    check(label_key("/a"), &["prefix part must be non-empty"]);
    check(label_key("-"), &[&format!("name part {rule}")]);
    check(label_key(&"a".repeat(64)), &["name part must be no more than 63 bytes"]);
    check(
        label_key("a/b/c"),
        &[&format!(
            "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )],
    );
    assert!(label_key("A.io/x")[0].starts_with("prefix part a lowercase RFC 1123 subdomain must"));
    check(label_value(""), &[]);
    check(label_value("A_1.b"), &[]);
    check(
        label_value("a b"),
        &[
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ],
    );
    check(label_value(&"a".repeat(64)), &["must be no more than 63 bytes"]);
}

#[test]
fn names_of_objects_and_their_prefixes() {
    check(name_is_dns_subdomain("web-", true), &[]);
    assert_eq!(name_is_dns_subdomain("web-", false).len(), 1);
    assert_eq!(name_is_dns_label("-", true).len(), 1);
    check(name_is_dns_label("a-", true), &[]);
    check(name_is_dns1035_label("web-1-", true), &[]);
    check(name_is_path_segment("system:node:é x", false), &[]);
    check(name_is_path_segment("..", false), &["may not be '..'"]);
    check(name_is_path_segment("..", true), &[]);
    check(name_is_path_segment("a/b%", false), &["may not contain '/'", "may not contain '%'"]);
}

#[test]
fn other_texts() {
    check(port_name("http-1"), &[]);
    check(port_name("a--"), &["must not contain consecutive hyphens", "must not begin or end with a hyphen"]);
    check(port_name("80"), &["must contain at least one letter (a-z)"]);
    check(port_number(65536), &["must be between 1 and 65535, inclusive"]);
    check(user_id(-1), &["must be between 0 and 2147483647, inclusive"]);
    check(config_map_key("a.B_c-1"), &[]);
    check(config_map_key(".."), &["must not be '..'"]);
    check(config_map_key("..x"), &["must not start with '..'"]);
    assert!(config_map_key("a/b")[0].starts_with("a valid config key must consist of"));
    check(env_var_name("MY_ENV.name-1"), &[]);
    assert_eq!(env_var_name("1A").len(), 1);
    check(relaxed_env_var_name("1 A"), &[]);
    check(relaxed_env_var_name(""), &["environment variable name must be non-empty"]);
    assert_eq!(relaxed_env_var_name("a=b").len(), 1);
    check(c_identifier("_a1"), &[]);
    assert_eq!(c_identifier("1a").len(), 1);
    check(percent("10%"), &[]);
    assert_eq!(percent("%").len(), 1);
    check(http_header_name("X-Header"), &[]);
    assert_eq!(http_header_name("a:").len(), 1);
}

fn object(metadata: Value) -> Object {
    Object::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap()
}

fn lines(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(FieldError::to_string).collect()
}

#[test]
fn metadata_of_new_objects() {
    let create = |metadata: Value, scope| lines(&metadata_create(&object(metadata), scope, name_is_dns_subdomain));
    assert!(create(json!({"name": "a", "namespace": "b", "labels": {"a.io/b": ""}}), Scope::Namespaced).is_empty());
    assert_eq!(
        create(json!({}), Scope::Namespaced),
        ["metadata.name: Required value: name or generateName is required", "metadata.namespace: Required value"]
    );
    assert_eq!(
        create(json!({"name": "a", "namespace": "b"}), Scope::Cluster),
        ["metadata.namespace: Forbidden: not allowed on this type"]
    );
    let wrong = json!({
        "name": "a", "generation": -1,
        "annotations": {"UP.io/x": "", "big": "x".repeat(ANNOTATIONS_MAX_BYTES)},
        "finalizers": ["orphan", "foregroundDeletion"],
        "managedFields": [{"operation": "Merge", "fieldsType": "V2", "manager": "a\n"}, {}],
        "ownerReferences": [
            {"apiVersion": "a/b/c", "kind": "K", "name": "n", "uid": "u", "controller": true},
            {"apiVersion": "v1", "kind": "Event", "name": "n", "uid": "u", "controller": true},
            {},
        ],
    });
    let found = create(wrong, Scope::Cluster);
    assert_eq!(
        found,
        [
            "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
            "metadata.annotations: Too long: may not be more than 262144 bytes",
            "metadata.ownerReferences[0].apiVersion: Invalid value: \"a/b/c\": must be <group>/<version> or <version>",
            "metadata.ownerReferences[1]: Invalid value: {\"apiVersion\":\"v1\",\"controller\":true,\"kind\":\"Event\",\"name\":\"n\",\"uid\":\"u\"}: /v1, Kind=Event is disallowed from being an owner",
            "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"a/b/c\",\"controller\":true,\"kind\":\"K\",\"name\":\"n\",\"uid\":\"u\"},{\"apiVersion\":\"v1\",\"controller\":true,\"kind\":\"Event\",\"name\":\"n\",\"uid\":\"u\"},{\"apiVersion\":\"\",\"kind\":\"\",\"name\":\"\",\"uid\":\"\"}]: Only one reference can have Controller set to true. Found \"true\" in references for K/n and Event/n",
            "metadata.ownerReferences[2].apiVersion: Required value: must not be empty",
            "metadata.ownerReferences[2].kind: Required value: must not be empty",
            "metadata.ownerReferences[2].name: Required value: must not be empty",
            "metadata.ownerReferences[2].uid: Required value: must not be empty",
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
            "metadata.managedFields[0].operation: Unsupported value: \"Merge\": supported values: \"Apply\", \"Update\"",
            "metadata.managedFields[0].fieldsType: Invalid value: \"V2\": must be `FieldsV1`",
            "metadata.managedFields[0].manager: Invalid value: \"a\\n\": invalid character U+000A (at position 1)",
            "metadata.managedFields[1].operation: Required value: must not be empty",
        ]
    );
}

#[test]
fn metadata_of_updates() {
    let old = json!({
        "name": "a", "namespace": "n", "uid": "1", "resourceVersion": "5", "generation": 2,
        "creationTimestamp": "2026-11-30T17:45:00Z", "deletionTimestamp": "2026-11-30T18:00:00Z",
        "deletionGracePeriodSeconds": 30, "finalizers": ["x.io/a"],
    });
    let update = |new: Value| lines(&metadata_update(&object(new), &object(old.clone())));
    let mut same = old.clone();
    same["labels"] = json!({"new": "label"});
    same["finalizers"] = json!([]);
    same["creationTimestamp"] = json!("2026-11-30T19:45:00+02:00");
    assert!(update(same).is_empty());
    assert_eq!(
        update(json!({"name": "b", "generation": 1, "finalizers": ["x.io/a", "x.io/b", "x.io/c"]})),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x.io/b\", \"x.io/c\"}",
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.name: Invalid value: \"b\": field is immutable",
            "metadata.namespace: Invalid value: \"\": field is immutable",
            "metadata.uid: Invalid value: \"\": field is immutable",
            "metadata.creationTimestamp: Invalid value: null: field is immutable",
            "metadata.deletionTimestamp: Invalid value: null: field is immutable",
            "metadata.deletionGracePeriodSeconds: Invalid value: null: field is immutable",
        ]
    );
}

#[test]
fn selectors_in_objects() {
    let at = FieldPath::new("spec").child("selector");
    assert!(label_selector(None, &at).is_empty());
    assert!(label_selector(Some(&json!({"matchLabels": {"a": "b"}})), &at).is_empty());
    let wrong = json!({"matchExpressions": [
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
        {"key": "a", "operator": "Near"},
    ]});
    assert_eq!(
        lines(&label_selector(Some(&wrong), &at)),
        [
            "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            "spec.selector.matchExpressions[2].operator: Invalid value: \"Near\": not a valid selector operator",
        ]
    );
}

#[test]
fn options_of_requests() {
    assert!(patch_options(true, "kubectl", Some(true)).is_empty());
    assert_eq!(lines(&patch_options(true, "", None)), ["fieldManager: Required value: is required for apply patch"]);
    assert_eq!(
        lines(&patch_options(false, &"m".repeat(129), Some(false))),
        [
            "force: Forbidden: may not be specified for non-apply patch",
            "fieldManager: Too long: may not be more than 128 bytes",
        ]
    );
    assert_eq!(
        lines(&dry_run(&["All".into(), "x".into()], &FieldPath::new("dryRun"))),
        ["dryRun: Unsupported value: [\"All\",\"x\"]: supported values: \"All\""]
    );
    assert_eq!(
        lines(&field_validation("Loud", &FieldPath::new("fieldValidation"))),
        ["fieldValidation: Unsupported value: \"Loud\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""]
    );
    assert!(delete_options(None, Some("Foreground"), &[]).is_empty());
    assert_eq!(
        lines(&delete_options(Some(true), Some("Later"), &[])),
        [
            "propagationPolicy: Invalid value: \"Later\": orphanDependents and deletionPropagation cannot be both set",
            "propagationPolicy: Unsupported value: \"Later\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
        ]
    );
}
