//! YAML bodies: one document, read as the JSON it stands for.

use serde::de::DeserializeSeed;
use serde_saphyr::DuplicateKeyPolicy;

use super::visit::Session;
use super::{DecodeError, Decoded, FieldValidation, MAX_DEPTH};
use crate::schema::Type;

/// Reads a body; as [`super::json::decode`]. Scalars are read as YAML 1.1 has them, as upstream does: `yes` is true,
/// `0644` is octal. Most bodies that say they are YAML are JSON (`kubectl apply` sends them), so that is tried first.
pub fn decode(
    bytes: &[u8],
    schema: Option<&'static Type>,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    if bytes.trim_ascii_start().starts_with(b"{") {
        match super::json::decode(bytes, schema, validation) {
            // A YAML flow mapping begins the same way.
            Err(DecodeError::Syntax(_)) => {}
            result => return result,
        }
    }
    let session = Session::new(validation);
    // Aliases, anchors and nodes stay within the library's own budget.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        // Repeated keys are the session's to report.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let value = serde_saphyr::with_deserializer_from_slice_with_options(bytes, options, |deserializer| {
        session.root(schema).deserialize(deserializer)
    })
    .map_err(|error| session.failure(&error))?;
    session.finish(value)
}

/// A value that has no YAML form; none that was read from a body is such.
#[derive(Debug, thiserror::Error)]
#[error("writing YAML: {0}")]
pub struct EncodeError(String);

/// Writes a document.
pub fn encode(value: &serde_json::Value) -> Result<Vec<u8>, EncodeError> {
    serde_saphyr::to_string(value).map(String::into_bytes).map_err(|error| EncodeError(error.to_string()))
}
