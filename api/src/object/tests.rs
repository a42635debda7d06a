use serde_json::json;

use super::*;
use crate::name::GroupVersion;
use crate::time::Time;

fn pod() -> Object {
    Object::from_value(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "1-2",
            "resourceVersion": "7",
            "generation": 3,
            "creationTimestamp": "2026-11-30T17:45:00Z",
            "labels": {"app": "web", "none": null},
            "annotations": {"a": "1"},
            "finalizers": ["x.io/a", "x.io/b"],
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "3", "controller": true, "blockOwnerDeletion": null},
            ],
            "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {"containers": [{"name": "c", "env": [{"name": "a/b", "value": "1"}]}]},
    }))
    .unwrap()
}

#[test]
fn metadata_is_read() {
    let pod = pod();
    assert_eq!(pod.gvk().unwrap(), Gvk::new("", "v1", "Pod"));
    assert_eq!(pod.key(), ObjectKey::namespaced("default", "web"));
    assert_eq!((pod.uid(), pod.resource_version(), pod.generation()), (Some("1-2"), Some("7"), 3));
    assert_eq!(pod.creation_timestamp().unwrap().to_string(), "2026-11-30T17:45:00Z");
    assert!(!pod.is_deleting() && pod.generate_name().is_none());
    assert_eq!((pod.label("app"), pod.label("none"), pod.label("x")), (Some("web"), Some(""), None));
    assert_eq!(pod.labels().len(), 2);
    assert_eq!(pod.annotations().iter().collect::<Vec<_>>(), [("a", "1")]);
    assert_eq!(pod.finalizers(), ["x.io/a", "x.io/b"]);
    let owner = pod.controller_owner().unwrap();
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.block_owner_deletion), ("ReplicaSet", "3", None));
    let fields = &pod.managed_fields()[0];
    assert_eq!((fields.operation, fields.fields_v1.clone()), (Some(Operation::Apply), Some(json!({"f:spec": {}}))));
    let bare = Object::default();
    assert_eq!((bare.name(), bare.namespace(), bare.generation(), bare.labels().len()), ("", None, 0, 0));
    assert_eq!(bare.gvk(), Err(ObjectError::MissingKind));
}

#[test]
fn metadata_is_written_and_taken_away() {
    let mut object = Object::new(&Gvk::new("apps", "v1", "Deployment"), Some("ns"), "web");
    object.set_uid(Some("u"));
    object.set_generation(1);
    object.set_creation_timestamp(Some(Time::parse("2026-11-30T17:45:00.5Z").unwrap()));
    object.set_label("a", "b");
    object.set_annotation("c", "d");
    object.add_finalizer("x.io/a");
    object.add_finalizer("x.io/a");
    object.set_owner_references(&[OwnerReference {
        kind: "A".into(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    object.set_resource_version(Some("9"));
    let want = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "ns", "uid": "u", "generation": 1, "resourceVersion": "9",
            "creationTimestamp": "2026-11-30T17:45:00Z",
            "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x.io/a"],
            "ownerReferences": [{"apiVersion": "", "kind": "A", "name": "", "uid": "", "controller": true}],
        },
    });
    assert_eq!(object.to_value(), want);

    object.set_uid(None);
    object.set_generation(0);
    object.set_creation_timestamp(None);
    object.set_resource_version(None);
    assert_eq!(object.remove_label("a").as_deref(), Some("b"));
    assert_eq!(object.remove_label("a"), None);
    assert_eq!(object.remove_annotation("c").as_deref(), Some("d"));
    assert!(object.remove_finalizer("x.io/a") && !object.remove_finalizer("x.io/a"));
    object.set_owner_references(&[]);
    assert_eq!(object.to_value()["metadata"], json!({"name": "web", "namespace": "ns"}));
}

