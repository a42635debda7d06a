use std::collections::BTreeSet;

use jiff::Timestamp;
use quorate_api::codec::{self, FieldValidation};
use quorate_api::name::Gvk;
use quorate_api::object::Object;
use quorate_api::resource::table;
use quorate_api::schema;
use serde_json::json;

use super::*;
use crate::registry::testing::stored;

/// Each kind's cells fit its columns, even when the object has nothing but a name.
#[test]
fn every_row_has_as_many_cells_as_columns() {
    for resource in table().rows() {
        let strategy = strategy(&resource.group, &resource.plural);
        let bare = Object::from_value(json!({"metadata": {"name": "x"}})).unwrap();
        let cells = (strategy.cells)(&bare, Timestamp::UNIX_EPOCH);
        assert_eq!(cells.len(), strategy.columns.len(), "{}/{}", resource.group, resource.plural);
        let names: BTreeSet<&str> = strategy.columns.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), strategy.columns.len(), "{}/{}", resource.group, resource.plural);
    }
}

/// Nothing that a user can send makes a strategy panic.
#[test]
fn strategies_take_shapeless_objects() {
    let shapes = [json!({}), json!([]), json!("x"), json!(7), json!({"a": [null, {"b": 1}]})];
    for resource in table().rows() {
        let strategy = strategy(&resource.group, &resource.plural);
        for shape in &shapes {
            let value = json!({"metadata": {"name": "x"}, "spec": shape, "status": shape, "template": shape,
                "subsets": [shape], "webhooks": [shape], "ports": [shape], "endpoints": [shape],
                "subjects": [shape], "roleRef": shape, "rules": [shape], "data": shape, "secrets": [shape]});
            let old = Object::from_value(value).unwrap();
            let mut new = old.clone();
            (strategy.default)(&mut new);
            (strategy.prepare_create)(&mut new);
            (strategy.validate_create)(&new);
            (strategy.prepare_update)(&mut new, &old);
            (strategy.validate_update)(&new, &old);
            (strategy.prepare_status)(&mut new, &old);
            (strategy.validate_status)(&new, &old);
            (strategy.warnings)(&new, None);
            (strategy.cells)(&new, Timestamp::UNIX_EPOCH);
            (strategy.field_labels)(&new);
        }
    }
}

/// Defaulting twice changes nothing more: objects are defaulted on every write.
#[test]
fn defaulting_is_idempotent() {
    for resource in table().rows() {
        let strategy = strategy(&resource.group, &resource.plural);
        let mut once = Object::from_value(json!({"metadata": {"name": "x"}, "spec": {}})).unwrap();
        (strategy.default)(&mut once);
        let mut twice = once.clone();
        (strategy.default)(&mut twice);
        assert_eq!(once, twice, "{}/{}", resource.group, resource.plural);
    }
}

/// Every example, whatever version it is written in, becomes a valid stored object, and no field of it is unknown.
#[test]
fn the_examples_are_valid() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
    let mut documents = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for document in text.split("\n---\n") {
            let plain: serde_json::Value = untyped(document);
            let version = plain["apiVersion"].as_str().unwrap().to_owned();
            let gvk = Gvk::from_type_fields(&version, plain["kind"].as_str().unwrap()).unwrap();
            let resource = table().by_kind(&gvk).unwrap_or_else(|| panic!("{gvk:?} is served"));
            let schema = resource.version(&gvk.version).and_then(|version| schema::named(&version.message));
            let decoded = codec::yaml::decode(document.as_bytes(), schema, FieldValidation::Strict);
            let decoded = decoded.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let mut object = Object::from_value(decoded.value).unwrap();
            if let Some(conversion) = conversion(&gvk.group, &gvk.version, &resource.plural) {
                (conversion.to_storage)(&mut object);
            }
            object.set_gvk(&resource.storage);
            object.set_uid(Some("7d1f0e5e-0000-4000-8000-000000000000"));
            let home = table().storage_of(resource).unwrap_or(resource);
            stored(strategy(&home.group, &home.plural), object.into_value());
            documents += 1;
        }
    }
    assert!(documents >= 19, "{documents} documents");
}

/// YAML as untyped JSON.
fn untyped(document: &str) -> serde_json::Value {
    codec::yaml::decode(document.as_bytes(), None, FieldValidation::Ignore).unwrap().value
}

/// A right to say how it goes is no right to relabel, where upstream says so.
#[test]
fn some_statuses_leave_metadata_alone() {
    let old = Object::from_value(json!({"metadata": {"name": "x", "labels": {"a": "b"}}})).unwrap();
    let relabelled = json!({"metadata": {"name": "x", "labels": {"a": "c"}, "finalizers": ["x/y"]}});
    let kept = [
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("networking.k8s.io", "servicecidrs"),
        ("resource.k8s.io", "resourceclaims"),
        ("storage.k8s.io", "volumeattachments"),
    ];
    for (group, plural) in kept {
        let mut new = Object::from_value(relabelled.clone()).unwrap();
        (strategy(group, plural).prepare_status)(&mut new, &old);
        assert_eq!(new, old, "{group}/{plural}");
    }
}
