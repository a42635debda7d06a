//! JSON bodies.

use serde::de::DeserializeSeed;
use serde_json::Value;

use super::visit::Session;
use super::{DecodeError, Decoded, FieldValidation};
use crate::schema::Type;

/// Reads a body. With a schema, fields it does not have are dropped and reported; without one (custom resources)
/// everything is kept and only duplicates are reported.
pub fn decode(
    bytes: &[u8],
    schema: Option<&'static Type>,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let session = Session::new(validation);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = session
        .root(schema)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| session.failure(&error))?;
    session.finish(value)
}

/// As [`decode`], for a value that is already parsed: the result of a patch.
pub fn check(value: Value, schema: Option<&'static Type>, validation: FieldValidation) -> Result<Decoded, DecodeError> {
    let session = Session::new(validation);
    let value = session.root(schema).deserialize(value).map_err(|error| session.failure(&error))?;
    session.finish(value)
}

/// The bytes of a value: keys sorted bytewise, no white space.
pub fn encode_canonical(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
