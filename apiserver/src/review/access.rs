//! SubjectAccessReview and its kin: may somebody do something?

use quorate_api::field::{FieldError, FieldPath};
use quorate_api::name::GroupKind;
use quorate_api::object::Object;
use quorate_api::status::Status;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Extra;
use crate::attributes::{Attributes, Decision};
use crate::authorize::Authorizer;
use crate::identity::Identity;

const ONE_QUESTION: &str = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
const GROUP: &str = "authorization.k8s.io";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<NonResourceAttributes>,
    user: Option<String>,
    groups: Option<Vec<String>>,
    uid: Option<String>,
    extra: Option<Extra>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    name: String,
    field_selector: Option<Selector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    raw_selector: String,
    requirements: Option<Vec<Requirement>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NonResourceAttributes {
    path: String,
    verb: String,
}

/// Anybody, as the spec names them.
pub(super) async fn subject(authorizer: &Authorizer, review: &Object) -> Result<Value, Status> {
    let spec: Spec = super::spec(review)?;
    refuse("SubjectAccessReview", review, subject_errors(&spec))?;
    let identity = named(&spec);
    Ok(decide(authorizer, &identity, &spec).await)
}

/// The same within one namespace, for those who may only ask there.
pub(super) async fn local(authorizer: &Authorizer, review: &Object, namespace: &str) -> Result<Value, Status> {
    let spec: Spec = super::spec(review)?;
    let mut errors = subject_errors(&spec);
    if let Some(other) = &spec.non_resource_attributes {
        let path = FieldPath::new("spec").child("nonResourceAttributes");
        let value = json!({"path": other.path, "verb": other.verb});
        errors.push(FieldError::invalid(&path, value, "disallowed on this kind of request"));
    }
    if let Some(asked) = spec.resource_attributes.as_ref().filter(|asked| asked.namespace != namespace) {
        let path = FieldPath::new("spec").child("resourceAttributes").child("namespace");
        errors.push(FieldError::invalid(&path, asked.namespace.clone(), "must match metadata.namespace"));
    }
    refuse("LocalSubjectAccessReview", review, errors)?;
    let identity = named(&spec);
    Ok(decide(authorizer, &identity, &spec).await)
}

/// The one who asks.
pub(super) async fn own(authorizer: &Authorizer, review: &Object, identity: &Identity) -> Result<Value, Status> {
    let spec: Spec = super::spec(review)?;
    refuse("SelfSubjectAccessReview", review, question_errors(&spec))?;
    Ok(decide(authorizer, identity, &spec).await)
}

fn refuse(kind: &str, review: &Object, errors: Vec<FieldError>) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new(GROUP, kind), review.name(), &errors))
}

fn subject_errors(spec: &Spec) -> Vec<FieldError> {
    let mut errors = question_errors(spec);
    let nobody =
        spec.user.as_deref().unwrap_or_default().is_empty() && spec.groups.as_deref().unwrap_or_default().is_empty();
    if nobody {
        let path = FieldPath::new("spec").child("user");
        errors.push(FieldError::invalid(&path, "", "at least one of user or group must be specified"));
    }
    errors
}

fn question_errors(spec: &Spec) -> Vec<FieldError> {
    let path = FieldPath::new("spec").child("nonResourceAttributes");
    match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(_), Some(other)) => {
            let value = json!({"path": other.path, "verb": other.verb});
            vec![FieldError::invalid(&path, value, "cannot be specified in combination with resourceAttributes")]
        }
        (None, None) => {
            let path = FieldPath::new("spec").child("resourceAttributes");
            vec![FieldError::invalid(&path, Value::Null, ONE_QUESTION)]
        }
        _ => Vec::new(),
    }
}

fn named(spec: &Spec) -> Identity {
    Identity {
        user: spec.user.clone().unwrap_or_default(),
        uid: spec.uid.clone().unwrap_or_default(),
        groups: spec.groups.clone().unwrap_or_default(),
        extra: spec.extra.clone().unwrap_or_default(),
    }
}

async fn decide(authorizer: &Authorizer, identity: &Identity, spec: &Spec) -> Value {
    let field_selector = spec.resource_attributes.as_ref().map(field_selector).unwrap_or_default();
    let attributes = match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(asked), _) => Attributes {
            version: &asked.version,
            subresource: &asked.subresource,
            namespace: &asked.namespace,
            name: &asked.name,
            field_selector: &field_selector,
            ..Attributes::resource(identity, &asked.verb, &asked.group, &asked.resource)
        },
        (None, Some(asked)) => Attributes::path(identity, &asked.verb, &asked.path),
        (None, None) => Attributes::path(identity, "", ""),
    };
    match authorizer.authorize(&attributes).await {
        Decision::Allow => json!({"allowed": true}),
        Decision::Deny { reason } if reason.is_empty() => json!({"allowed": false}),
        Decision::Deny { reason } => json!({"allowed": false, "reason": reason}),
    }
}

/// The selector as a query carries it.
fn field_selector(asked: &ResourceAttributes) -> String {
    let Some(selector) = &asked.field_selector else { return String::new() };
    if !selector.raw_selector.is_empty() {
        return selector.raw_selector.clone();
    }
    let terms = selector.requirements.iter().flatten().filter(|term| term.operator == "In");
    let one = |term: &Requirement| match term.values.as_deref() {
        Some([value]) => Some(format!("{}={value}", term.key)),
        _ => None,
    };
    terms.filter_map(one).collect::<Vec<_>>().join(",")
}
