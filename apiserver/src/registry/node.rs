//! The kinds of the node group.

pub(crate) mod runtime_class;
