//! What tests of kinds are written with: a write's steps up to the stored form, and everything wrong with an object.

use quorate_api::codec;
use quorate_api::object::Object;
use quorate_api::schema;
use serde_json::{Value, json};

use super::strategy::Strategy;

/// The moment at which rows are shown.
pub(crate) const NOW: &str = "2026-01-01T00:10:00Z";

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a test's object is one")
}

fn canonical(object: Object) -> Object {
    let mut value = object.into_value();
    let known = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let schema = schema::for_version_kind(&known("apiVersion"), &known("kind")).expect("a test's kind is known");
    codec::canonicalize(schema, &mut value).expect("a test's object fits its schema");
    self::object(value)
}

fn prepared(strategy: &Strategy, value: Value) -> Object {
    let mut object = object(value);
    (strategy.default)(&mut object);
    (strategy.prepare_create)(&mut object);
    canonical(object)
}

/// What is stored of a new object.
pub(crate) fn stored(strategy: &Strategy, value: Value) -> Value {
    let object = prepared(strategy, value);
    assert_eq!((strategy.validate_create)(&object), Vec::new(), "the object is valid");
    object.into_value()
}

/// Everything wrong with a new object.
pub(crate) fn faults(strategy: &Strategy, value: Value) -> Vec<String> {
    let object = prepared(strategy, value);
    (strategy.validate_create)(&object).iter().map(ToString::to_string).collect()
}

/// Everything wrong with a change; the old object is taken as it is stored.
pub(crate) fn update_faults(strategy: &Strategy, old: &Value, new: Value) -> Vec<String> {
    let old = object(old.clone());
    let mut new = object(new);
    (strategy.default)(&mut new);
    (strategy.prepare_update)(&mut new, &old);
    let new = canonical(new);
    (strategy.validate_update)(&new, &old).iter().map(ToString::to_string).collect()
}

/// Everything wrong with a change of status.
pub(crate) fn status_faults(strategy: &Strategy, old: &Value, status: Value) -> Vec<String> {
    let old = object(old.clone());
    let mut new = old.clone();
    new.as_map_mut().insert("status".to_owned(), status);
    (strategy.prepare_status)(&mut new, &old);
    (strategy.validate_status)(&new, &old).iter().map(ToString::to_string).collect()
}

/// The cells of an object that was created ten minutes before they are shown.
pub(crate) fn row(strategy: &Strategy, value: Value) -> Vec<Value> {
    let mut object = object(value);
    object.set("/metadata/creationTimestamp", "2026-01-01T00:00:00Z").expect("metadata is there");
    (strategy.cells)(&object, NOW.parse().expect("a time"))
}

/// A copy with `value` at a pointer, which is made if it is not there.
pub(crate) fn with(base: &Value, pointer: &str, value: Value) -> Value {
    let mut copy = object(base.clone());
    copy.set(pointer, value).unwrap_or_else(|error| panic!("{pointer}: {error}"));
    copy.into_value()
}

/// Each case puts a value at a place of `base` and expects these faults.
pub(crate) fn check(strategy: &Strategy, base: &Value, cases: &[(&str, Value, &[&str])]) {
    for (pointer, value, expected) in cases {
        assert_eq!(faults(strategy, with(base, pointer, value.clone())), *expected, "{pointer} = {value}");
    }
}

/// Likewise for changes of a stored object.
pub(crate) fn check_update(strategy: &Strategy, base: &Value, cases: &[(&str, Value, &[&str])]) {
    let old = stored(strategy, base.clone());
    for (pointer, value, expected) in cases {
        let found = update_faults(strategy, &old, with(&old, pointer, value.clone()));
        assert_eq!(found, *expected, "{pointer} = {value}");
    }
}

/// The shortest pod spec, as it is stored.
pub(crate) fn pod_spec() -> Value {
    json!({
        "containers": [{
            "name": "c",
            "image": "busybox:1",
            "imagePullPolicy": "IfNotPresent",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    })
}
