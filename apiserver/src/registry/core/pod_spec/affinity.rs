//! Affinity to nodes and to other pods, and spreading.

use std::collections::BTreeSet;

use quorate_api::validate as names;
use serde_json::Value;

use super::super::super::rules::{At, Errors, NOT_POSITIVE};
use super::super::super::selectors;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const UNSATISFIABLE: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];
const INCLUSION: &[&str] = &["Honor", "Ignore"];
const NO_SELECTOR: &str = "must not be specified when labelSelector is not set";

pub(super) fn validate(affinity: &At<'_>, errors: &mut Errors) {
    node(&affinity.field("nodeAffinity"), errors);
    pod(&affinity.field("podAffinity"), errors);
    pod(&affinity.field("podAntiAffinity"), errors);
}

fn node(at: &At<'_>, errors: &mut Errors) {
    if at.field(REQUIRED).is_set() {
        node_selector(&at.field(REQUIRED), errors);
    }
    for term in at.field(PREFERRED).items() {
        weight(&term.field("weight"), errors);
        // A label value that no node can have may be preferred, but not required.
        node_selector_term(&term.field("preference"), false, errors);
    }
}

fn weight(at: &At<'_>, errors: &mut Errors) {
    if !(1..=100).contains(&at.number()) {
        errors.invalid_value(at, at.number(), "must be in the range 1-100");
    }
}

pub(crate) fn node_selector(at: &At<'_>, errors: &mut Errors) {
    let terms = at.field("nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(&terms, "must have at least one node selector term");
    }
    for term in terms.items() {
        node_selector_term(&term, true, errors);
    }
}

fn node_selector_term(term: &At<'_>, judge_values: bool, errors: &mut Errors) {
    for requirement in term.field("matchExpressions").items() {
        label_requirement(&requirement, judge_values, errors);
    }
    for requirement in term.field("matchFields").items() {
        field_requirement(&requirement, errors);
    }
}

fn label_requirement(at: &At<'_>, judge_values: bool, errors: &mut Errors) {
    let (operator, values) = (at.field("operator"), at.field("values"));
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid_value(&operator, other, "not a valid selector operator"),
    }
    selectors::label_name(&at.field("key"), errors);
    if judge_values {
        selectors::label_values(&values, errors);
    }
}

/// Of a node's fields only the name can be selected.
fn field_requirement(at: &At<'_>, errors: &mut Errors) {
    let (key, operator, values) = (at.field("key"), at.field("operator"), at.field("values"));
    match operator.text() {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(&values, detail);
        }
        "In" | "NotIn" => {}
        other => errors.invalid_value(&operator, other, "not a valid selector operator"),
    }
    if key.text() != "metadata.name" {
        return errors.invalid_value(&key, key.text(), "not a valid field selector key");
    }
    for value in values.items() {
        errors.invalid_each(&value, names::name_is_dns_subdomain(value.text(), false));
    }
}

fn pod(at: &At<'_>, errors: &mut Errors) {
    for term in at.field(REQUIRED).items() {
        pod_term(&term, errors);
    }
    for weighted in at.field(PREFERRED).items() {
        weight(&weighted.field("weight"), errors);
        pod_term(&weighted.field("podAffinityTerm"), errors);
    }
}

