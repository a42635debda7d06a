//! ReplicaSet: a number of pods of one template.

use quorate_api::field::FieldError;
use quorate_api::object::Object;

use super::super::core::pod_spec::defaults;
use super::super::defaulting::{default_value, ensure};
use super::super::replicas;
use super::super::rules::{At, Errors};
use super::super::strategy::{Dependents, Strategy};

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    validate_create,
    validate_update,
    dependents: Dependents::DeletedBut(&["extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"]),
    ..replicas::REPLICATED
};

fn default(set: &mut Object) {
    let spec = ensure(set.as_map_mut(), "spec");
    default_value(spec, "replicas", 1);
    if let Some(fields) = spec.as_object_mut() {
        defaults::template(ensure(fields, "template"));
    }
}

fn validate_create(set: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(set, "spec");
    errors.not_negative(&spec.field("replicas"));
    errors.not_negative(&spec.field("minReadySeconds"));
    // Upstream says "deployment" here too.
    replicas::selector(&spec, "deployment", &mut errors);
    replicas::template(&spec, "ReplicaSet", &mut errors);
    errors.into_vec()
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.extend(validate_create(new));
    replicas::fixed_selector(new, old, &mut errors);
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::testing::{check, check_update, pod_spec, row, stored, with};
    use super::*;

    fn set() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}},
        })
    }

    #[test]
    fn the_shortest_set_is_filled_in() {
        let stored = stored(&STRATEGY, set());
        assert_eq!(
            stored,
            json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"},
                "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()}},
                "status": {"replicas": 0},
            })
        );
        assert_eq!(
            row(&STRATEGY, stored),
            [
                json!("web"),
                json!(1),
                json!(0),
                json!(0),
                json!("10m"),
                json!("c"),
                json!("busybox:1"),
                json!("app=web")
            ]
        );
    }

    /// Today's versions run what their fields name, and nothing else.
    #[test]
    fn an_annotation_names_no_containers() {
        let note = json!({"pod.beta.kubernetes.io/init-containers": "[{\"name\":\"first\",\"image\":\"i\"}]"});
        let stored = stored(&STRATEGY, with(&set(), "/spec/template/metadata/annotations", note));
        assert_eq!(stored["spec"]["template"]["spec"].get("initContainers"), None);
    }

    #[test]
    fn sets_are_judged() {
        check(
            &STRATEGY,
            &set(),
            &[
                (
                    "/spec/replicas",
                    json!(-1),
                    &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
                ),
                (
                    "/spec/template/spec/containers/0/image",
                    json!(""),
                    &["spec.template.spec.containers[0].image: Required value"],
                ),
            ],
        );
        check_update(
            &STRATEGY,
            &set(),
            &[(
                "/spec/selector/matchLabels",
                json!({"app": "db"}),
                &[
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
                    "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"db\"}}: field is immutable",
                ],
            )],
        );
    }
}
