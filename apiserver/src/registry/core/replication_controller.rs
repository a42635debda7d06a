//! ReplicationController: the first way to keep a number of pods running.

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::Value;

use super::super::defaulting::{default_value, ensure, with};
use super::super::replicas;
use super::super::rules::{At, Errors};
use super::super::strategy::{Dependents, Strategy};
use super::pod_spec::{defaults, template};

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    validate_create,
    validate_update: |new, _| validate_create(new),
    dependents: Dependents::DeletedBut(&["v1"]),
    ..replicas::REPLICATED
};

/// Selector and labels come from the template where they are left out.
fn default(controller: &mut Object) {
    let spec = ensure(controller.as_map_mut(), "spec");
    default_value(spec, "replicas", 1);
    with(spec, "template", defaults::template);
    let template_labels = spec.pointer("/template/metadata/labels").cloned();
    let Some(template_labels) = template_labels.filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty()))
    else {
        return;
    };
    let unset = |value: Option<&Value>| value.and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
    if unset(spec.get("selector")) {
        super::super::defaulting::set(spec, "selector", template_labels.clone());
    }
    if controller.labels().is_empty() {
        controller.metadata_mut().insert("labels".to_owned(), template_labels);
    }
}

fn validate_create(controller: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(controller, "spec");
    errors.not_negative(&spec.field("minReadySeconds"));
    let selector = spec.field("selector");
    errors.need(&selector);
    errors.not_negative(&spec.field("replicas"));
    let pods = spec.field("template");
    if !pods.is_set() {
        errors.required(&pods, "");
        return errors.into_vec();
    }
    let labels = pods.field("metadata").field("labels");
    let matches = selector.entries().all(|(key, value)| labels.key(key).value() == value.value());
    if !matches {
        errors.invalid(&labels, "`selector` does not match template `labels`");
    }
    template::validate(&pods, &mut errors);
    replicas::always_restarting(&pods.field("spec"), "ReplicationController", &mut errors);
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, pod_spec, row, status_faults, stored, with};
    use super::*;

    fn controller() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc", "namespace": "default"},
            "spec": {"template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}},
        })
    }

    #[test]
    fn selector_and_labels_follow_the_template() {
        assert_eq!(
            stored(&STRATEGY, controller()),
            json!({
                "apiVersion": "v1", "kind": "ReplicationController",
                "metadata": {"name": "rc", "namespace": "default", "labels": {"app": "web"}},
                "spec": {"replicas": 1, "selector": {"app": "web"},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()}},
                "status": {"replicas": 0},
            })
        );
    }

    #[test]
    fn controllers_are_judged() {
        check(
            &STRATEGY,
            &controller(),
            &[
                (
                    "/spec/replicas",
                    json!(-1),
                    &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
                ),
                (
                    "/spec/selector",
                    json!({"app": "db"}),
                    &[
                        "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
                    ],
                ),
                (
                    "/spec/template/spec/restartPolicy",
                    json!("Never"),
                    &["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""],
                ),
                ("/spec", json!({}), &["spec.selector: Required value", "spec.template: Required value"]),
            ],
        );
        let old = stored(&STRATEGY, controller());
        assert_eq!(
            status_faults(&STRATEGY, &old, json!({"replicas": 1, "readyReplicas": 2})),
            ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"]
        );
    }

    #[test]
    fn rows() {
        let two = with(&stored(&STRATEGY, controller()), "/status", json!({"replicas": 2, "readyReplicas": 1}));
        assert_eq!(
            row(&STRATEGY, two),
            [json!("rc"), json!(1), json!(2), json!(1), json!("10m"), json!("c"), json!("busybox:1"), json!("app=web")]
        );
    }
}
