//! ResourceQuota: what a namespace may use in all.

use std::collections::BTreeSet;

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::Value;

use super::super::display::{AGE, NAME, age, name, text};
use super::super::rules::{At, Errors, IMMUTABLE};
use super::super::strategy::{Column, Strategy};
use super::pod_spec::resources::{resource_amount, resource_name};

const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
const OPPOSITES: [(&str, &str); 2] = [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];

pub(crate) static STRATEGY: Strategy = Strategy {
    validate_create: validate_spec,
    validate_update,
    validate_status: |new, _| {
        let mut errors = Errors::default();
        amounts(&At::top(new, "status").field("hard"), &mut errors);
        amounts(&At::top(new, "status").field("used"), &mut errors);
        errors.into_vec()
    },
    columns: COLUMNS,
    cells,
    return_deleted_object: true,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text("Request", "What is requested of what may be."),
    text("Limit", "How much of the limits is given out."),
    AGE,
];

fn cells(quota: &Object, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in quota.get("/status/hard").and_then(Value::as_object).into_iter().flatten() {
        let used = quota.get("/status/used").and_then(|used| used.get(resource)).and_then(Value::as_str).unwrap_or("0");
        let part = format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default());
        if resource.starts_with("limits.") { limits.push(part) } else { requests.push(part) }
    }
    vec![name(quota), Value::from(requests.join(", ")), Value::from(limits.join(", ")), age(quota, now)]
}

fn validate_spec(quota: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(quota, "spec");
    amounts(&spec.field("hard"), &mut errors);
    scopes(&spec.field("scopes"), &mut errors);
    for requirement in spec.field("scopeSelector").field("matchExpressions").items() {
        scope_requirement(&requirement, &spec.field("scopeSelector").field("matchExpressions"), &mut errors);
    }
    errors.into_vec()
}

fn amounts(list: &At<'_>, errors: &mut Errors) {
    for (resource, at) in list.entries() {
        resource_name(resource, &at, errors);
        let counts = resource.starts_with("count/") || resource.starts_with("requests.hugepages-");
        if !resource.contains('/') && !counts && !STANDARD.contains(&resource) {
            errors.invalid_value(&at, resource, "must be a standard resource for quota");
        }
        resource_amount(resource, &at, errors);
    }
}

fn scopes(all: &At<'_>, errors: &mut Errors) {
    let set: BTreeSet<&str> = all.items().map(|scope| scope.text()).collect();
    for _ in set.iter().filter(|scope| !SCOPES.contains(scope)) {
        errors.invalid(all, "unsupported scope");
    }
    for _ in OPPOSITES.iter().filter(|(one, other)| set.contains(one) && set.contains(other)) {
        errors.invalid(all, "conflicting scopes");
    }
}

fn scope_requirement(requirement: &At<'_>, all: &At<'_>, errors: &mut Errors) {
    let scope = requirement.field("scopeName").filed_under(&all.field("scopeName"));
    let operator = requirement.field("operator").filed_under(&all.field("operator"));
    let values = requirement.field("values").filed_under(&all.field("values"));
    if !SCOPES.contains(&scope.text()) {
        errors.invalid_value(&scope, scope.text(), "unsupported scope");
    }
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.required(&values, detail);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.invalid(&values, detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid_value(&operator, other, "not a valid selector operator"),
    }
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.extend(validate_spec(new));
    let scopes = |quota: &Object| -> BTreeSet<String> {
        At::top(quota, "spec").field("scopes").items().map(|scope| scope.text().to_owned()).collect()
    };
    if scopes(new) != scopes(old) {
        errors.invalid(&At::top(new, "spec").field("scopes"), IMMUTABLE);
    }
    errors.into_vec()
}
