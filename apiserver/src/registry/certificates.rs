//! The kinds of the certificates group.

pub(crate) mod signing_request;
