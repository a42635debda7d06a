//! Admission: the built-in plugins that change or refuse a write, in upstream's order.

use quorate_api::object::Object;
use quorate_api::resource::Resource;
use quorate_api::status::Status;

use crate::identity::Identity;
use crate::registry::Row;
use crate::warnings::Warnings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// One write, as the plugins see it. The object itself is passed beside it, because mutation changes it.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    pub identity: &'a Identity,
    pub operation: Operation,
    pub row: &'a Row,
    /// Empty unless the request is for a subresource.
    pub subresource: &'a str,
    /// Empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// Empty on a create whose name is generated after admission.
    pub name: &'a str,
    /// The stored object on update and delete.
    pub old: Option<&'a Object>,
    pub dry_run: bool,
    pub warnings: &'a Warnings,
}

impl AdmissionRequest<'_> {
    pub fn resource(&self) -> &Resource {
        &self.row.resource
    }

    /// Whether this is about `resource` of `group` itself (no subresource).
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty() && self.row.resource.group == group && self.row.resource.plural == resource
    }
}

/// The plugins' owner. `mutate` runs after defaulting and before the strategy; `validate` after validation, last
/// before the transaction. Both may run again when the transaction lost a race.
#[derive(Debug, Default)]
pub struct Admission {}

impl Admission {
    pub async fn mutate(&self, _request: &AdmissionRequest<'_>, _object: &mut Object) -> Result<(), Status> {
        Ok(())
    }

    /// `object` is the new state, absent on delete and connect.
    pub async fn validate(&self, _request: &AdmissionRequest<'_>, _object: Option<&Object>) -> Result<(), Status> {
        Ok(())
    }
}
