//! The normal form of each scalar, what a zero is, and Go's names for types (messages of upstream show them).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use crate::quantity::Quantity;
use crate::schema::{Field, FieldType, ListKind, Patch, Presence, Shape, Type};
use crate::time::{MicroTime, Time};

/// Why a scalar was not taken.
pub(super) enum Refusal {
    /// Of another JSON type than its field; names what was found, as Go does.
    WrongType(String),
    /// The text of a typed scalar that cannot be read.
    Bad(String),
}

/// Checks a scalar against its type and gives its normal form.
pub(super) fn scalar(of: FieldType, value: Value) -> Result<Value, Refusal> {
    match (of, &value) {
        (FieldType::String, Value::String(_)) | (FieldType::Bool | FieldType::SchemaOrBool(_), Value::Bool(_)) => {
            Ok(value)
        }
        (FieldType::Raw | FieldType::Object, _) | (FieldType::IntOrString, Value::String(_)) => Ok(value),
        (FieldType::Int64, Value::Number(number)) => integer(number, i64::MIN, i64::MAX),
        (FieldType::Int32 | FieldType::IntOrString, Value::Number(number)) => {
            integer(number, i64::from(i32::MIN), i64::from(i32::MAX))
        }
        (FieldType::Double, Value::Number(number)) => Ok(Value::Number(whole(number))),
        (FieldType::Bytes, Value::String(text)) => bytes(text).map(|bytes| Value::String(STANDARD.encode(bytes))),
        (FieldType::Quantity, Value::String(_) | Value::Number(_)) => match Quantity::from_value(&value) {
            Ok(quantity) => Ok(Value::String(quantity.to_string())),
            Err(error) => Err(Refusal::Bad(error.to_string())),
        },
        (FieldType::Time, Value::String(text)) => match Time::parse(text) {
            Ok(time) => Ok(Value::String(time.to_string())),
            Err(error) => Err(Refusal::Bad(error.to_string())),
        },
        (FieldType::MicroTime, Value::String(text)) => match MicroTime::parse(text) {
            Ok(time) => Ok(Value::String(time.to_string())),
            Err(error) => Err(Refusal::Bad(error.to_string())),
        },
        (FieldType::Duration, Value::String(_)) => Ok(value),
        _ => Err(Refusal::WrongType(go_kind(&value))),
    }
}

fn integer(number: &Number, min: i64, max: i64) -> Result<Value, Refusal> {
    match number.as_i64().filter(|value| (min..=max).contains(value)) {
        Some(value) => Ok(Value::from(value)),
        None => Err(Refusal::WrongType(format!("number {number}"))),
    }
}

/// A float without fraction is written as the integer it is, as Go does.
fn whole(number: &Number) -> Number {
    /// Every integer up to here is exact in a float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(value) if number.is_f64() && value.fract() == 0.0 && value.abs() <= EXACT =>
        {
            #[expect(clippy::cast_possible_truncation, reason = "checked: no fraction, and within the exact range")]
            Number::from(value as i64)
        }
        _ => number.clone(),
    }
}

/// Base64 as Go reads it: padding required, line ends skipped.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, Refusal> {
    let compact: Vec<u8>;
    let input = if text.contains(['\r', '\n']) {
        compact = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
        &compact
    } else {
        text.as_bytes()
    };
    STANDARD.decode(input).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => input.len() / 4 * 4,
        };
        Refusal::Bad(format!("illegal base64 data at input byte {at}"))
    })
}

/// What stands for `null` where an element must be.
pub(super) fn zero(of: FieldType) -> Value {
    match of {
        FieldType::String | FieldType::Bytes => Value::from(""),
        FieldType::Bool | FieldType::SchemaOrBool(_) => Value::Bool(false),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double | FieldType::IntOrString => Value::from(0),
        FieldType::Quantity => Value::from("0"),
        FieldType::Duration => Value::from("0s"),
        FieldType::Message(_) | FieldType::Object => Value::Object(Map::new()),
        FieldType::Strings | FieldType::SchemaOrArray(_) | FieldType::SchemaOrStrings(_) => Value::Array(Vec::new()),
        FieldType::Time | FieldType::MicroTime | FieldType::Raw => Value::Null,
    }
}

/// The two fields that every object may carry although no message declares them.
pub(super) fn type_meta(name: &str) -> Option<&'static Field> {
    const fn text(name: &'static str) -> Field {
        Field {
            name,
            shape: Shape::One,
            of: FieldType::String,
            presence: Presence::OmitEmpty,
            list: ListKind::Unset,
            patch: Patch { merge: false, replace: false, retain_keys: false, merge_key: None },
            default: None,
            go_type: None,
            number: 0,
        }
    }
    static API_VERSION: Field = text("apiVersion");
    static KIND: Field = text("kind");
    match name {
        "apiVersion" => Some(&API_VERSION),
        "kind" => Some(&KIND),
        _ => None,
    }
}

/// Go's word for the kind of a JSON value.
pub(super) fn go_kind(value: &Value) -> String {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
    .to_owned()
}

pub(super) fn go_message(of: &Type) -> String {
    format!("{}.{}", of.go_package(), of.short_name())
}

/// Go's name of a whole field's type: `[]v1.Container`.
pub(super) fn go_type(field: &Field) -> String {
    match (field.go_type, field.shape) {
        (Some(name), _) => name.to_owned(),
        (None, Shape::One) => go_base(field.of),
        (None, Shape::List) => format!("[]{}", go_base(field.of)),
        (None, Shape::Map) => format!("map[string]{}", go_base(field.of)),
    }
}

/// Go's name of the type of a field's elements.
pub(super) fn go_element(field: &Field) -> String {
    match (field.go_type, field.shape) {
        (Some(name), Shape::One) => name.to_owned(),
        (Some(name), Shape::List) => name.trim_start_matches("[]").to_owned(),
        (Some(name), Shape::Map) => name.split_once(']').map_or(name, |(_, element)| element).to_owned(),
        (None, _) => go_base(field.of),
    }
}

fn go_base(of: FieldType) -> String {
    match of {
        FieldType::String | FieldType::Duration => "string",
        FieldType::Bool => "bool",
        FieldType::Int32 => "int32",
        FieldType::Int64 => "int64",
        FieldType::Double => "float64",
        FieldType::Bytes => "[]uint8",
        FieldType::Quantity => "resource.Quantity",
        FieldType::Time => "v1.Time",
        FieldType::MicroTime => "v1.MicroTime",
        FieldType::IntOrString => "intstr.IntOrString",
        FieldType::Raw => "v1.JSON",
        FieldType::Object => "runtime.RawExtension",
        FieldType::Strings => "[]string",
        FieldType::SchemaOrArray(_) => "v1.JSONSchemaPropsOrArray",
        FieldType::SchemaOrBool(_) => "v1.JSONSchemaPropsOrBool",
        FieldType::SchemaOrStrings(_) => "v1.JSONSchemaPropsOrStringArray",
        FieldType::Message(of) => return go_message(of.get()),
    }
    .to_owned()
}
