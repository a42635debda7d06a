//! The JSON types of the fields every object shares.

use serde_json::{Map, Value};

use super::{ObjectError, json_type};
use crate::time::Time;

#[derive(Clone, Copy)]
enum Shape {
    Text,
    Integer,
    Bool,
    Time,
    TextMap,
    TextList,
    Any,
    List(&'static [(&'static str, Shape)]),
}

const OWNER_REFERENCE: &[(&str, Shape)] = &[
    ("apiVersion", Shape::Text),
    ("kind", Shape::Text),
    ("name", Shape::Text),
    ("uid", Shape::Text),
    ("controller", Shape::Bool),
    ("blockOwnerDeletion", Shape::Bool),
];

const MANAGED_FIELDS: &[(&str, Shape)] = &[
    ("manager", Shape::Text),
    ("operation", Shape::Text),
    ("apiVersion", Shape::Text),
    ("time", Shape::Time),
    ("fieldsType", Shape::Text),
    ("fieldsV1", Shape::Any),
    ("subresource", Shape::Text),
];

const METADATA: &[(&str, Shape)] = &[
    ("name", Shape::Text),
    ("generateName", Shape::Text),
    ("namespace", Shape::Text),
    ("selfLink", Shape::Text),
    ("uid", Shape::Text),
    ("resourceVersion", Shape::Text),
    ("generation", Shape::Integer),
    ("creationTimestamp", Shape::Time),
    ("deletionTimestamp", Shape::Time),
    ("deletionGracePeriodSeconds", Shape::Integer),
    ("labels", Shape::TextMap),
    ("annotations", Shape::TextMap),
    ("ownerReferences", Shape::List(OWNER_REFERENCE)),
    ("finalizers", Shape::TextList),
    ("managedFields", Shape::List(MANAGED_FIELDS)),
];

/// `null` stands for an absent field everywhere. Unknown fields are the schema's concern.
pub(super) fn shared_fields(map: &Map<String, Value>) -> Result<(), ObjectError> {
    fields(map, &[("apiVersion", Shape::Text), ("kind", Shape::Text)], "")?;
    match map.get("metadata") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(metadata)) => fields(metadata, METADATA, ".metadata"),
        Some(other) => Err(wrong_type(".metadata".to_owned(), "object", other)),
    }
}

fn fields(map: &Map<String, Value>, shapes: &[(&str, Shape)], at: &str) -> Result<(), ObjectError> {
    for (name, shape) in shapes {
        match map.get(*name) {
            None | Some(Value::Null) => {}
            Some(value) => check(value, *shape, &format!("{at}.{name}"))?,
        }
    }
    Ok(())
}

fn check(value: &Value, shape: Shape, path: &str) -> Result<(), ObjectError> {
    match (shape, value) {
        (Shape::Any, _) | (Shape::Text, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => Ok(()),
        (Shape::Integer, Value::Number(number)) if number.is_i64() => Ok(()),
        (Shape::Time, Value::String(text)) => match Time::parse(text) {
            Ok(_) => Ok(()),
            Err(error) => Err(ObjectError::BadValue { path: path.to_owned(), message: error.to_string() }),
        },
        (Shape::TextMap, Value::Object(map)) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .try_for_each(|(key, value)| check(value, Shape::Text, &format!("{path}.{key}"))),
        (Shape::TextList, Value::Array(items)) => {
            items.iter().enumerate().try_for_each(|(index, item)| check(item, Shape::Text, &format!("{path}[{index}]")))
        }
        (Shape::List(shapes), Value::Array(items)) => items.iter().enumerate().try_for_each(|(index, item)| {
            let path = format!("{path}[{index}]");
            match item {
                Value::Object(map) => fields(map, shapes, &path),
                other => Err(wrong_type(path, "object", other)),
            }
        }),
        (Shape::Text | Shape::Time, other) => Err(wrong_type(path.to_owned(), "string", other)),
        (Shape::Integer, other) => Err(wrong_type(path.to_owned(), "integer", other)),
        (Shape::Bool, other) => Err(wrong_type(path.to_owned(), "bool", other)),
        (Shape::TextMap, other) => Err(wrong_type(path.to_owned(), "map of strings", other)),
        (Shape::TextList, other) => Err(wrong_type(path.to_owned(), "list of strings", other)),
        (Shape::List(_), other) => Err(wrong_type(path.to_owned(), "list", other)),
    }
}

fn wrong_type(path: String, expected: &'static str, found: &Value) -> ObjectError {
    ObjectError::WrongType { path, expected, found: json_type(found) }
}