#[test]
fn places_are_read_and_written_by_pointer() {
    let mut pod = pod();
    assert_eq!(pod.get_str("/spec/containers/0/env/0/name").unwrap(), Some("a/b"));
    assert_eq!(pod.get_str("/spec/nodeName").unwrap(), None);
    assert_eq!(
        pod.get_i64("/spec/containers").unwrap_err().to_string(),
        "cannot read array at /spec/containers as integer"
    );
    pod.set("/spec/nodeName", "n1").unwrap();
    pod.set("/spec/affinity/nodeAffinity/x~1y", true).unwrap();
    pod.set("/spec/containers/0/image", "nginx").unwrap();
    pod.set("/spec/containers/-", json!({"name": "d"})).unwrap();
    pod.set("/data", 1).unwrap();
    assert_eq!(pod.get_bool("/spec/affinity/nodeAffinity/x~1y").unwrap(), Some(true));
    assert_eq!(pod.get_array("/spec/containers").unwrap().unwrap().len(), 2);
    assert_eq!(pod.get_i64("/data").unwrap(), Some(1));
    assert_eq!(pod.get_as::<Vec<String>>("/metadata/finalizers").unwrap().unwrap().len(), 2);
    assert!(pod.get_as::<u8>("/metadata/finalizers").is_err());
    *pod.get_mut("/data").unwrap() = json!(null);
    assert!(pod.get("/data").is_none());
    for nowhere in ["", "x", "/spec/containers/7/image", "/spec/nodeName/x"] {
        assert_eq!(pod.set(nowhere, 1), Err(ObjectError::NoSuchPlace { path: nowhere.into() }));
    }
    assert_eq!(pod.remove("/spec/containers/1"), Some(json!({"name": "d"})));
    assert_eq!(pod.remove("/spec/nodeName"), Some(json!("n1")));
    assert_eq!(pod.remove("/data"), Some(json!(null)));
    assert_eq!(
        (pod.remove("/spec/nodeName"), pod.remove("/spec/containers/9"), pod.remove("/a/b")),
        (None, None, None)
    );
}

#[test]
fn shared_fields_of_a_wrong_type_are_named() {
    for (value, want) in [
        (json!([]), "expected a JSON object, found array"),
        (json!({"kind": 1}), "cannot read number at .kind as string"),
        (json!({"metadata": "x"}), "cannot read string at .metadata as object"),
        (json!({"metadata": {"name": 1}}), "cannot read number at .metadata.name as string"),
        (json!({"metadata": {"generation": "1"}}), "cannot read string at .metadata.generation as integer"),
        (json!({"metadata": {"labels": {"a": 1}}}), "cannot read number at .metadata.labels.a as string"),
        (json!({"metadata": {"finalizers": [1]}}), "cannot read number at .metadata.finalizers[0] as string"),
        (
            json!({"metadata": {"ownerReferences": [{}, {"controller": "yes"}]}}),
            "cannot read string at .metadata.ownerReferences[1].controller as bool",
        ),
        (
            json!({"metadata": {"creationTimestamp": "now"}}),
            "cannot read .metadata.creationTimestamp: parsing time \"now\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"now\"",
        ),
    ] {
        assert_eq!(Object::from_value(value).unwrap_err().to_string(), want);
    }
    let nulls = json!({"kind": null, "metadata": {"name": null, "labels": null, "creationTimestamp": null}});
    assert!(Object::from_value(nulls).is_ok());
    assert!(serde_json::from_str::<Object>("{\"kind\":1}").is_err());
}

#[test]
fn a_list_has_its_envelope() {
    let meta = ListMeta { resource_version: "9".into(), continuation: "abc".into(), remaining_item_count: Some(3) };
    assert_eq!(
        list_of(&GroupVersion::new("", "v1"), "PodList", &meta, vec![json!({})]).to_string(),
        r#"{"apiVersion":"v1","items":[{}],"kind":"PodList","metadata":{"continue":"abc","remainingItemCount":3,"resourceVersion":"9"}}"#
    );
    assert_eq!(
        serde_json::to_string(&ListMeta { resource_version: "9".into(), ..ListMeta::default() }).unwrap(),
        r#"{"resourceVersion":"9"}"#
    );
}
