//! Writes of roles and bindings: nobody grants what they do not hold.

use quorate_api::object::Object;
use quorate_api::status::Status;
use serde::Deserialize;
use serde_json::Value;

use super::{AdmissionRequest, Operation};
use crate::attributes::{Attributes, Decision};
use crate::authorize::index::{Binding, GROUP, Kind, Role, RoleRef};
use crate::authorize::rule::Rule;
use crate::authorize::{Authorizer, escalation};
use crate::identity::MASTERS;

pub(super) async fn validate(
    request: &AdmissionRequest<'_>,
    object: Option<&Object>,
    authorizer: &Authorizer,
) -> Result<(), Status> {
    let writes = matches!(request.operation, Operation::Create | Operation::Update);
    let Some(object) =
        object.filter(|_| writes && request.row.resource.group == GROUP && request.subresource.is_empty())
    else {
        return Ok(());
    };
    if request.identity.in_group(MASTERS) {
        return Ok(());
    }
    match Kind::from_plural(&request.row.resource.plural) {
        Some(kind @ (Kind::ClusterRole | Kind::Role)) => role(request, object, kind, authorizer).await,
        Some(Kind::ClusterRoleBinding | Kind::RoleBinding) => binding(request, object, authorizer).await,
        None => Ok(()),
    }
}

async fn role(
    request: &AdmissionRequest<'_>,
    object: &Object,
    kind: Kind,
    authorizer: &Authorizer,
) -> Result<(), Status> {
    // A label is enough to bring a role's rules into an aggregating one, so whoever changes anything of a role must
    // hold what it grants.
    if only_for_the_collector(request.old, object) {
        return Ok(());
    }
    let question = Attributes {
        namespace: request.namespace,
        name: object.name(),
        ..Attributes::resource(request.identity, "escalate", GROUP, &request.row.resource.plural)
    };
    if authorizer.authorize(&question).await == Decision::Allow {
        return Ok(());
    }
    let role: Role = read(object)?;
    let wanted = role.rules.unwrap_or_default();
    let wanted: Vec<&Rule> = wanted.iter().collect();
    let aggregates = kind == Kind::ClusterRole && (aggregates(object) || request.old.is_some_and(aggregates));
    let verdict = authorizer.with_roles(|roles| {
        escalation::confirm(roles, request.identity, request.namespace, &wanted)?;
        if aggregates {
            // Whatever carries the labels later is granted too, so only whoever holds everything may say this.
            escalation::confirm(roles, request.identity, "", &everything().iter().collect::<Vec<_>>())
                .map_err(|_missing| "must have cluster-admin privileges to use the aggregationRule".to_owned())?;
        }
        Ok::<(), String>(())
    });
    verdict.map_err(|why| super::forbidden(request, Some(object), &why))
}

async fn binding(request: &AdmissionRequest<'_>, object: &Object, authorizer: &Authorizer) -> Result<(), Status> {
    if only_for_the_collector(request.old, object) {
        return Ok(());
    }
    let binding: Binding = read(object)?;
    if authorizer.authorize(&bind_question(request, &binding.role_ref)).await == Decision::Allow {
        return Ok(());
    }
    let verdict = authorizer.with_roles(|roles| {
        escalation::confirm_reference(roles, request.identity, request.namespace, &binding.role_ref)
    });
    verdict.map_err(|why| super::forbidden(request, Some(object), &why))
}

/// Whether nothing differs but what the garbage collector needs to let an object go.
fn only_for_the_collector(old: Option<&Object>, new: &Object) -> bool {
    let Some(old) = old else { return false };
    let mut same = new.clone();
    for field in ["ownerReferences", "finalizers", "managedFields"] {
        match old.get(&format!("/metadata/{field}")) {
            Some(value) => same.metadata_mut().insert(field.to_owned(), value.clone()),
            None => same.metadata_mut().remove(field),
        };
    }
    same == *old
}

fn aggregates(role: &Object) -> bool {
    let selectors = role.get("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
    selectors.is_some_and(|selectors| !selectors.is_empty())
}

fn bind_question<'a>(request: &AdmissionRequest<'a>, role: &'a RoleRef) -> Attributes<'a> {
    let resource = if role.kind == "ClusterRole" { "clusterroles" } else { "roles" };
    Attributes {
        namespace: request.namespace,
        name: &role.name,
        ..Attributes::resource(request.identity, "bind", GROUP, resource)
    }
}

fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { api_groups: all(), resources: all(), verbs: all(), ..Rule::default() },
        Rule { non_resource_urls: all(), verbs: all(), ..Rule::default() },
    ]
}

fn read<T: for<'de> Deserialize<'de>>(object: &Object) -> Result<T, Status> {
    let value = Value::Object(object.as_map().clone());
    serde_json::from_value(value).map_err(|error| Status::bad_request(error.to_string()))
}