fn pod_term(term: &At<'_>, errors: &mut Errors) {
    let selector = term.field("labelSelector");
    selectors::label_selector(&selector, errors);
    selectors::label_selector(&term.field("namespaceSelector"), errors);
    for name in term.field("namespaces").items() {
        let at = name.filed_under(&term.field("namespace"));
        errors.invalid_each(&at, names::dns1123_label(name.text()));
    }
    let (matching, mismatching) = (term.field("matchLabelKeys"), term.field("mismatchLabelKeys"));
    for keys in [&matching, &mismatching] {
        if !keys.is_empty() && !selector.is_set() {
            errors.forbidden(keys, NO_SELECTOR);
            continue;
        }
        keys.items().for_each(|key| selectors::label_name(&key, errors));
    }
    let mismatched: BTreeSet<&str> = mismatching.items().map(|key| key.text()).collect();
    for key in matching.items().filter(|key| mismatched.contains(key.text())) {
        errors.invalid(&key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
    let topology = term.field("topologyKey");
    if topology.is_empty() {
        errors.required(&topology, "can not be empty");
    }
    selectors::label_name(&topology, errors);
}

pub(super) fn topology_spread(constraints: &At<'_>, errors: &mut Errors) {
    let all: Vec<At<'_>> = constraints.items().collect();
    for (index, constraint) in all.iter().enumerate() {
        let (skew, topology) = (constraint.field("maxSkew"), constraint.field("topologyKey"));
        let action = constraint.field("whenUnsatisfiable");
        if skew.number() <= 0 {
            errors.invalid_value(&skew, skew.number(), NOT_POSITIVE);
        }
        if topology.is_empty() {
            errors.required(&topology, "can not be empty");
        }
        errors.one_of(&action, UNSATISFIABLE);
        let repeats = |other: &At<'_>| {
            other.field("topologyKey").text() == topology.text()
                && other.field("whenUnsatisfiable").text() == action.text()
        };
        if all[index + 1..].iter().any(repeats) {
            let at = constraint.field("{topologyKey, whenUnsatisfiable}");
            errors.duplicate_value(&at, format!("{{{}, {}}}", topology.text(), action.text()));
        }
        min_domains(constraint, errors);
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            errors.if_set_one_of(&constraint.field(policy), INCLUSION);
        }
        spread_label_keys(constraint, errors);
        selectors::label_selector(&constraint.field("labelSelector"), errors);
    }
}

fn min_domains(constraint: &At<'_>, errors: &mut Errors) {
    let at = constraint.field("minDomains");
    let Some(domains) = at.integer() else { return };
    if domains <= 0 {
        errors.invalid(&at, NOT_POSITIVE);
    }
    let action = constraint.field("whenUnsatisfiable").text();
    if action != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.invalid(&at, detail);
    }
}

fn spread_label_keys(constraint: &At<'_>, errors: &mut Errors) {
    let keys = constraint.field("matchLabelKeys");
    if keys.is_empty() {
        return;
    }
    let selector = constraint.field("labelSelector");
    if !selector.is_set() {
        errors.forbidden(&keys, NO_SELECTOR);
    }
    for key in keys.items() {
        selectors::label_name(&key, errors);
        if selects_by_itself(&selector, key.text()) {
            errors.invalid(&key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

/// Whether the selector names the key beyond the one requirement that the key itself has brought in.
fn selects_by_itself(selector: &At<'_>, key: &str) -> bool {
    let requirements = selector.field("matchExpressions");
    let named = requirements.items().filter(|requirement| requirement.field("key").text() == key).count();
    let brought = requirements.items().any(|requirement| {
        let one_value = requirement.field("values").len() == 1;
        requirement.field("key").text() == key && requirement.field("operator").text() == "In" && one_value
    });
    selector.field("matchLabels").key(key).is_set() || named > usize::from(brought)
}

/// While a pod is gated its required node affinity may only grow narrower.
pub(crate) fn only_narrowed(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let required = required_terms(new);
    let before: Vec<At<'_>> = required_terms(old).items().collect();
    let after: Vec<At<'_>> = required.items().collect();
    if !before.is_empty() && before.len() != after.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid(&required, detail);
    }
    for (new, old) in after.iter().zip(&before) {
        if !only_additions(new, old) {
            errors.invalid(new, "only additions are allowed (no mutations or deletions)");
        }
    }
}

fn required_terms<'a>(affinity: &At<'a>) -> At<'a> {
    affinity.field(REQUIRED).field("nodeSelectorTerms")
}

fn only_additions(new: &At<'_>, old: &At<'_>) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let list = |term: &At<'_>, name: &str| -> Vec<Value> {
        term.field(name).value().and_then(Value::as_array).cloned().unwrap_or_default()
    };
    if lists.iter().all(|name| list(old, name).is_empty()) {
        return lists.iter().all(|name| list(new, name).is_empty());
    }
    lists.iter().all(|name| list(new, name).starts_with(&list(old, name)))
}
