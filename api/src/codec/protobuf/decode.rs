//! From wire bytes to the JSON value they stand for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::wire::{Reader, WireError, WireValue};
use super::{MAGIC, ProtobufError, decode_at};
use crate::codec::canonical::is_absent;
use crate::codec::normal;
use crate::schema::{Field, FieldType, Shape, Target, Type};
use crate::time::{MicroTime, Time};

/// Go's zero time, year 1.
const ZERO_TIME_SECONDS: i64 = -62_135_596_800;

/// The fields of the small messages with a JSON form of their own.
mod small {
    pub(super) const TEXT: u32 = 1;
    pub(super) const RAW: u32 = 1;
    pub(super) const ITEMS: u32 = 1;
    pub(super) const SECONDS: u32 = 1;
    pub(super) const NANOS: u32 = 2;
    pub(super) const IS_STRING: u32 = 1;
    pub(super) const INT: u32 = 2;
    pub(super) const STRING: u32 = 3;
    pub(super) const ALLOWS: u32 = 1;
    /// `JSONSchemaPropsOrBool` has its schema second, the two others first.
    pub(super) const BOOL_SCHEMA: u32 = 2;
    pub(super) const SCHEMA: u32 = 1;
    pub(super) const ALTERNATIVES: u32 = 2;
    pub(super) const MAP_KEY: u32 = 1;
    pub(super) const MAP_VALUE: u32 = 2;
}

pub(super) fn root(of: &'static Type, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, ProtobufError> {
    let mut object = Map::new();
    message(of, bytes, &mut object, depth)?;
    Ok(object)
}

/// JSON within protobuf: an object, or nothing at all.
pub(super) fn json_object(bytes: &[u8]) -> Result<Map<String, Value>, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(bytes).map_err(|error| ProtobufError::BadValue { field: "raw", problem: error.to_string() })
}

/// Adds the fields of one message. A field that occurs twice merges or wins by protobuf's rules.
fn message(
    of: &'static Type,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    let depth = depth.checked_sub(1).ok_or(ProtobufError::TooDeep)?;
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match of.wire_target(number) {
            Some(Target::Embedded(inner)) => message(inner.get(), value.bytes()?, object, depth)?,
            Some(Target::Field(at)) => field(&of.fields[usize::from(at)], value, object, depth)?,
            // A newer client's field: as with JSON, what the type does not have is dropped.
            None => {}
        }
    }
    Ok(())
}

fn field(
    field: &'static Field,
    value: WireValue<'_>,
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    match field.shape {
        Shape::One => {
            let before = object.remove(field.name);
            let value = element(field, value, before, depth)?;
            if !is_absent(field, &value) {
                object.insert(field.name.to_owned(), value);
            }
        }
        Shape::List => {
            let list = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                if packed(field, value, list)? {
                    return Ok(());
                }
                list.push(filled(field, element(field, value, None, depth)?));
            }
        }
        Shape::Map => {
            let (key, value) = map_entry(field, value.bytes()?, depth)?;
            let map = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = map {
                map.insert(key, value);
            }
        }
    }
    Ok(())
}

