//! PodDisruptionBudget: how many of some pods may be away at once.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::Value;

use super::super::display::{AGE, NAME, age, integer, name, number_at, text};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Generation, Strategy};
use super::super::{int_or_percent, selectors};

const EVICTION_POLICIES: &[&str] = &["AlwaysAllow", "IfHealthyBudget"];
const NOT_SET: &str = "N/A";

pub(crate) static STRATEGY: Strategy = Strategy {
    validate_create,
    validate_update: |new, _| validate_create(new),
    validate_status: |new, _| {
        let mut errors = Errors::default();
        let status = At::top(new, "status");
        for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            errors.not_negative(&status.field(count));
        }
        errors.into_vec()
    },
    columns: COLUMNS,
    cells,
    allow_unconditional_update: false,
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text("Min Available", "How many pods must be there."),
    text("Max Unavailable", "How many pods may be away."),
    integer("Allowed Disruptions", "How many pods may go now."),
    AGE,
];

fn cells(budget: &Object, now: Timestamp) -> Vec<Value> {
    vec![
        name(budget),
        Value::from(int_or_percent::shown(budget.get("/spec/minAvailable"), NOT_SET)),
        Value::from(int_or_percent::shown(budget.get("/spec/maxUnavailable"), NOT_SET)),
        Value::from(number_at(budget, "/status/disruptionsAllowed")),
        age(budget, now),
    ]
}

fn validate_create(budget: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(budget, "spec");
    let bounds = ["minAvailable", "maxUnavailable"].map(|field| spec.field(field));
    if bounds.iter().all(At::is_set) {
        errors.invalid(&spec, "minAvailable and maxUnavailable cannot be both set");
    }
    for bound in &bounds {
        int_or_percent::not_negative(bound, &mut errors);
        int_or_percent::at_most_all(bound, &mut errors);
    }
    selectors::label_selector(&spec.field("selector"), &mut errors);
    errors.if_set_one_of(&spec.field("unhealthyPodEvictionPolicy"), EVICTION_POLICIES);
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, row, stored, with};
    use super::*;

    fn budget() -> Value {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "nginx", "namespace": "default"},
            "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "nginx"}}},
        })
    }

    #[test]
    fn budgets_are_judged_and_shown() {
        let stored = stored(&STRATEGY, budget());
        assert_eq!(stored["spec"], budget()["spec"]);
        let shown = with(&stored, "/status", json!({"disruptionsAllowed": 1}));
        assert_eq!(row(&STRATEGY, shown), [json!("nginx"), json!("3"), json!("N/A"), json!(1), json!("10m")]);
        check(
            &STRATEGY,
            &budget(),
            &[
                (
                    "/spec",
                    json!({"minAvailable": 1, "maxUnavailable": "150%"}),
                    &[
                        "spec: Invalid value: {\"maxUnavailable\":\"150%\",\"minAvailable\":1}: minAvailable and maxUnavailable cannot be both set",
                        "spec.maxUnavailable: Invalid value: \"150%\": must not be greater than 100%",
                    ],
                ),
                (
                    "/spec/unhealthyPodEvictionPolicy",
                    json!("Never"),
                    &[
                        "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
                    ],
                ),
            ],
        );
    }
}
