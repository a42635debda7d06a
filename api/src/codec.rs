//! Bodies to values and back: JSON, YAML, protobuf, and the normal form that is stored.
//!
//! Start at [`json::decode`]. A body is read in two steps. *Decoding* checks types, drops fields the kind does not have
//! and reports them, and brings scalars into their normal form; it invents nothing, so that a patch or an applied
//! configuration says only what its author said. [`canonicalize`] then makes two objects that mean the same the same
//! bytes: it runs on the whole object after defaulting.

mod canonical;
pub mod json;
mod normal;
pub mod protobuf;
mod visit;
pub mod yaml;

#[cfg(test)]
pub(crate) mod tests;

pub use canonical::canonicalize;

use serde_json::Value;
use thiserror::Error;

/// Objects and arrays inside each other. The deepest real bodies (schemas of custom resources) stay below 64.
pub const MAX_DEPTH: usize = 128;
/// Unknown and duplicate fields reported of one body; further ones are dropped without a word.
pub const MAX_STRICT_FINDINGS: usize = 100;

/// What becomes of unknown and duplicate fields: the request's `fieldValidation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    /// The default of the API.
    #[default]
    Warn,
    Strict,
}

/// A body that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// One text per finding, for `Warning` headers.
    pub warnings: Vec<String>,
}

/// Why a body was not understood. All of these are a client's mistake (400).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Not JSON (or YAML) at all.
    #[error("{0}")]
    Syntax(String),
    /// A value of the wrong JSON type, worded as Go's decoder does.
    #[error("json: cannot unmarshal {found} into Go {target} of type {expected}")]
    WrongType { found: String, target: String, expected: String },
    /// A text that its type cannot be read from (a quantity, a time, base64).
    #[error("{0}")]
    BadScalar(String),
    #[error("strict decoding error: {}", .0.join(", "))]
    Strict(Vec<String>),
    #[error("exceeded max depth")]
    TooDeep,
}

// === impl FieldValidation ===

impl FieldValidation {
    /// The query parameter's value; empty means the default.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Warn" => Some(Self::Warn),
            "Ignore" => Some(Self::Ignore),
            "Strict" => Some(Self::Strict),
            _ => None,
        }
    }
}
