mod canonical;
mod golden;
pub(crate) mod random;
mod validation;

use serde_json::Value;

use crate::schema::{self, Type};

pub(super) fn kind(version: &str, kind: &str) -> &'static Type {
    schema::for_version_kind(version, kind).unwrap()
}

/// Without its nulls, which mean "absent" in a built-in object.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(
            object
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name, without_nulls(value)))
                .collect(),
        ),
        Value::Array(elements) => Value::Array(elements.into_iter().map(without_nulls).collect()),
        other => other,
    }
}
