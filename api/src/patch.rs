//! Applying patches: JSON patch, JSON merge patch, strategic merge patch.
//!
//! Each is a function from the current value and the patch to the new value; nothing here knows of objects' metadata,
//! versions or validation. Start at [`merge::apply`], the smallest.

pub mod json_patch;
pub mod merge;
pub mod strategic;
#[cfg(test)]
mod tests;

use thiserror::Error;

/// Why a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    /// Not a patch at all (400).
    #[error("{0}")]
    Malformed(String),
    /// A patch that asks for something its format does not allow (400).
    #[error("{0}")]
    Invalid(String),
    /// More operations than allowed (413).
    #[error("The allowed maximum operations in a JSON patch is {max}, got {found}")]
    TooManyOperations { max: usize, found: usize },
    /// The copies of a patch would grow the object too far (413).
    #[error("Unable to complete the copy, the accumulated size increase of copy is {found}, exceeding the limit {max}")]
    CopiesTooLarge { max: usize, found: usize },
    /// The patch does not fit the current value (422).
    #[error("{0}")]
    DoesNotApply(String),
    /// A `test` operation found another value (422).
    #[error("testing value {path} failed: test failed")]
    TestFailed { path: String },
}

impl PatchError {
    /// The HTTP status the error answers with.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) | Self::Invalid(_) => 400,
            Self::TooManyOperations { .. } | Self::CopiesTooLarge { .. } => 413,
            Self::DoesNotApply(_) | Self::TestFailed { .. } => 422,
        }
    }
}
