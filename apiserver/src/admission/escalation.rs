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
    let unchanged = |pointer| request.old.is_some_and(|old| old.get(pointer) == object.get(pointer));
    if unchanged("/rules") && unchanged("/aggregationRule") {
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
    let aggregates = kind == Kind::ClusterRole && role.aggregation_rule.is_some();
    let verdict = authorizer.with_roles(|roles| {
        if aggregates {
            // Whatever carries the labels later is granted too, so only whoever holds everything may say this.
            escalation::confirm(roles, request.identity, "", &everything().iter().collect::<Vec<_>>())
                .map_err(|_missing| "must have cluster-admin privileges to use an aggregationRule".to_owned())?;
        }
        escalation::confirm(roles, request.identity, request.namespace, &wanted)
    });
    verdict.map_err(|why| super::forbidden(request, Some(object), &why))
}

async fn binding(request: &AdmissionRequest<'_>, object: &Object, authorizer: &Authorizer) -> Result<(), Status> {
    let unchanged = |pointer| request.old.is_some_and(|old| old.get(pointer) == object.get(pointer));
    if unchanged("/roleRef") && unchanged("/subjects") {
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
