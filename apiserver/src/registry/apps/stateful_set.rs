//! StatefulSet: numbered pods, each with its own name and volumes.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::{Value, json};

use super::super::core::persistent_volume_claim;
use super::super::core::pod_spec::{defaults, template, warnings};
use super::super::defaulting::{default_text, default_value, each, ensure, text as text_of};
use super::super::display::{AGE, CONTAINERS, IMAGES, NAME, age, containers_and_images, name, number_at, text};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Dependents, Generation, Strategy};
use super::super::{int_or_percent, replicas};

const HISTORY_LIMIT: i64 = 10;
const RETENTIONS: &[&str] = &["Delete", "Retain"];
/// What may change in the spec once the set exists.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];
const FIXED: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                     'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                     'minReadySeconds' are forbidden";

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |set| {
        set.as_map_mut().insert("status".to_owned(), json!({"replicas": 0, "availableReplicas": 0}));
    },
    validate_create,
    validate_update,
    validate_name: names::name_is_dns_label,
    warnings: |new, old| warnings::workload(new, old, &warnings::spec_template(new), false),
    validate_status: |new, _| replicas::validate_status(new),
    columns: COLUMNS,
    cells,
    generation: Generation::OnSpecChange,
    dependents: Dependents::DeletedBut(&["apps/v1alpha1", "apps/v1beta1", "apps/v1beta2"]),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[NAME, text("Ready", "How many pods are ready, of how many."), AGE, CONTAINERS, IMAGES];

fn cells(set: &Object, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers_and_images(set, "/spec/template/spec");
    let ready = format!("{}/{}", number_at(set, "/status/readyReplicas"), number_at(set, "/spec/replicas"));
    vec![name(set), Value::from(ready), age(set, now), containers, images]
}

fn default(set: &mut Object) {
    let spec = ensure(set.as_map_mut(), "spec");
    default_text(spec, "podManagementPolicy", "OrderedReady");
    default_value(spec, "replicas", 1);
    default_value(spec, "revisionHistoryLimit", HISTORY_LIMIT);
    each(spec, "volumeClaimTemplates", |claim| {
        default_text(claim, "apiVersion", "v1");
        default_text(claim, "kind", "PersistentVolumeClaim");
        persistent_volume_claim::default_fields(claim);
    });
    let Some(fields) = spec.as_object_mut() else { return };
    let strategy = ensure(fields, "updateStrategy");
    default_text(strategy, "type", "RollingUpdate");
    if text_of(strategy, "type") == "RollingUpdate"
        && let Some(strategy) = strategy.as_object_mut()
    {
        default_value(ensure(strategy, "rollingUpdate"), "partition", 0);
    }
    let retention = ensure(fields, "persistentVolumeClaimRetentionPolicy");
    default_text(retention, "whenDeleted", "Retain");
    default_text(retention, "whenScaled", "Retain");
    defaults::template(ensure(fields, "template"));
}

fn validate_create(set: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(set, "spec");
    let policy = spec.field("podManagementPolicy");
    if errors.need(&policy) && !matches!(policy.text(), "OrderedReady" | "Parallel") {
        errors.invalid(&policy, "must be 'OrderedReady' or 'Parallel'");
    }
    update_strategy(&spec.field("updateStrategy"), &mut errors);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        errors.if_set_one_of(&retention.field(field), RETENTIONS);
    }
    for field in [spec.field("replicas"), spec.field("minReadySeconds"), spec.field("ordinals").field("start")] {
        errors.not_negative(&field);
    }
    replicas::selector(&spec, "statefulset", &mut errors);
    // The pods' spec is judged when a pod is made: until then its mounts of claimed volumes lead nowhere.
    let pods = spec.field("template");
    replicas::template_labels(&spec, &pods, &mut errors);
    template::metadata(&pods, &mut errors);
    replicas::always_restarting(&pods.field("spec"), "StatefulSet", &mut errors);
    errors.into_vec()
}

fn update_strategy(at: &At<'_>, errors: &mut Errors) {
    let rolling = at.field("rollingUpdate");
    match at.field("type").text() {
        "" => errors.required(&at.field("type"), ""),
        "OnDelete" if rolling.is_set() => {
            errors.invalid(&rolling, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            errors.not_negative(&rolling.field("partition"));
            int_or_percent::not_negative(&rolling.field("maxUnavailable"), errors);
        }
        _ => errors.invalid(at, "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.extend(validate_create(new));
    let fixed = |set: &Object| {
        let mut spec = set.get("/spec").cloned().unwrap_or_default();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|field, _| !CHANGEABLE.contains(&field.as_str()));
        }
        spec
    };
    if fixed(new) != fixed(old) {
        errors.forbidden(&At::top(new, "spec"), FIXED);
    }
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{check, check_update, pod_spec, row, stored};
    use super::*;

    fn set() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "serviceName": "web",
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}},
                "volumeClaimTemplates": [{"metadata": {"name": "www"}, "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
            },
        })
    }

    #[test]
    fn the_shortest_set_is_filled_in() {
        let stored = stored(&STRATEGY, set());
        assert_eq!(
            stored,
            json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": "default"},
                "spec": {
                    "serviceName": "web",
                    "podManagementPolicy": "OrderedReady",
                    "replicas": 1,
                    "revisionHistoryLimit": 10,
                    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()},
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                    "volumeClaimTemplates": [{
                        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "www"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                            "resources": {"requests": {"storage": "1Gi"}}},
                        "status": {"phase": "Pending"},
                    }],
                },
                "status": {"replicas": 0, "availableReplicas": 0},
            })
        );
        assert_eq!(row(&STRATEGY, stored), ["web", "0/1", "10m", "c", "busybox:1"]);
    }

    #[test]
    fn sets_are_judged() {
        check(
            &STRATEGY,
            &set(),
            &[
                (
                    "/spec/podManagementPolicy",
                    json!("Chaos"),
                    &["spec.podManagementPolicy: Invalid value: \"Chaos\": must be 'OrderedReady' or 'Parallel'"],
                ),
                (
                    "/spec/updateStrategy/rollingUpdate",
                    json!({"partition": -1}),
                    &[
                        "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
                    ],
                ),
            ],
        );
        check_update(
            &STRATEGY,
            &set(),
            &[
                ("/spec/replicas", json!(3), &[]),
                ("/spec/serviceName", json!("db"), &[&format!("spec: Forbidden: {FIXED}")]),
            ],
        );
    }
}
