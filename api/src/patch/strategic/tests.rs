use proptest::prelude::*;
use serde_json::{Value, json};

use super::apply;
use crate::codec::canonicalize;
use crate::codec::tests::random;
use crate::patch::PatchError;
use crate::schema::{self, Type};

fn pod_spec() -> &'static Type {
    schema::named("io.k8s.api.core.v1.PodSpec").unwrap()
}

fn kind(version: &str, kind: &str) -> &'static Type {
    schema::for_version_kind(version, kind).unwrap()
}

#[track_caller]
fn check(schema: &'static Type, current: Value, patch: Value, expected: Value) {
    assert_eq!(apply(&current, &patch, schema), Ok(expected));
}

#[track_caller]
fn refused(schema: &'static Type, current: Value, patch: Value, message: &str) {
    let error = apply(&current, &patch, schema).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert_eq!(error.code(), 400);
}

#[test]
fn objects_merge_and_null_removes() {
    check(
        kind("v1", "Pod"),
        json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}, "spec": {"nodeName": "n"}}),
        json!({"metadata": {"labels": {"x": null, "z": "3"}}, "spec": {"hostname": "h", "gone": null}}),
        json!({"metadata": {"name": "a", "labels": {"y": "2", "z": "3"}}, "spec": {"nodeName": "n", "hostname": "h"}}),
    );
}

#[test]
fn lists_merge_by_their_key_and_new_elements_come_first() {
    check(
        pod_spec(),
        json!({"containers": [{"name": "a", "image": "1", "command": ["x", "y"]}, {"name": "b", "image": "1"}]}),
        json!({"containers": [{"name": "c", "image": "1", "tty": null}, {"name": "a", "image": "2", "command": ["z"]}]}),
        json!({"containers": [
            {"name": "c", "image": "1"}, {"name": "a", "image": "2", "command": ["z"]}, {"name": "b", "image": "1"}]}),
    );
    check(
        pod_spec(),
        json!({}),
        json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1", "valueFrom": null}]}]}),
        json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}),
    );
    // Without a merge key in the schema the list is replaced.
    check(
        pod_spec(),
        json!({"tolerations": [{"key": "a"}]}),
        json!({"tolerations": [{"key": "b"}]}),
        json!({"tolerations": [{"key": "b"}]}),
    );
}

#[test]
fn nested_lists_merge() {
    check(
        kind("apps/v1", "Deployment"),
        json!({"spec": {"template": {"spec": {"containers": [
            {"name": "a", "ports": [{"containerPort": 80, "name": "http"}], "env": [{"name": "X", "value": "1"}]}]}}}}),
        json!({"spec": {"template": {"spec": {"containers": [
            {"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"}],
             "env": [{"name": "X", "$patch": "delete"}, {"name": "Y", "value": "2"}]}]}}}}),
        json!({"spec": {"template": {"spec": {"containers": [
            {"name": "a", "ports": [{"containerPort": 80, "name": "http", "protocol": "UDP"}],
             "env": [{"name": "Y", "value": "2"}]}]}}}}),
    );
}

#[test]
fn patch_replace_and_delete() {
    check(
        pod_spec(),
        json!({"securityContext": {"runAsUser": 1, "fsGroup": 2}, "nodeSelector": {"a": "b"}}),
        json!({"securityContext": {"$patch": "replace", "runAsUser": 3}, "nodeSelector": {"$patch": "delete"}}),
        json!({"securityContext": {"runAsUser": 3}, "nodeSelector": {}}),
    );
    check(
        pod_spec(),
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"containers": [{"$patch": "delete", "name": "a"}, {"$patch": "delete", "name": "x"}]}),
        json!({"containers": [{"name": "b"}]}),
    );
    check(
        pod_spec(),
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"containers": [{"$patch": "replace"}, {"name": "c"}, {"name": "a", "image": "i"}]}),
        json!({"containers": [{"name": "c"}, {"name": "a", "image": "i"}]}),
    );
    check(
        pod_spec(),
        json!({"containers": [{"name": "a"}]}),
        json!({"$patch": "replace", "hostname": "h"}),
        json!({"hostname": "h"}),
    );
    check(
        pod_spec(),
        json!({"containers": [{"name": "a", "image": "i", "tty": true}]}),
        json!({"containers": [{"name": "a", "$patch": "merge", "tty": false}]}),
        json!({"containers": [{"name": "a", "image": "i", "tty": false}]}),
    );
}

