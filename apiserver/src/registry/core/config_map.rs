//! ConfigMap: keys that can be file names, one mebibyte at most, and a seal against change.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::Value;

use super::super::display::{AGE, NAME, age, count_at, name, text};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Strategy};

pub(super) const MAX_DATA_BYTES: usize = 1024 * 1024;
const SEALED: &str = "field is immutable when `immutable` is set";

pub(crate) static STRATEGY: Strategy =
    Strategy { validate_create, validate_update, columns: COLUMNS, cells, ..Strategy::DEFAULT };

const COLUMNS: &[Column] = &[NAME, text("Data", "How many keys it has."), AGE];

fn cells(map: &Object, now: Timestamp) -> Vec<Value> {
    vec![name(map), Value::from(count_at(map, "/data") + count_at(map, "/binaryData")), age(map, now)]
}

fn validate_create(map: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let (plain, binary) = (At::top(map, "data"), At::top(map, "binaryData"));
    let mut size = 0;
    for (key, value) in plain.entries() {
        data_key(key, &value, &mut errors);
        if binary.key(key).is_set() {
            errors.invalid_value(&value, key, "duplicate of key present in binaryData");
        }
        size += value.text().len();
    }
    for (key, value) in binary.entries() {
        data_key(key, &value, &mut errors);
        size += decoded(&value).len();
    }
    if size > MAX_DATA_BYTES {
        errors.too_long(&At::nowhere(), MAX_DATA_BYTES);
    }
    errors.into_vec()
}

pub(super) fn data_key(key: &str, at: &At<'_>, errors: &mut Errors) {
    for message in names::config_map_key(key) {
        errors.invalid_value(at, key, message);
    }
}

/// The bytes of a base64 value; codecs have already refused what is none.
pub(super) fn decoded(at: &At<'_>) -> Vec<u8> {
    STANDARD.decode(at.text()).unwrap_or_default()
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    sealed(new, old, &["data", "binaryData"], &mut errors);
    errors.extend(validate_create(new));
    errors.into_vec()
}

/// Once sealed, neither the seal nor the data change.
pub(super) fn sealed(new: &Object, old: &Object, fields: &[&str], errors: &mut Errors) {
    if !At::top(old, "immutable").truth() {
        return;
    }
    if !At::top(new, "immutable").truth() {
        errors.forbidden(&At::top(new, "immutable"), SEALED);
    }
    for field in fields {
        let (after, before) = (At::top(new, field), At::top(old, field));
        if after.value() != before.value() && !(after.is_empty() && before.is_empty()) {
            errors.forbidden(&after, SEALED);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, check_update, row, stored, with};
    use super::*;

    fn map() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"},
            "data": {"lives": "3"},
        })
    }

    #[test]
    fn it_is_stored_as_it_is() {
        assert_eq!(stored(&STRATEGY, map()), map());
    }

    #[test]
    fn maps_are_judged() {
        check(
            &STRATEGY,
            &map(),
            &[
                ("/data", json!({"..": "x"}), &["data[..]: Invalid value: \"..\": must not be '..'"]),
                (
                    "/binaryData",
                    json!({"lives": "AA=="}),
                    &["data[lives]: Invalid value: \"lives\": duplicate of key present in binaryData"],
                ),
                ("/data/big", json!("x".repeat(MAX_DATA_BYTES)), &["[]: Too long: may not be more than 1048576 bytes"]),
            ],
        );
        check_update(
            &STRATEGY,
            &with(&map(), "/immutable", json!(true)),
            &[
                ("/metadata/labels", json!({"a": "b"}), &[]),
                ("/immutable", json!(null), &["immutable: Forbidden: field is immutable when `immutable` is set"]),
                ("/data/lives", json!("4"), &["data: Forbidden: field is immutable when `immutable` is set"]),
            ],
        );
    }

    #[test]
    fn rows() {
        let both = with(&map(), "/binaryData", json!({"b": "AA=="}));
        assert_eq!(row(&STRATEGY, both), [json!("m"), json!(2), json!("10m")]);
    }
}
