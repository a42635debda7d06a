//! One finding of validation, worded as upstream words it.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::field::FieldPath;
use crate::quote::quote;

/// What is wrong with a field; also the `reason` of the cause in a `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TooFew,
    TooShort,
    TypeInvalid,
    Internal,
}

/// One finding. Its `Display` is `path: body`.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{path}: {}", self.body())]
pub struct FieldError {
    pub kind: FieldErrorKind,
    pub path: FieldPath,
    /// The offending value; `None` when the message does not show it.
    pub value: Option<Value>,
    pub detail: String,
}

// === impl FieldErrorKind ===

impl FieldErrorKind {
    /// The text of a cause's `reason`.
    pub fn cause(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::TooShort => "FieldValueTooShort",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }
}

impl fmt::Display for FieldErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::TooShort => "Too short",
            Self::Internal => "Internal error",
        })
    }
}

// === impl FieldError ===

impl FieldError {
    fn new(kind: FieldErrorKind, path: &FieldPath, value: Option<Value>, detail: impl Into<String>) -> Self {
        Self { kind, path: path.clone(), value, detail: detail.into() }
    }

    pub fn not_found(path: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::NotFound, path, Some(value.into()), "")
    }

    pub fn required(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, path, None, detail)
    }

    pub fn duplicate(path: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, Some(value.into()), "")
    }

    pub fn invalid(path: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, path, Some(value.into()), detail)
    }

    pub fn type_invalid(path: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, path, Some(value.into()), detail)
    }

    /// `supported` is shown in the order given; upstream mostly sorts its lists.
    pub fn not_supported(path: &FieldPath, value: impl Into<Value>, supported: &[&str]) -> Self {
        let detail = if supported.is_empty() {
            String::new()
        } else {
            let quoted: Vec<String> = supported.iter().map(|text| quote(text)).collect();
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(FieldErrorKind::NotSupported, path, Some(value.into()), detail)
    }

    pub fn forbidden(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, None, detail)
    }

    /// The limit is in bytes; the value is never repeated back.
    pub fn too_long(path: &FieldPath, max_bytes: usize) -> Self {
        let unit = if max_bytes == 1 { "byte" } else { "bytes" };
        Self::new(FieldErrorKind::TooLong, path, None, format!("may not be more than {max_bytes} {unit}"))
    }

    pub fn too_long_characters(path: &FieldPath, max_characters: usize) -> Self {
        let unit = if max_characters == 1 { "character" } else { "characters" };
        Self::new(FieldErrorKind::TooLong, path, None, format!("may not be more than {max_characters} {unit}"))
    }

    pub fn too_short(path: &FieldPath, min_characters: usize) -> Self {
        let unit = if min_characters == 1 { "character" } else { "characters" };
        Self::new(FieldErrorKind::TooShort, path, None, format!("must be at least {min_characters} {unit}"))
    }

    pub fn too_many(path: &FieldPath, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(FieldErrorKind::TooMany, path, Some(actual.into()), format!("must have at most {max} {unit}"))
    }

    pub fn too_few(path: &FieldPath, actual: usize, min: usize) -> Self {
        let unit = if min == 1 { "item" } else { "items" };
        Self::new(FieldErrorKind::TooFew, path, Some(actual.into()), format!("must have at least {min} {unit}"))
    }

    pub fn internal(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Internal, path, None, detail)
    }

    /// The message without the path.
    pub fn body(&self) -> String {
        let mut text = self.kind.to_string();
        if let Some(value) = &self.value {
            text.push_str(": ");
            text.push_str(&shown(value));
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

/// Strings are quoted as Go quotes them; everything else is JSON with the three HTML characters escaped.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => {
            value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        }
    }
}

/// All findings as one text: one alone as it is, several in brackets, repeated ones once. `None` for no findings.
pub fn aggregate(errors: &[FieldError]) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut texts = Vec::new();
    for error in errors {
        let text = error.to_string();
        if seen.insert(text.clone()) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_read_as_upstreams() {
        let path = FieldPath::new("spec").child("containers").index(0).child("env").key("A");
        let cases = [
            (FieldError::required(&path, ""), "Required value"),
            (FieldError::required(&path, "why"), "Required value: why"),
            (FieldError::invalid(&path, "x\"", "bad"), r#"Invalid value: "x\"": bad"#),
            (FieldError::invalid(&path, -1, "bad"), "Invalid value: -1: bad"),
            (FieldError::invalid(&path, json!({"a": "<"}), ""), r#"Invalid value: {"a":"\u003c"}"#),
            (FieldError::invalid(&path, Value::Null, "no"), "Invalid value: null: no"),
            (
                FieldError::not_supported(&path, "X", &["A", "B"]),
                r#"Unsupported value: "X": supported values: "A", "B""#,
            ),
            (FieldError::duplicate(&path, "x"), r#"Duplicate value: "x""#),
            (FieldError::forbidden(&path, "no"), "Forbidden: no"),
            (FieldError::not_found(&path, "x"), r#"Not found: "x""#),
            (FieldError::too_long(&path, 63), "Too long: may not be more than 63 bytes"),
            (FieldError::too_long_characters(&path, 1), "Too long: may not be more than 1 character"),
            (FieldError::too_many(&path, 3, 1), "Too many: 3: must have at most 1 item"),
            (FieldError::too_few(&path, 0, 2), "Too few: 0: must have at least 2 items"),
            (FieldError::too_short(&path, 1), "Too short: must be at least 1 character"),
            (FieldError::type_invalid(&path, true, "t"), "Invalid value: true: t"),
            (FieldError::internal(&path, "t"), "Internal error: t"),
        ];
        for (error, want) in cases {
            assert_eq!(error.to_string(), format!("spec.containers[0].env[A]: {want}"));
        }
    }

    #[test]
    fn findings_aggregate_without_repeats() {
        let a = FieldError::required(&FieldPath::new("a"), "");
        let b = FieldError::required(&FieldPath::new("b"), "");
        assert_eq!(aggregate(&[]), None);
        assert_eq!(aggregate(&[a.clone(), a.clone()]).unwrap(), "a: Required value");
        assert_eq!(aggregate(&[a.clone(), b, a]).unwrap(), "[a: Required value, b: Required value]");
    }

    #[test]
    fn a_child_of_the_root_has_no_dot() {
        assert_eq!(FieldPath::root().child("metadata").child("name").as_str(), "metadata.name");
    }
}