#[test]
fn scalars_merge_as_a_set_and_are_deleted_by_name() {
    check(
        kind("v1", "Pod"),
        json!({"metadata": {"finalizers": ["a", "b", "c"]}}),
        json!({"metadata": {"finalizers": ["d", "a"], "$deleteFromPrimitiveList/finalizers": ["b", "x"]}}),
        json!({"metadata": {"finalizers": ["d", "a", "c"]}}),
    );
    check(
        kind("v1", "Pod"),
        json!({"metadata": {}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"]}}),
        json!({"metadata": {}}),
    );
}

#[test]
fn element_order_is_set() {
    check(
        pod_spec(),
        json!({"containers": [{"name": "a"}, {"name": "server"}, {"name": "b"}]}),
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "new"}, {"name": "a"}],
               "containers": [{"name": "new", "image": "i"}]}),
        json!({"containers": [{"name": "server"}, {"name": "b"}, {"name": "new", "image": "i"}, {"name": "a"}]}),
    );
    check(
        kind("v1", "Pod"),
        json!({"metadata": {"finalizers": ["a", "b", "c"]}}),
        json!({"metadata": {"$setElementOrder/finalizers": ["c", "a"]}}),
        json!({"metadata": {"finalizers": ["b", "c", "a"]}}),
    );
    check(
        pod_spec(),
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"$patch": "delete", "name": "a"}]}),
        json!({"containers": [{"name": "b"}]}),
    );
    check(pod_spec(), json!({}), json!({"$setElementOrder/containers": [{"name": "b"}]}), json!({}));
}

#[test]
fn retained_keys_clear_the_others() {
    check(
        pod_spec(),
        json!({"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}),
        json!({"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]}),
        json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}),
    );
    check(
        kind("apps/v1", "Deployment"),
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": null}}}),
        json!({"spec": {"strategy": {"type": "Recreate"}}}),
    );
}

#[test]
fn a_field_with_the_replace_strategy_is_replaced() {
    check(
        kind("policy/v1", "PodDisruptionBudget"),
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
        json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}}),
        json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}}),
    );
}

#[test]
fn fields_without_schema_merge_as_plain_json() {
    check(
        pod_spec(),
        json!({"future": {"a": 1, "list": [1]}}),
        json!({"future": {"b": 2, "list": [2]}}),
        json!({"future": {"a": 1, "b": 2, "list": [2]}}),
    );
}

#[test]
fn malformed_patches_are_refused() {
    let current = json!({"containers": [{"name": "a"}], "volumes": [{"name": "v"}]});
    refused(pod_spec(), current.clone(), json!({"$patch": "explode"}), r#"unknown patch type: "explode""#);
    refused(
        pod_spec(),
        current.clone(),
        json!({"containers": [{"image": "x"}]}),
        r#"map: {"image":"x"} does not contain declared merge key: name"#,
    );
    refused(pod_spec(), current.clone(), json!({"containers": ["x"]}), r#"containers is a list of objects, found "x""#);
    refused(
        pod_spec(),
        current.clone(),
        json!({"volumes": [{"name": "v", "$retainKeys": ["name"], "emptyDir": {}}]}),
        "invalid patch format of retainKeys",
    );
    refused(
        pod_spec(),
        current.clone(),
        json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}),
        r#"The order in patch list: containers doesn't match $setElementOrder list: [{"name":"a"}]"#,
    );
    refused(
        kind("v1", "Pod"),
        json!({"metadata": {"finalizers": ["a"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}),
        "invalid patch format of primitive list",
    );
    assert!(matches!(apply(&current, &json!([]), pod_spec()), Err(PatchError::Malformed(_))));
}

fn object(schema: &'static Type, seed: u64) -> Value {
    let mut value = random::object(schema, seed);
    canonicalize(schema, &mut value).unwrap();
    value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_empty_patch_changes_nothing(seed in any::<u64>()) {
        for name in ["Pod", "Service", "Node"] {
            let current = object(kind("v1", name), seed);
            prop_assert_eq!(apply(&current, &json!({}), kind("v1", name)), Ok(current.clone()));
        }
    }

    #[test]
    fn a_replacing_patch_gives_the_patch(one in any::<u64>(), other in any::<u64>()) {
        let (current, wanted) = (object(pod_spec(), one), object(pod_spec(), other));
        let mut patch = wanted.clone();
        patch["$patch"] = json!("replace");
        // Lists are keyed, so elements that share a key would merge.
        let merged = apply(&current, &patch, pod_spec());
        let direct = apply(&json!({}), &wanted, pod_spec());
        prop_assert_eq!(merged, direct);
    }

    #[test]
    fn a_patch_twice_is_a_patch_once(one in any::<u64>(), other in any::<u64>()) {
        let pod = kind("v1", "Pod");
        let (current, patch) = (object(pod, one), object(pod, other));
        if let Ok(once) = apply(&current, &patch, pod) {
            prop_assert_eq!(apply(&once, &patch, pod), Ok(once.clone()));
        }
    }
}
