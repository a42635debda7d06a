//! From a JSON value to the wire bytes of its message.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::EncodeError;
use super::wire::Writer;
use crate::codec::normal;
use crate::schema::{Field, FieldType, Shape, Target, Type};

/// Writes the fields of `value`; those its type does not have are left out.
pub(super) fn message(of: &'static Type, value: &Value, out: &mut Writer) -> Result<(), EncodeError> {
    match value {
        Value::Object(object) => fields(of, object, out),
        other => {
            Err(EncodeError { message: of.name, field: "", problem: format!("unexpected {}", normal::go_kind(other)) })
        }
    }
}

fn fields(of: &'static Type, object: &Map<String, Value>, out: &mut Writer) -> Result<(), EncodeError> {
    for wire in &of.wire {
        match wire.target {
            Target::Embedded(inner) => {
                out.try_nested_unless_empty(wire.number, |out| fields(inner.get(), object, out))?;
            }
            Target::Field(at) => {
                let field = &of.fields[usize::from(at)];
                let value = object.get(field.name).unwrap_or(&Value::Null);
                whole_field(Place { of, field, number: wire.number }, value, out)?;
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Place {
    of: &'static Type,
    field: &'static Field,
    number: u32,
}

// === impl Place ===

impl Place {
    fn wrong(self, problem: impl Into<String>) -> EncodeError {
        EncodeError { message: self.of.name, field: self.field.name, problem: problem.into() }
    }

    fn unexpected(self, value: &Value) -> EncodeError {
        self.wrong(format!("unexpected {}", normal::go_kind(value)))
    }

    fn text(self, value: &Value) -> Result<&str, EncodeError> {
        value.as_str().ok_or_else(|| self.unexpected(value))
    }

    fn integer(self, value: &Value) -> Result<u64, EncodeError> {
        value.as_i64().map(i64::cast_unsigned).ok_or_else(|| self.unexpected(value))
    }
}

fn whole_field(place: Place, value: &Value, out: &mut Writer) -> Result<(), EncodeError> {
    match (place.field.shape, value) {
        (_, Value::Null) => Ok(()),
        (Shape::One, value) => element(place, place.number, value, out),
        (Shape::List, Value::Array(elements)) => {
            elements.iter().try_for_each(|value| element(place, place.number, value, out))
        }
        (Shape::Map, Value::Object(entries)) => entries.iter().try_for_each(|(key, value)| {
            out.try_nested(place.number, |out| {
                out.bytes(1, key.as_bytes());
                element(place, 2, value, out)
            })
        }),
        (Shape::List | Shape::Map, other) => Err(place.unexpected(other)),
    }
}

fn element(place: Place, number: u32, value: &Value, out: &mut Writer) -> Result<(), EncodeError> {
    match place.field.of {
        FieldType::String => out.bytes(number, place.text(value)?.as_bytes()),
        FieldType::Bool => {
            out.varint(number, u64::from(value.as_bool().ok_or_else(|| place.unexpected(value))?));
        }
        FieldType::Int32 | FieldType::Int64 => out.varint(number, place.integer(value)?),
        FieldType::Double => {
            out.fixed64(number, value.as_f64().ok_or_else(|| place.unexpected(value))?.to_bits());
        }
        FieldType::Bytes => {
            let bytes = normal::bytes(place.text(value)?).map_err(|_| place.wrong("not base64"))?;
            out.bytes(number, &bytes);
        }
        FieldType::Quantity => {
            let text = match value {
                Value::Number(number) => number.to_string(),
                other => place.text(other)?.to_owned(),
            };
            out.nested(number, |out| out.bytes(1, text.as_bytes()));
        }
        FieldType::Duration => return Err(place.wrong("durations have no protobuf form in this API")),
        FieldType::Time | FieldType::MicroTime => return time(place, number, value, out),
        FieldType::IntOrString => return int_or_string(place, number, value, out),
        FieldType::Raw | FieldType::Object => {
            out.nested(number, |out| out.bytes(1, value.to_string().as_bytes()));
        }
        FieldType::Strings => {
            return out.try_nested(number, |out| texts(place, 1, value, out));
        }
        FieldType::Message(of) => return out.try_nested(number, |out| message_or_zero(of.get(), value, out)),
        FieldType::SchemaOrBool(of) => {
            return out.try_nested(number, |out| match value {
                Value::Bool(allows) => {
                    out.varint(1, u64::from(*allows));
                    Ok(())
                }
                other => {
                    // With a schema, anything that fits it is allowed.
                    out.varint(1, 1);
                    out.try_nested(2, |out| message(of.get(), other, out))
                }
            });
        }
        FieldType::SchemaOrArray(of) => {
            return out.try_nested(number, |out| match value {
                Value::Array(schemas) => {
                    schemas.iter().try_for_each(|schema| out.try_nested(2, |out| message(of.get(), schema, out)))
                }
                other => out.try_nested(1, |out| message(of.get(), other, out)),
            });
        }
        FieldType::SchemaOrStrings(of) => {
            return out.try_nested(number, |out| match value {
                Value::Array(_) => texts(place, 2, value, out),
                other => out.try_nested(1, |out| message(of.get(), other, out)),
            });
        }
    }
    Ok(())
}

/// `null` in a list stands for an empty message.
fn message_or_zero(of: &'static Type, value: &Value, out: &mut Writer) -> Result<(), EncodeError> {
    if value.is_null() { Ok(()) } else { message(of, value, out) }
}

fn texts(place: Place, number: u32, value: &Value, out: &mut Writer) -> Result<(), EncodeError> {
    let Value::Array(texts) = value else { return Err(place.unexpected(value)) };
    for text in texts {
        out.bytes(number, place.text(text)?.as_bytes());
    }
    Ok(())
}

fn time(place: Place, number: u32, value: &Value, out: &mut Writer) -> Result<(), EncodeError> {
    if value.is_null() {
        // Go's zero time has no content.
        out.bytes(number, &[]);
        return Ok(());
    }
    let timestamp: Timestamp = place.text(value)?.parse().map_err(|_| place.wrong("not a time"))?;
    // Seconds round down and nanoseconds are never negative, as in protobuf's own timestamps.
    let nanos = timestamp.as_nanosecond();
    let (seconds, rest) = (nanos.div_euclid(NANOS_PER_SECOND), nanos.rem_euclid(NANOS_PER_SECOND));
    let (Ok(seconds), Ok(rest)) = (i64::try_from(seconds), u64::try_from(rest)) else {
        return Err(place.wrong("not a time"));
    };
    out.nested(number, |out| {
        out.varint(1, seconds.cast_unsigned());
        if rest > 0 && place.field.of == FieldType::MicroTime {
            out.varint(2, rest);
        }
    });
    Ok(())
}

const NANOS_PER_SECOND: i128 = 1_000_000_000;

fn int_or_string(place: Place, number: u32, value: &Value, out: &mut Writer) -> Result<(), EncodeError> {
    match value {
        Value::String(text) => out.nested(number, |out| {
            out.varint(1, 1);
            out.bytes(3, text.as_bytes());
        }),
        other => {
            let integer = place.integer(other)?;
            out.nested(number, |out| {
                out.varint(1, 0);
                out.varint(2, integer);
            });
        }
    }
    Ok(())
}
