//! A `LabelSelector` inside an object.

use serde_json::Value;

use super::invalid_each;
use super::metadata::labels;
use super::names::{label_key, label_value};
use crate::field::{FieldError, FieldPath};
use crate::object::StringMap;

/// Everything wrong with a selector; an absent one passes.
pub fn label_selector(selector: Option<&Value>, path: &FieldPath) -> Vec<FieldError> {
    let Some(selector) = selector.filter(|value| !value.is_null()) else { return Vec::new() };
    let mut errors = labels(StringMap::new(selector.get("matchLabels")), &path.child("matchLabels"));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    for (index, expression) in expressions.enumerate() {
        errors.extend(requirement(expression, &path.child("matchExpressions").index(index)));
    }
    errors
}

fn requirement(expression: &Value, path: &FieldPath) -> Vec<FieldError> {
    let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
    let values = expression.get("values").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let values_at = path.child("values");
    let mut errors = Vec::new();
    match text("operator") {
        "In" | "NotIn" => {
            if values.is_empty() {
                let message = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(&values_at, message));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(&values_at, message));
            }
        }
        other => errors.push(FieldError::invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    errors.extend(invalid_each(&path.child("key"), text("key"), label_key(text("key"))));
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        errors.extend(invalid_each(&values_at.index(index), value, label_value(value)));
    }
    errors
}
