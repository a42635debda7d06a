//! The kinds of the discovery group.

pub(crate) mod endpoint_slice;
