//! SelfSubjectRulesReview: everything that one may do in a namespace.

use quorate_api::object::Object;
use quorate_api::status::Status;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::authorize::Authorizer;
use crate::authorize::rule::Rule;
use crate::identity::Identity;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    namespace: Option<String>,
}

pub(super) fn answer(authorizer: &Authorizer, review: &Object, identity: &Identity) -> Result<Value, Status> {
    let spec: Spec = super::spec(review)?;
    let namespace = spec.namespace.unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    Ok(authorizer.with_roles(|roles| {
        let resolved = roles.rules_for(identity, &namespace);
        let (urls, resources): (Vec<&Rule>, Vec<&Rule>) =
            resolved.rules.into_iter().partition(|rule| !rule.non_resource_urls.is_empty());
        let mut errors = resolved.dangling;
        // What a node may do to its own objects is no list of rules.
        let is_node = identity.node_name().is_some();
        if is_node {
            errors.push("node authorizer doesn't support user rule resolution".to_owned());
        }
        let mut status = json!({"resourceRules": resources, "nonResourceRules": urls, "incomplete": is_node});
        if !errors.is_empty() {
            status["evaluationError"] = json!(errors.join(", "));
        }
        status
    }))
}
