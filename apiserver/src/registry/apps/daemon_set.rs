//! DaemonSet: one pod on each node.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Value, json};

use super::super::core::pod_spec::{defaults, template, warnings};
use super::super::defaulting::{default_text, default_value, ensure, text as text_of};
use super::super::display::{
    AGE, CONTAINERS, IMAGES, NAME, SELECTOR, age, containers_and_images, integer, label_selector, labels, name,
    number_at, text,
};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Dependents, Generation, Strategy};
use super::super::{int_or_percent, replicas, selectors};

const HISTORY_LIMIT: i64 = 10;
const TYPES: &[&str] = &["RollingUpdate", "OnDelete"];

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |set| {
        let status = json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        });
        set.as_map_mut().insert("status".to_owned(), status);
    },
    validate_create,
    validate_update,
    warnings: |new, old| warnings::workload(new, old, &warnings::spec_template(new), false),
    validate_status,
    columns: COLUMNS,
    cells,
    generation: Generation::OnSpecChange,
    dependents: Dependents::DeletedBut(&["extensions/v1beta1", "apps/v1beta2"]),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    integer("Desired", "How many nodes should run its pod."),
    integer("Current", "How many of them do."),
    integer("Ready", "On how many the pod is ready."),
    integer("Up-to-date", "On how many the pod has the newest template."),
    integer("Available", "On how many the pod has been ready for long enough."),
    text("Node Selector", "Which nodes it is for."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn cells(set: &Object, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers_and_images(set, "/spec/template/spec");
    let count = |field: &str| Value::from(number_at(set, &format!("/status/{field}")));
    vec![
        name(set),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        Value::from(labels(set.get("/spec/template/spec/nodeSelector"))),
        age(set, now),
        containers,
        images,
        Value::from(label_selector(set.get("/spec/selector"))),
    ]
}

fn default(set: &mut Object) {
    let spec = ensure(set.as_map_mut(), "spec");
    default_value(spec, "revisionHistoryLimit", HISTORY_LIMIT);
    let Some(fields) = spec.as_object_mut() else { return };
    let strategy = ensure(fields, "updateStrategy");
    default_text(strategy, "type", "RollingUpdate");
    if text_of(strategy, "type") == "RollingUpdate"
        && let Some(strategy) = strategy.as_object_mut()
    {
        let rolling = ensure(strategy, "rollingUpdate");
        default_value(rolling, "maxUnavailable", 1);
        default_value(rolling, "maxSurge", 0);
    }
    defaults::template(ensure(fields, "template"));
}

fn validate_create(set: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(set, "spec");
    let (selector, pods) = (spec.field("selector"), spec.field("template"));
    selectors::label_selector(&selector, &mut errors);
    replicas::template_labels(&spec, &pods, &mut errors);
    if !selector.is_set() {
        errors.required(&selector, "");
    } else if selectors::is_empty_selector(&selector) {
        errors.invalid(&selector, "empty selector is invalid for daemonset");
    }
    template::validate(&pods, &mut errors);
    replicas::always_restarting(&pods.field("spec"), "DaemonSet", &mut errors);
    errors.not_negative(&spec.field("minReadySeconds"));
    update_strategy(&spec.field("updateStrategy"), &mut errors);
    errors.not_negative(&spec.field("revisionHistoryLimit"));
    errors.into_vec()
}

fn update_strategy(at: &At<'_>, errors: &mut Errors) {
    let rolling = at.field("rollingUpdate");
    match at.field("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => errors.required(&rolling, ""),
        "RollingUpdate" => {
            let (fewer, more) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            for field in [&fewer, &more] {
                int_or_percent::not_negative(field, errors);
                int_or_percent::at_most_all(field, errors);
            }
            match (int_or_percent::magnitude(&fewer) != 0, int_or_percent::magnitude(&more) != 0) {
                (true, true) => errors.invalid(&more, "may not be set when maxUnavailable is non-zero"),
                (false, false) => errors.required(&fewer, "cannot be 0 when maxSurge is 0"),
                (true, false) | (false, true) => {}
            }
        }
        _ => errors.push(FieldError::not_supported(at.path(), at.value().cloned().unwrap_or_default(), TYPES)),
    }
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.extend(validate_create(new));
    replicas::fixed_selector(new, old, &mut errors);
    errors.into_vec()
}

fn validate_status(new: &Object, _old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let status = At::top(new, "status");
    for (_, count) in status.entries().map(|(name, _)| (name, status.field(name))) {
        errors.not_negative(&count);
    }
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{check, check_update, pod_spec, row, stored, with};
    use super::*;

    fn agent() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}},
            },
        })
    }

    #[test]
    fn an_agent_in_full() {
        assert_eq!(
            stored(&STRATEGY, agent()),
            json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": {"name": "agent"},
                "spec": {
                    "revisionHistoryLimit": 10,
                    "selector": {"matchLabels": {"app": "a"}},
                    "template": {"metadata": {"labels": {"app": "a"}}, "spec": pod_spec()},
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
                },
                "status": {
                    "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
                },
            })
        );
    }

    #[test]
    fn daemon_sets_are_judged() {
        check(
            &STRATEGY,
            &agent(),
            &[
                (
                    "/spec/template/metadata/labels/app",
                    json!("b"),
                    &[
                        "spec.template.metadata.labels: Invalid value: {\"app\":\"b\"}: `selector` does not match template `labels`",
                    ],
                ),
                (
                    "/spec/template/spec/restartPolicy",
                    json!("Never"),
                    &["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""],
                ),
                (
                    "/spec/updateStrategy",
                    json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}),
                    &[
                        "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
                    ],
                ),
                (
                    "/spec/updateStrategy",
                    json!({"type": "Never"}),
                    &[
                        "spec.updateStrategy: Unsupported value: {\"type\":\"Never\"}: supported values: \"RollingUpdate\", \"OnDelete\"",
                    ],
                ),
            ],
        );
        let moved = with(&agent(), "/spec/template/metadata/labels", json!({"app": "a", "tier": "b"}));
        check_update(
            &STRATEGY,
            &moved,
            &[(
                "/spec/selector/matchLabels",
                json!({"tier": "b"}),
                &["spec.selector: Invalid value: {\"matchLabels\":{\"tier\":\"b\"}}: field is immutable"],
            )],
        );
    }

    #[test]
    fn a_row() {
        let set = with(&stored(&STRATEGY, agent()), "/status/desiredNumberScheduled", json!(3));
        let set = with(&set, "/spec/template/spec/nodeSelector", json!({"disk": "ssd"}));
        assert_eq!(
            row(&STRATEGY, set),
            ["agent", "3", "0", "0", "0", "0", "disk=ssd", "10m", "c", "busybox:1", "app=a"].map(cell)
        );
    }

    fn cell(text: &str) -> Value {
        text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from)
    }
}
