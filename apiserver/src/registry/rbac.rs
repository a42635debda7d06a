//! The kinds of the RBAC group: roles, and who has them.

pub(crate) mod binding;
pub(crate) mod role;

const GROUP: &str = "rbac.authorization.k8s.io";
