//! Admission: the built-in plugins that change or refuse a write, in upstream's order.

mod escalation;
mod namespaces;
mod node_restriction;
mod priority;
mod requestor;
mod service_account;
mod taints;
mod tolerations;

use quorate_api::object::Object;
use quorate_api::resource::Resource;
use quorate_api::status::Status;
use quorate_env::Env;
use serde_json::Value;

use crate::authorize::Authorizer;
use crate::identity::Identity;
use crate::registry::Row;
pub(crate) use crate::registry::core::pod_spec::template::MIRROR as MIRROR_ANNOTATION;
use crate::storage::Storage;
use crate::warnings::Warnings;

pub(crate) use service_account::TOKEN_SECONDS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
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
    /// Also on a create: a name that is generated is generated before.
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
#[derive(Clone, Debug)]
pub struct Admission {
    storage: Storage,
    authorizer: Authorizer,
    env: Env,
}

impl Admission {
    pub fn new(storage: Storage, authorizer: Authorizer, env: Env) -> Self {
        Self { storage, authorizer, env }
    }

    pub async fn mutate(&self, request: &AdmissionRequest<'_>, object: &mut Object) -> Result<(), Status> {
        service_account::mutate(request, object, &self.storage, &self.env).await?;
        requestor::mutate(request, object)?;
        taints::mutate(request, object)?;
        priority::mutate(request, object, &self.storage).await?;
        tolerations::mutate(request, object)
    }

    /// `object` is the new state, absent on delete.
    pub async fn validate(&self, request: &AdmissionRequest<'_>, object: Option<&Object>) -> Result<(), Status> {
        namespaces::validate(request)?;
        node_restriction::validate(request, object, &self.storage, &self.authorizer).await?;
        priority::validate(request, object, &self.storage).await?;
        escalation::validate(request, object, &self.authorizer).await
    }
}

/// A plugin's refusal. An object whose name is still to be generated is called by its prefix.
fn forbidden(request: &AdmissionRequest<'_>, object: Option<&Object>, why: &str) -> Status {
    let given =
        object.map(
            |object| {
                if object.name().is_empty() { object.generate_name().unwrap_or_default() } else { object.name() }
            },
        );
    let name = match (request.name, given) {
        ("", Some(given)) if !given.is_empty() => given,
        ("", _) => "Unknown",
        (name, _) => name,
    };
    Status::forbidden(&request.row.group_resource, name, why)
}

/// Sets a field in an object whose shape the schema has already vouched for.
fn put(object: &mut Object, pointer: &str, value: impl Into<Value>) -> Result<(), Status> {
    object.set(pointer, value).map_err(Status::internal)
}
