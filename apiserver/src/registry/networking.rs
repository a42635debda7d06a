//! The kinds of the networking group.

pub(crate) mod addresses;
pub(crate) mod ingress;
pub(crate) mod network_policy;
