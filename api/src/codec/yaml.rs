//! YAML bodies: one document, read as the JSON it stands for.

use serde::de::DeserializeSeed;
use serde_saphyr::DuplicateKeyPolicy;

use super::visit::Session;
use super::{DecodeError, Decoded, FieldValidation};
use crate::schema::Type;

/// Reads a body; as [`super::json::decode`].
pub fn decode(
    bytes: &[u8],
    schema: Option<&'static Type>,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let session = Session::new(validation);
    let options = serde_saphyr::options! {
        // Repeated keys are the session's to report.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
    };
    let value = serde_saphyr::with_deserializer_from_slice_with_options(bytes, options, |deserializer| {
        session.root(schema).deserialize(deserializer)
    })
    .map_err(|error| session.failure(&error))?;
    session.finish(value)
}
