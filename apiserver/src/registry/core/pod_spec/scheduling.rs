//! Taints and tolerations, gates.

use std::collections::BTreeSet;

use quorate_api::validate as names;
use serde_json::Value;

use super::super::super::rules::{At, Errors};
use super::super::super::selectors;

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const OPERATORS: &[&str] = &["Equal", "Exists"];
const TAINT_TWICE: &str = "taints must be unique by key and effect pair";
const TOLERATION_CHANGED: &str = "existing toleration can not be modified except its tolerationSeconds";

pub(super) fn tolerations(all: &At<'_>, errors: &mut Errors) {
    for toleration in all.items() {
        let (key, operator) = (toleration.field("key"), toleration.field("operator"));
        let (value, effect) = (toleration.field("value"), toleration.field("effect"));
        if !key.is_empty() {
            selectors::label_name(&key, errors);
        } else if operator.text() != "Exists" {
            errors.invalid_value(
                &operator,
                operator.text(),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if toleration.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid_value(&effect, effect.text(), detail);
        }
        match operator.text() {
            "" | "Equal" => {
                let messages = names::label_value(value.text());
                if !messages.is_empty() {
                    errors.invalid_value(&operator, value.text(), messages.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.invalid_value(&operator, value.text(), "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            _ => errors.not_supported(&operator, OPERATORS),
        }
        if !effect.is_empty() {
            errors.one_of(&effect, EFFECTS);
        }
    }
}

/// Of the old tolerations only the seconds may have changed; new ones may come.
pub(crate) fn only_added_tolerations(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let kept: Vec<Value> = new.items().map(without_seconds).collect();
    if old.items().map(without_seconds).any(|toleration| !kept.contains(&toleration)) {
        return errors.forbidden(new, TOLERATION_CHANGED);
    }
    tolerations(new, errors);
}

fn without_seconds(toleration: At<'_>) -> Value {
    let mut toleration = toleration.value().cloned().unwrap_or_default();
    if let Some(fields) = toleration.as_object_mut() {
        fields.remove("tolerationSeconds");
    }
    toleration
}

pub(super) fn gates(all: &At<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for gate in all.items() {
        let name = gate.field("name").filed_under(&gate);
        errors.invalid_each(&name, names::qualified_name(name.text()));
        if !taken.insert(name.text()) {
            errors.duplicate(&name);
        }
    }
}

pub(crate) fn only_removed_gates(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let before: BTreeSet<&str> = old.items().map(|gate| gate.field("name").text()).collect();
    for gate in new.items() {
        let name = gate.field("name");
        if !before.contains(name.text()) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", name.text());
            errors.forbidden(&name, detail);
        }
    }
}

pub(super) fn readiness_gates(all: &At<'_>, errors: &mut Errors) {
    for gate in all.items() {
        let kind = gate.field("conditionType");
        errors.invalid_each(&kind, names::qualified_name(kind.text()));
    }
}

/// The taints of a node.
pub(crate) fn taints(all: &At<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for taint in all.items() {
        let (key, value, effect) = (taint.field("key"), taint.field("value"), taint.field("effect"));
        selectors::label_name(&key, errors);
        let messages = names::label_value(value.text());
        if !messages.is_empty() {
            errors.invalid(&value, messages.join(";"));
        }
        errors.need_one_of(&effect, EFFECTS);
        if !taken.insert((key.text(), effect.text())) {
            errors.duplicate_because(&taint, TAINT_TWICE);
        }
    }
}
