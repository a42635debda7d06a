//! The kinds of the coordination group.

pub(crate) mod lease;
