//! The kinds of the scheduling group.

pub(crate) mod priority_class;
