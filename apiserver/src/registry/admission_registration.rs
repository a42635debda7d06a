//! The kinds of the admissionregistration group.

pub(crate) mod policy;
pub(crate) mod webhook;
