//! PriorityClass: a name for a priority.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::Value;

use super::super::display::{AGE, NAME, age, bool_at, boolean, integer, name, number_at, text, text_at};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Generation, Strategy};

const HIGHEST_OF_USERS: i64 = 1_000_000_000;
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
const POLICIES: &[&str] = &["Never", "PreemptLowerPriority"];

pub(crate) static STRATEGY: Strategy = Strategy {
    default: |class| {
        class.as_map_mut().entry("preemptionPolicy").or_insert_with(|| Value::from("PreemptLowerPriority"));
    },
    validate_create,
    validate_update,
    columns: COLUMNS,
    cells,
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    integer("Value", "The priority; higher goes first."),
    boolean("Global-Default", "Whether it is for pods that name none."),
    AGE,
    text("PreemptionPolicy", "Whether its pods make room for themselves."),
];

fn cells(class: &Object, now: Timestamp) -> Vec<Value> {
    vec![
        name(class),
        Value::from(number_at(class, "/value")),
        Value::from(bool_at(class, "/globalDefault").unwrap_or_default()),
        age(class, now),
        Value::from(text_at(class, "/preemptionPolicy")),
    ]
}

fn validate_create(class: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let value = At::top(class, "value");
    if class.name().starts_with("system-") {
        if !SYSTEM_CLASSES.contains(&(class.name(), value.number())) {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {} is not a \
                 known system priority class",
                class.name()
            );
            errors.forbidden(&At::top(class, "metadata").field("name"), detail);
        }
    } else if value.number() > HIGHEST_OF_USERS {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}");
        errors.forbidden(&value, detail);
    }
    errors.if_set_one_of(&At::top(class, "preemptionPolicy"), POLICIES);
    errors.into_vec()
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    if number_at(new, "/value") != number_at(old, "/value") {
        errors.forbidden(&At::top(new, "value"), "may not be changed in an update.");
    }
    errors.immutable(&At::top(new, "preemptionPolicy"), &At::top(old, "preemptionPolicy"));
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, check_update, row, stored};
    use super::*;

    fn class() -> Value {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    }

    #[test]
    fn classes_are_judged() {
        check(
            &STRATEGY,
            &class(),
            &[
                (
                    "/value",
                    json!(1_000_000_001),
                    &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
                ),
                (
                    "/metadata/name",
                    json!("system-x"),
                    &[
                        "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use \
                       only. error: system-x is not a known system priority class",
                    ],
                ),
            ],
        );
        check_update(
            &STRATEGY,
            &class(),
            &[
                ("/value", json!(1), &["value: Forbidden: may not be changed in an update."]),
                (
                    "/preemptionPolicy",
                    json!("Never"),
                    &["preemptionPolicy: Invalid value: \"Never\": field is immutable"],
                ),
            ],
        );
    }

    #[test]
    fn a_row() {
        let cells = row(&STRATEGY, stored(&STRATEGY, class()));
        assert_eq!(json!(cells), json!(["high", 1000, false, "10m", "PreemptLowerPriority"]));
    }
}
