//! Deployment: replicated pods, replaced step by step when their template changes.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Value, json};

use super::super::core::pod_spec::{defaults, warnings};
use super::super::defaulting::{default_text, default_value, ensure, text as text_of};
use super::super::display::{
    AGE, CONTAINERS, IMAGES, NAME, SELECTOR, age, containers_and_images, label_selector, name, number_at, text,
};
use super::super::keep::keep_in_metadata;
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Dependents, Generation, Strategy};
use super::super::{int_or_percent, replicas};

const HISTORY_LIMIT: i64 = 10;
const PROGRESS_SECONDS: i64 = 600;
const STEP: &str = "25%";
const TYPES: &[&str] = &["Recreate", "RollingUpdate"];

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    validate_create,
    validate_update,
    warnings: |new, old| warnings::workload(new, old, &warnings::spec_template(new), true),
    validate_status,
    columns: COLUMNS,
    cells,
    generation: Generation::OnSpecOrAnnotations,
    prepare_status: |new, old| keep_in_metadata(new, old, "labels"),
    dependents: Dependents::DeletedBut(&["extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"]),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text("Ready", "How many pods are ready, of how many."),
    text("Up-to-date", "How many pods have the newest template."),
    text("Available", "How many pods have been ready for long enough."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn cells(deployment: &Object, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers_and_images(deployment, "/spec/template/spec");
    let count = |pointer: &str| number_at(deployment, pointer);
    let selector = label_selector(deployment.get("/spec/selector"));
    vec![
        name(deployment),
        Value::from(format!("{}/{}", count("/status/readyReplicas"), count("/spec/replicas"))),
        Value::from(count("/status/updatedReplicas")),
        Value::from(count("/status/availableReplicas")),
        age(deployment, now),
        containers,
        images,
        Value::from(selector),
    ]
}

fn default(deployment: &mut Object) {
    let spec = ensure(deployment.as_map_mut(), "spec");
    default_value(spec, "replicas", 1);
    default_value(spec, "revisionHistoryLimit", HISTORY_LIMIT);
    default_value(spec, "progressDeadlineSeconds", PROGRESS_SECONDS);
    let Some(fields) = spec.as_object_mut() else { return };
    let strategy = ensure(fields, "strategy");
    default_text(strategy, "type", "RollingUpdate");
    if text_of(strategy, "type") == "RollingUpdate"
        && let Some(strategy) = strategy.as_object_mut()
    {
        let rolling = ensure(strategy, "rollingUpdate");
        default_value(rolling, "maxUnavailable", STEP);
        default_value(rolling, "maxSurge", STEP);
    }
    defaults::template(ensure(fields, "template"));
}

fn validate_create(deployment: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(deployment, "spec");
    errors.not_negative(&spec.field("replicas"));
    replicas::selector(&spec, "deployment", &mut errors);
    replicas::template(&spec, "ReplicaSet", &mut errors);
    strategy(&spec.field("strategy"), &mut errors);
    errors.not_negative(&spec.field("minReadySeconds"));
    errors.not_negative(&spec.field("revisionHistoryLimit"));
    let deadline = spec.field("progressDeadlineSeconds");
    errors.not_negative(&deadline);
    if deadline.integer().is_some_and(|seconds| seconds <= spec.field("minReadySeconds").number()) {
        errors.invalid(&deadline, "must be greater than minReadySeconds");
    }
    errors.into_vec()
}

fn strategy(at: &At<'_>, errors: &mut Errors) {
    let rolling = at.field("rollingUpdate");
    match at.field("type").text() {
        "Recreate" if rolling.is_set() => {
            errors.forbidden(&rolling, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" => rolling_update(&rolling, errors),
        _ => {
            let whole = at.value().cloned().unwrap_or_else(|| json!({}));
            errors.push(FieldError::not_supported(at.path(), whole, TYPES));
        }
    }
}

/// Fewer pods or more pods than wanted for a while: one of them must be allowed.
fn rolling_update(at: &At<'_>, errors: &mut Errors) {
    let (fewer, more) = (at.field("maxUnavailable"), at.field("maxSurge"));
    int_or_percent::not_negative(&fewer, errors);
    int_or_percent::not_negative(&more, errors);
    if int_or_percent::magnitude(&fewer) == 0 && int_or_percent::magnitude(&more) == 0 {
        errors.invalid(&fewer, "may not be 0 when `maxSurge` is 0");
    }
    int_or_percent::at_most_all(&fewer, errors);
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.extend(validate_create(new));
    replicas::fixed_selector(new, old, &mut errors);
    errors.into_vec()
}

fn validate_status(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let status = At::top(new, "status");
    for count in [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "collisionCount",
    ] {
        errors.not_negative(&status.field(count));
    }
    let whole = "cannot be greater than status.replicas";
    for part in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        replicas::at_most(&status, part, "replicas", whole, &mut errors);
    }
    replicas::at_most(
        &status,
        "availableReplicas",
        "readyReplicas",
        "cannot be greater than readyReplicas",
        &mut errors,
    );
    let collisions = status.field("collisionCount");
    if collisions.number() < At::top(old, "status").field("collisionCount").number() {
        errors.invalid_value(&collisions, collisions.number(), "cannot be decremented");
    }
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{check, check_update, pod_spec, row, status_faults, stored, with};
    use super::*;

    fn deployment() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}},
        })
    }

    #[test]
    fn the_shortest_deployment_is_filled_in() {
        assert_eq!(
            stored(&STRATEGY, deployment()),
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
                "spec": {
                    "replicas": 1,
                    "revisionHistoryLimit": 10,
                    "progressDeadlineSeconds": 600,
                    "selector": {"matchLabels": {"app": "web"}},
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()},
                },
                "status": {},
            })
        );
    }

    #[test]
    fn deployments_are_judged() {
        check(
            &STRATEGY,
            &deployment(),
            &[
                ("/spec/selector", json!(null), &["spec.selector: Required value"]),
                (
                    "/spec/selector",
                    json!({}),
                    &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
                ),
                (
                    "/spec/selector/matchLabels",
                    json!({"app": "db"}),
                    &[
                        "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
                    ],
                ),
                (
                    "/spec/strategy",
                    json!({"type": "Recreate", "rollingUpdate": {}}),
                    &[
                        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
                    ],
                ),
                (
                    "/spec/strategy",
                    json!({"type": "Slow"}),
                    &[
                        "spec.strategy: Unsupported value: {\"type\":\"Slow\"}: supported values: \"Recreate\", \"RollingUpdate\"",
                    ],
                ),
                (
                    "/spec/strategy",
                    json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}),
                    &[
                        "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
                    ],
                ),
                (
                    "/spec/strategy",
                    json!({"rollingUpdate": {"maxUnavailable": "many", "maxSurge": "200%"}}),
                    &[
                        "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"many\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                    ],
                ),
                (
                    "/spec/progressDeadlineSeconds",
                    json!(0),
                    &["spec.progressDeadlineSeconds: Invalid value: 0: must be greater than minReadySeconds"],
                ),
            ],
        );
    }

    #[test]
    fn templates_and_changes_are_judged() {
        check(
            &STRATEGY,
            &deployment(),
            &[
                (
                    "/spec/template/spec/activeDeadlineSeconds",
                    json!(5),
                    &[
                        "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
                    ],
                ),
                (
                    "/spec/template/spec/ephemeralContainers",
                    json!([{"name": "e", "image": "i"}]),
                    &[
                        "spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template",
                    ],
                ),
            ],
        );
        check_update(
            &STRATEGY,
            &deployment(),
            &[
                ("/spec/replicas", json!(5), &[]),
                (
                    "/spec/selector",
                    json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
                    &[
                        "spec.selector: Invalid value: {\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"Exists\"}]}: field is immutable",
                    ],
                ),
            ],
        );
        let old = with(&stored(&STRATEGY, deployment()), "/status", json!({"collisionCount": 2}));
        assert_eq!(
            status_faults(&STRATEGY, &old, json!({"replicas": 1, "availableReplicas": 1, "collisionCount": 1})),
            [
                "status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas",
                "status.collisionCount: Invalid value: 1: cannot be decremented",
            ]
        );
    }

    #[test]
    fn rows() {
        let status = json!({"replicas": 3, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1});
        let three = with(&with(&deployment(), "/spec/replicas", json!(3)), "/status", status);
        assert_eq!(
            row(&STRATEGY, three),
            [
                json!("web"),
                json!("1/3"),
                json!(2),
                json!(1),
                json!("10m"),
                json!("c"),
                json!("busybox:1"),
                json!("app=web"),
            ]
        );
    }
}
