//! Lease: who holds something, and since when.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::Value;

use super::super::display::{AGE, NAME, age, name, text, text_at};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Strategy};

pub(crate) static STRATEGY: Strategy = Strategy {
    validate_create,
    validate_update: |new, _| validate_create(new),
    columns: COLUMNS,
    cells,
    allow_create_on_update: true,
    allow_unconditional_update: false,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[NAME, text("Holder", "Who holds it."), AGE];

fn cells(lease: &Object, now: Timestamp) -> Vec<Value> {
    vec![name(lease), Value::from(text_at(lease, "/spec/holderIdentity")), age(lease, now)]
}

fn validate_create(lease: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(lease, "spec");
    let duration = spec.field("leaseDurationSeconds");
    if duration.integer().is_some_and(|seconds| seconds <= 0) {
        errors.invalid(&duration, "must be greater than 0");
    }
    errors.not_negative(&spec.field("leaseTransitions"));
    let (strategy, preferred) = (spec.field("strategy"), spec.field("preferredHolder"));
    if strategy.is_set() && !strategy.text().contains('/') {
        errors.one_of(&strategy, &["OldestEmulationVersion"]);
    } else if strategy.is_set() {
        errors.invalid_each(&strategy, names::qualified_name(strategy.text()));
    }
    if preferred.is_set() && strategy.is_empty() {
        errors.forbidden(&preferred, "may only be specified when `strategy` is defined");
    }
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, row, stored};
    use super::*;

    fn lease() -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "n1", "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": "n1", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000001Z"},
        })
    }

    #[test]
    fn leases_are_stored_as_they_are_and_judged() {
        assert_eq!(stored(&STRATEGY, lease()), lease());
        assert_eq!(row(&STRATEGY, lease()), ["n1", "n1", "10m"]);
        check(
            &STRATEGY,
            &lease(),
            &[
                (
                    "/spec/leaseDurationSeconds",
                    json!(0),
                    &["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
                ),
                (
                    "/spec/leaseTransitions",
                    json!(-1),
                    &["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"],
                ),
                (
                    "/spec/preferredHolder",
                    json!("n2"),
                    &["spec.preferredHolder: Forbidden: may only be specified when `strategy` is defined"],
                ),
            ],
        );
    }
}
