//! The normal form of a whole object: two objects that mean the same become equal.

use serde_json::{Map, Value};

use super::{DecodeError, MAX_DEPTH, normal};
use crate::schema::{Field, FieldType, Presence, Shape, Type};

/// Brings a built-in object into its normal form, the one Go's types would print: scalars normalised, fields the type
/// does not have dropped, zero values dropped where they mean "absent", fields that are always printed added with
/// their zero value. `null` counts as absent. Values kept as they are (`RawExtension` and the like) are not touched.
///
/// It runs after defaulting, which must see what the user left out. A zero is kept where Go has a pointer: `replicas: 0`.
pub fn canonicalize(schema: &'static Type, value: &mut Value) -> Result<(), DecodeError> {
    match value {
        Value::Object(object) => message(schema, object, true, MAX_DEPTH),
        other => Err(DecodeError::WrongType {
            found: normal::go_kind(other),
            target: "value".to_owned(),
            expected: normal::go_message(schema),
        }),
    }
}

fn message(of: &'static Type, object: &mut Map<String, Value>, root: bool, depth: usize) -> Result<(), DecodeError> {
    let depth = depth.checked_sub(1).ok_or(DecodeError::TooDeep)?;
    let type_meta = root || of.has_type_meta;
    object.retain(|name, value| {
        !value.is_null() && (of.field(name).is_some() || (type_meta && (name == "apiVersion" || name == "kind")))
    });
    for field in &of.fields {
        match object.get_mut(field.name) {
            Some(value) => {
                whole_field(of, field, value, depth)?;
                if is_absent(field, value) {
                    object.remove(field.name);
                }
            }
            None => {
                if let Some(mut zero) = always_printed(field) {
                    if let (Value::Object(inner), Some(of)) = (&mut zero, field.message()) {
                        message(of, inner, false, depth)?;
                    }
                    object.insert(field.name.to_owned(), zero);
                }
            }
        }
    }
    Ok(())
}

fn whole_field(of: &'static Type, field: &Field, value: &mut Value, depth: usize) -> Result<(), DecodeError> {
    match (field.shape, &mut *value) {
        (Shape::One, _) => element(of, field, value, depth),
        (Shape::List, Value::Array(elements)) => {
            elements.iter_mut().try_for_each(|inner| element(of, field, inner, depth))
        }
        (Shape::Map, Value::Object(entries)) => {
            entries.values_mut().try_for_each(|inner| element(of, field, inner, depth))
        }
        (Shape::List | Shape::Map, _) => Err(wrong(of, field, normal::go_kind(value), normal::go_type(field))),
    }
}

fn element(of: &'static Type, field: &Field, value: &mut Value, depth: usize) -> Result<(), DecodeError> {
    if value.is_null() {
        *value = normal::zero(field.of);
    }
    match (field.of, &mut *value) {
        (FieldType::Raw | FieldType::Object, _) | (FieldType::Time | FieldType::MicroTime, Value::Null) => Ok(()),
        (
            FieldType::Message(inner)
            | FieldType::SchemaOrArray(inner)
            | FieldType::SchemaOrBool(inner)
            | FieldType::SchemaOrStrings(inner),
            Value::Object(object),
        ) => message(inner.get(), object, false, depth),
        (FieldType::SchemaOrArray(inner), Value::Array(schemas)) => {
            schemas.iter_mut().try_for_each(|schema| match schema {
                Value::Object(object) => message(inner.get(), object, false, depth),
                other => Err(wrong(of, field, normal::go_kind(other), normal::go_message(inner.get()))),
            })
        }
        (FieldType::Strings | FieldType::SchemaOrStrings(_), Value::Array(texts)) => {
            match texts.iter().find(|text| !text.is_string()) {
                None => Ok(()),
                Some(other) => Err(wrong(of, field, normal::go_kind(other), "string".to_owned())),
            }
        }
        (_, value) => match normal::scalar(field.of, value.take()) {
            Ok(scalar) => {
                *value = scalar;
                Ok(())
            }
            Err(normal::Refusal::WrongType(found)) => Err(wrong(of, field, found, normal::go_element(field))),
            Err(normal::Refusal::Bad(text)) => Err(DecodeError::BadScalar(text)),
        },
    }
}

fn wrong(of: &Type, field: &Field, found: String, expected: String) -> DecodeError {
    let target = format!("struct field {}.{}", of.short_name(), field.name);
    DecodeError::WrongType { found, target, expected }
}

/// A value that means the same as no value.
pub(super) fn is_absent(field: &Field, value: &Value) -> bool {
    match field.presence {
        Presence::Pointer | Presence::Always => value.is_null(),
        Presence::OmitZero if matches!(field.of, FieldType::Message(_)) && field.shape == Shape::One => {
            value.as_object().is_some_and(Map::is_empty)
        }
        Presence::OmitEmpty | Presence::OmitZero => match value {
            Value::Null => true,
            Value::Array(elements) => elements.is_empty(),
            Value::Object(entries) => field.shape == Shape::Map && entries.is_empty(),
            // Go prints a quantity's zero always.
            Value::String(text) => text.is_empty(),
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_f64() == Some(0.0),
        },
    }
}

/// What Go prints for a field that was not set.
fn always_printed(field: &Field) -> Option<Value> {
    let message = field.shape == Shape::One && matches!(field.of, FieldType::Message(_) | FieldType::Quantity);
    match (field.presence, field.shape) {
        (Presence::Always | Presence::OmitEmpty, Shape::One) if message => Some(normal::zero(field.of)),
        (Presence::Always, Shape::One) => Some(normal::zero(field.of)).filter(is_plain),
        // Go prints `null`; an empty list means the same to every client, and some refuse the null.
        (Presence::Always, Shape::List) => Some(Value::Array(Vec::new())),
        (Presence::Always, Shape::Map) => Some(Value::Object(Map::new())),
        (Presence::Pointer | Presence::OmitEmpty | Presence::OmitZero, _) => None,
    }
}

fn is_plain(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Bool(_) | Value::Number(_) => true,
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}