/// Scalars of a list may stand packed in one field; true if they did.
fn packed(field: &'static Field, value: WireValue<'_>, list: &mut Vec<Value>) -> Result<bool, ProtobufError> {
    let WireValue::Bytes(bytes) = value else { return Ok(false) };
    let mut reader = Reader::new(bytes);
    match field.of {
        FieldType::Bool | FieldType::Int32 | FieldType::Int64 => {
            while !reader.is_empty() {
                list.push(element(field, WireValue::Varint(reader.varint()?), None, 1)?);
            }
            Ok(true)
        }
        FieldType::Double => {
            while !reader.is_empty() {
                list.push(element(field, WireValue::Fixed64(reader.fixed64()?), None, 1)?);
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// In lists and maps every element stands for something.
fn filled(field: &Field, value: Value) -> Value {
    if value.is_null() { normal::zero(field.of) } else { value }
}

fn map_entry(field: &'static Field, bytes: &[u8], depth: usize) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut found) = ("", Value::Null);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match number {
            small::MAP_KEY => key = value.text()?,
            small::MAP_VALUE => found = element(field, value, Some(found), depth)?,
            _ => {}
        }
    }
    Ok((key.to_owned(), filled(field, found)))
}

/// One value; a message merges into the one `before` it.
fn element(
    field: &'static Field,
    value: WireValue<'_>,
    before: Option<Value>,
    depth: usize,
) -> Result<Value, ProtobufError> {
    Ok(match field.of {
        FieldType::String => Value::from(value.text()?),
        FieldType::Bool => Value::Bool(value.varint()? != 0),
        FieldType::Int32 => Value::from(int32(value.varint()?)),
        FieldType::Int64 => Value::from(value.varint()?.cast_signed()),
        FieldType::Double => double(field, f64::from_bits(value.fixed64()?))?,
        FieldType::Bytes => Value::String(STANDARD.encode(value.bytes()?)),
        FieldType::Quantity | FieldType::Duration => small_text(field, value.bytes()?)?,
        FieldType::Time | FieldType::MicroTime => time(field, value.bytes()?)?,
        FieldType::IntOrString => int_or_string(value.bytes()?)?,
        FieldType::Raw => raw(field, value.bytes()?, false, depth)?,
        FieldType::Object => raw(field, value.bytes()?, true, depth)?,
        FieldType::Strings => strings(value.bytes()?, small::ITEMS)?,
        FieldType::Message(of) => {
            let mut object = match before {
                Some(Value::Object(object)) => object,
                _ => Map::new(),
            };
            message(of.get(), value.bytes()?, &mut object, depth)?;
            Value::Object(object)
        }
        FieldType::SchemaOrBool(_) | FieldType::SchemaOrArray(_) | FieldType::SchemaOrStrings(_) => {
            schema_or(field.of, value.bytes()?, depth)?
        }
    })
}

#[expect(clippy::cast_possible_truncation, reason = "protobuf sign-extends 32-bit numbers to 64 bits")]
fn int32(value: u64) -> i32 {
    value.cast_signed() as i32
}

fn double(field: &Field, value: f64) -> Result<Value, ProtobufError> {
    let number = Number::from_f64(value)
        .ok_or_else(|| ProtobufError::BadValue { field: field.name, problem: format!("unsupported value: {value}") })?;
    scalar(field, Value::Number(number))
}

fn scalar(field: &Field, value: Value) -> Result<Value, ProtobufError> {
    normal::scalar(field.of, value).map_err(|refusal| {
        let problem = match refusal {
            normal::Refusal::WrongType(found) => format!("unexpected {found}"),
            normal::Refusal::Bad(text) => text,
        };
        ProtobufError::BadValue { field: field.name, problem }
    })
}

fn small_text(field: &Field, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut text = "";
    let mut nanos = 0;
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        if number == small::TEXT {
            match value {
                WireValue::Varint(value) => nanos = value.cast_signed(),
                other => text = other.text()?,
            }
        }
    }
    if field.of == FieldType::Duration {
        return Ok(Value::String(format!("{nanos}ns")));
    }
    // An empty quantity is Go's zero.
    scalar(field, Value::from(if text.is_empty() { "0" } else { text }))
}

/// No content is Go's zero time, which JSON writes as `null`.
fn time(field: &Field, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match number {
            small::SECONDS => seconds = value.varint()?.cast_signed(),
            small::NANOS => nanos = int32(value.varint()?),
            _ => {}
        }
    }
    if bytes.is_empty() || (seconds == ZERO_TIME_SECONDS && nanos == 0) {
        return Ok(Value::Null);
    }
    let timestamp = Timestamp::new(seconds, nanos)
        .map_err(|error| ProtobufError::BadValue { field: field.name, problem: error.to_string() })?;
    Ok(Value::String(match field.of {
        FieldType::MicroTime => MicroTime::from_timestamp(timestamp).to_string(),
        _ => Time::from_timestamp(timestamp).to_string(),
    }))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_string, mut number, mut text) = (false, 0, "");
    let mut reader = Reader::new(bytes);
    while let Some((tag, value)) = reader.next()? {
        match tag {
            small::IS_STRING => is_string = value.varint()? == 1,
            small::INT => number = int32(value.varint()?),
            small::STRING => text = value.text()?,
            _ => {}
        }
    }
    Ok(if is_string { Value::from(text) } else { Value::from(number) })
}

fn raw(field: &Field, bytes: &[u8], object: bool, depth: usize) -> Result<Value, ProtobufError> {
    let mut content: &[u8] = &[];
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        if number == small::RAW {
            content = value.bytes()?;
        }
    }
    if content.is_empty() {
        return Ok(Value::Null);
    }
    if object && content.starts_with(&MAGIC) {
        let depth = depth.checked_sub(1).ok_or(ProtobufError::TooDeep)?;
        return decode_at(content, None, depth).map(|(_, value)| value);
    }
    serde_json::from_slice(content)
        .map_err(|error| ProtobufError::BadValue { field: field.name, problem: error.to_string() })
}

fn strings(bytes: &[u8], items: u32) -> Result<Value, ProtobufError> {
    let mut texts = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        if number == items {
            texts.push(Value::from(value.text()?));
        }
    }
    Ok(Value::Array(texts))
}

/// A schema, or what may stand in its place.
fn schema_or(of: FieldType, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let (schema, schema_number) = match of {
        FieldType::SchemaOrBool(schema) => (schema, small::BOOL_SCHEMA),
        FieldType::SchemaOrArray(schema) | FieldType::SchemaOrStrings(schema) => (schema, small::SCHEMA),
        _ => return Err(WireError::Mismatch.into()),
    };
    let (mut found, mut others, mut allows) = (None, Vec::new(), false);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (number, of) {
            (small::ALLOWS, FieldType::SchemaOrBool(_)) => allows = value.varint()? != 0,
            (number, _) if number == schema_number => {
                found = Some(root(schema.get(), value.bytes()?, depth)?);
            }
            (small::ALTERNATIVES, FieldType::SchemaOrArray(_)) => {
                others.push(Value::Object(root(schema.get(), value.bytes()?, depth)?));
            }
            (small::ALTERNATIVES, FieldType::SchemaOrStrings(_)) => others.push(Value::from(value.text()?)),
            _ => {}
        }
    }
    Ok(match (found, of) {
        (Some(schema), _) => Value::Object(schema),
        (None, FieldType::SchemaOrBool(_)) => Value::Bool(allows),
        (None, _) => Value::Array(others),
    })
}
