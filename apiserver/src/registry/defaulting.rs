//! The words that defaulting is written in. "Unset" follows upstream's types: an optional field is unset when absent or
//! null, a plain string also when empty, a plain number also when zero.

use serde_json::{Map, Value};

/// Gives an absent or null field its default.
pub(crate) fn default_value(of: &mut Value, name: &str, default: impl Into<Value>) {
    if let Some(fields) = of.as_object_mut() {
        default_entry(fields, name, default);
    }
}

pub(crate) fn default_entry(fields: &mut Map<String, Value>, name: &str, default: impl Into<Value>) {
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.to_owned(), default.into());
    }
}

/// Gives an absent or empty string its default.
pub(crate) fn default_text(of: &mut Value, name: &str, default: &str) {
    if text(of, name).is_empty() {
        set(of, name, default);
    }
}

/// Gives an absent or zero number its default.
pub(crate) fn default_number(of: &mut Value, name: &str, default: i64) {
    if of.get(name).and_then(Value::as_i64).unwrap_or_default() == 0 {
        set(of, name, default);
    }
}

pub(crate) fn set(of: &mut Value, name: &str, value: impl Into<Value>) {
    if let Some(fields) = of.as_object_mut() {
        fields.insert(name.to_owned(), value.into());
    }
}

pub(crate) fn remove(of: &mut Value, name: &str) -> Option<Value> {
    of.as_object_mut().and_then(|fields| fields.remove(name)).filter(|value| !value.is_null())
}

pub(crate) fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The field `name`, an empty map put there if it is unset.
pub(crate) fn ensure<'a>(of: &'a mut Map<String, Value>, name: &str) -> &'a mut Value {
    let field = of.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if field.is_null() {
        *field = Value::Object(Map::new());
    }
    field
}

/// Runs `change` on the field `name` if it is set.
pub(crate) fn with(of: &mut Value, name: &str, change: impl FnOnce(&mut Value)) {
    if let Some(field) = of.get_mut(name).filter(|field| !field.is_null()) {
        change(field);
    }
}

/// Runs `change` on each item of the list `name`.
pub(crate) fn each(of: &mut Value, name: &str, change: impl FnMut(&mut Value)) {
    if let Some(items) = of.get_mut(name).and_then(Value::as_array_mut) {
        items.iter_mut().for_each(change);
    }
}
