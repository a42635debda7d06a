//! LimitRange: bounds and defaults for the resources of a namespace's pods and claims.

use std::collections::BTreeSet;

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::Value;

use super::super::defaulting::{each, ensure, text};
use super::super::display;
use super::super::rules::{At, Errors};
use super::super::strategy::Strategy;
use super::pod_spec::resources::{container_resource_name, may_overcommit, quantity, resource_name};

const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];
const NOT_FOR_PODS: &str = "may not be specified when `type` is 'Pod'";

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    validate_create,
    validate_update: |new, _| validate_create(new),
    columns: display::CREATED_AT_COLUMNS,
    cells: display::created_at_cells,
    allow_create_on_update: true,
    ..Strategy::DEFAULT
};

/// For containers: the default limit is the maximum, the default request the default limit, else the minimum.
fn default(range: &mut Object) {
    each(ensure(range.as_map_mut(), "spec"), "limits", |limit| {
        if text(limit, "type") != "Container" {
            return;
        }
        for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
            let amounts = limit.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
            let Some(fields) = limit.as_object_mut().filter(|_| !amounts.is_empty()) else { continue };
            if let Some(target) = ensure(fields, to).as_object_mut() {
                for (name, amount) in amounts {
                    target.entry(name).or_insert(amount);
                }
            }
        }
    });
}

fn validate_create(range: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let mut taken = BTreeSet::new();
    for limit in At::top(range, "spec").field("limits").items() {
        let kind = limit.field("type");
        type_name(&kind, &mut errors);
        if !taken.insert(kind.text()) {
            errors.duplicate(&kind);
        }
        one(&limit, &mut errors);
    }
    errors.into_vec()
}

fn type_name(at: &At<'_>, errors: &mut Errors) {
    let messages = names::qualified_name(at.text());
    let fine = messages.is_empty();
    errors.invalid_each(at, messages);
    if fine && !at.text().contains('/') && !TYPES.contains(&at.text()) {
        errors.invalid(at, "must be a standard limit type or fully qualified");
    }
}

fn one(limit: &At<'_>, errors: &mut Errors) {
    let kind = limit.field("type").text();
    let mut resources = BTreeSet::new();
    for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let amounts = limit.field(list);
        if kind == "Pod" && matches!(list, "default" | "defaultRequest") {
            if !amounts.is_empty() {
                errors.forbidden(&amounts, NOT_FOR_PODS);
            }
            continue;
        }
        for (name, at) in amounts.entries() {
            if matches!(kind, "Pod" | "Container") {
                container_resource_name(name, &at, errors);
            } else {
                resource_name(name, &at, errors);
            }
            resources.insert(name);
        }
    }
    let storage = |list: &str| limit.field(list).key("storage").is_set();
    if kind == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&limit.field("limits"), detail);
    }
    for name in resources {
        order(limit, name, errors);
    }
}

/// minimum ≤ default request ≤ default limit ≤ maximum, as far as they are given.
fn order(limit: &At<'_>, name: &str, errors: &mut Errors) {
    let of = |list: &str| quantity(&limit.field(list).key(name));
    let pairs = [
        ("min", "min", "max", "max", "min"),
        ("min", "min", "defaultRequest", "default request", "defaultRequest"),
        ("defaultRequest", "default request", "max", "max", "defaultRequest"),
        ("defaultRequest", "default request", "default", "default limit", "defaultRequest"),
        ("min", "min", "default", "default", "default"),
        ("default", "default", "max", "max", "default"),
    ];
    for (low, low_word, high, high_word, shown) in pairs {
        let (Some(less), Some(more)) = (of(low), of(high)) else { continue };
        if less > more {
            let detail = format!("{low_word} value {less} is greater than {high_word} value {more}");
            errors.invalid(&limit.field(shown).key(name), detail);
        }
    }
    let ratio = of("maxLimitRequestRatio");
    if let Some(ratio) = ratio.filter(|ratio| ratio.milli_value() < 1000) {
        errors.invalid(&limit.field("maxLimitRequestRatio").key(name), format!("ratio {ratio} is less than 1"));
    }
    if let (Some(default), Some(request)) = (of("default"), of("defaultRequest"))
        && !may_overcommit(name)
        && default != request
    {
        let detail = format!("default value {default} must equal to defaultRequest value {request} in {name}");
        errors.invalid(&limit.field("defaultRequest").key(name), detail);
    }
}
