//! Validation shared by all kinds.
