//! Admission policies and their bindings, validating and mutating.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Value, json};

use super::super::defaulting::{default_value, ensure, with};
use super::super::display::{AGE, NAME, UNSET, age, count_at, integer, label_selector, name, text, text_at};
use super::super::keep::keep_metadata;
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Generation, Strategy};

const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

pub(crate) static VALIDATING: Strategy = Strategy {
    prepare_status: keep_metadata,
    default: default_policy,
    validate_create: |policy| validate_policy(policy, "validations"),
    validate_update: |new, _| validate_policy(new, "validations"),
    columns: &[
        NAME,
        integer("Validations", "How many rules it has."),
        text("ParamKind", "What sets its parameters."),
        AGE,
    ],
    cells: |policy, now| policy_cells(policy, "/spec/validations", now),
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};

pub(crate) static MUTATING: Strategy = Strategy {
    validate_create: |policy| validate_policy(policy, "mutations"),
    validate_update: |new, _| validate_policy(new, "mutations"),
    columns: &[
        NAME,
        integer("Mutations", "How many changes it makes."),
        text("ParamKind", "What sets its parameters."),
        AGE,
    ],
    cells: |policy, now| policy_cells(policy, "/spec/mutations", now),
    ..VALIDATING
};

pub(crate) static VALIDATING_BINDING: Strategy = Strategy {
    default: default_binding,
    validate_create: |binding| {
        let mut errors = Errors::default();
        validate_binding(binding, &mut errors);
        let actions = At::top(binding, "spec").field("validationActions");
        errors.need(&actions);
        for action in actions.items() {
            errors.one_of(&action, ACTIONS);
        }
        errors.into_vec()
    },
    columns: BINDING_COLUMNS,
    cells: binding_cells,
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};

pub(crate) static MUTATING_BINDING: Strategy = Strategy {
    validate_create: |binding| {
        let mut errors = Errors::default();
        validate_binding(binding, &mut errors);
        errors.into_vec()
    },
    ..VALIDATING_BINDING
};

const BINDING_COLUMNS: &[Column] =
    &[NAME, text("PolicyName", "The policy it applies."), text("ParamRef", "Its parameters."), AGE];

fn policy_cells(policy: &Object, rules: &str, now: Timestamp) -> Vec<Value> {
    let kind = match policy.get("/spec/paramKind") {
        Some(_) => {
            format!("{}/{}", text_at(policy, "/spec/paramKind/apiVersion"), text_at(policy, "/spec/paramKind/kind"))
        }
        None => UNSET.to_owned(),
    };
    vec![name(policy), Value::from(count_at(policy, rules)), Value::from(kind), age(policy, now)]
}

fn binding_cells(binding: &Object, now: Timestamp) -> Vec<Value> {
    let (own, namespace) = (text_at(binding, "/spec/paramRef/name"), text_at(binding, "/spec/paramRef/namespace"));
    let parameters = match (own, namespace, binding.get("/spec/paramRef/selector")) {
        ("", _, None) => UNSET.to_owned(),
        ("", _, Some(selector)) => label_selector(Some(selector)),
        (own, "", _) => format!("*/{own}"),
        (own, namespace, _) => format!("{namespace}/{own}"),
    };
    let policy = Value::from(text_at(binding, "/spec/policyName"));
    vec![name(binding), policy, Value::from(parameters), age(binding, now)]
}

fn default_policy(policy: &mut Object) {
    let spec = ensure(policy.as_map_mut(), "spec");
    default_value(spec, "failurePolicy", "Fail");
    with(spec, "matchConstraints", default_match);
}

fn default_binding(binding: &mut Object) {
    let spec = ensure(binding.as_map_mut(), "spec");
    with(spec, "matchResources", default_match);
}

fn default_match(resources: &mut Value) {
    default_value(resources, "matchPolicy", "Equivalent");
    default_value(resources, "namespaceSelector", json!({}));
    default_value(resources, "objectSelector", json!({}));
}

fn validate_policy(policy: &Object, rules: &str) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(policy, "spec");
    errors.if_set_one_of(&spec.field("failurePolicy"), FAILURE_POLICIES);
    let constraints = spec.field("matchConstraints");
    if errors.need(&constraints) {
        errors.need(&constraints.field("resourceRules"));
    }
    if spec.field(rules).is_empty() && spec.field("auditAnnotations").is_empty() {
        let detail = format!("{rules} or auditAnnotations must contain at least one item");
        errors.required(&spec.field(rules), &detail);
    }
    for rule in spec.field("validations").items() {
        if rule.field("expression").text().trim().is_empty() {
            errors.required(&rule.field("expression"), "expression is not specified");
        }
    }
    errors.into_vec()
}

fn validate_binding(binding: &Object, errors: &mut Errors) {
    errors.need(&At::top(binding, "spec").field("policyName"));
}
