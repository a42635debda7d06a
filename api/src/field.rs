//! Where in an object something is wrong, and what: [`FieldPath`] and [`FieldError`].

mod error;

pub use error::{FieldError, FieldErrorKind, aggregate};

use std::fmt;

/// A path to a field as messages show it: `spec.containers[0].env[name]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath(String);

impl FieldPath {
    /// A path of one field.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The path of the object itself, under which [`FieldPath::child`] gives plain field names.
    pub fn root() -> Self {
        Self::default()
    }

    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self::new(name) } else { Self(format!("{}.{name}", self.0)) }
    }

    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
