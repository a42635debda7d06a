//! Job: pods that run to an end.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Map, Value};

use super::super::core::pod_spec::{defaults, template, warnings};
use super::super::defaulting::{default_value, ensure};
use super::super::display::{
    AGE, CONTAINERS, IMAGES, NAME, SELECTOR, age, containers_and_images, has_true_condition, human_duration,
    label_selector, name, number_at, text, text_at, time,
};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Dependents, Generation, Strategy};
use super::super::{replicas, selectors};

const BACKOFF_LIMIT: i64 = 6;
const MODES: &[&str] = &["Indexed", "NonIndexed"];
const REPLACEMENTS: &[&str] = &["Failed", "TerminatingOrFailed"];
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const CONDITIONS: &str = "/status/conditions";

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    validate_create,
    validate_update,
    warnings: |new, old| warnings::workload(new, old, &warnings::spec_template(new), true),
    columns: COLUMNS,
    cells,
    field_labels: |job| vec![("status.successful", number_at(job, "/status/succeeded").to_string())],
    generation: Generation::OnSpecChange,
    dependents: Dependents::DeletedBut(&["batch/v1"]),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text("Status", "How far it is."),
    text("Completions", "How many pods succeeded, of how many."),
    text("Duration", "How long it ran."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn cells(job: &Object, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers_and_images(job, "/spec/template/spec");
    vec![
        name(job),
        Value::from(status(job)),
        Value::from(completions(job)),
        Value::from(duration(job, now)),
        age(job, now),
        containers,
        images,
        Value::from(label_selector(job.get("/spec/selector"))),
    ]
}

fn status(job: &Object) -> &'static str {
    let has = |kind: &str| has_true_condition(job, CONDITIONS, kind);
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if job.is_deleting() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () => "Running",
    }
}

fn completions(job: &Object) -> String {
    let succeeded = number_at(job, "/status/succeeded");
    match (job.get("/spec/completions").and_then(Value::as_i64), number_at(job, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, workers) if workers > 1 => format!("{succeeded}/1 of {workers}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(job: &Object, now: Timestamp) -> String {
    let Some(start) = time(job.get("/status/startTime")) else { return String::new() };
    let end = time(job.get("/status/completionTime")).unwrap_or(now);
    human_duration(end.as_second() - start.as_second())
}

fn default(job: &mut Object) {
    let spec = ensure(job.as_map_mut(), "spec");
    default_spec(spec);
    let template_labels = spec.pointer("/template/metadata/labels").cloned();
    if job.labels().is_empty()
        && let Some(labels) = template_labels
    {
        job.metadata_mut().insert("labels".to_owned(), labels);
    }
}

pub(super) fn default_spec(spec: &mut Value) {
    let unset = |spec: &Value, field: &str| spec.get(field).is_none_or(Value::is_null);
    if unset(spec, "completions") && unset(spec, "parallelism") {
        default_value(spec, "completions", 1);
    }
    default_value(spec, "parallelism", 1);
    let per_index = !unset(spec, "backoffLimitPerIndex");
    default_value(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { BACKOFF_LIMIT });
    default_value(spec, "completionMode", "NonIndexed");
    default_value(spec, "suspend", false);
    default_value(spec, "manualSelector", false);
    let replacement = if unset(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    default_value(spec, "podReplacementPolicy", replacement);
    if let Some(fields) = spec.as_object_mut() {
        defaults::template(ensure(fields, "template"));
    }
}

/// Unless the user takes care of it, pods are found by the job's own identity.
fn prepare_create(job: &mut Object) {
    let manual = job.get("/spec/manualSelector").and_then(Value::as_bool).unwrap_or_default();
    let Some(uid) = job.uid().map(str::to_owned).filter(|_| !manual) else { return };
    let job_name = job.name().to_owned();
    let Some(spec) = ensure(job.as_map_mut(), "spec").as_object_mut() else { return };
    let labels = ["template", "metadata", "labels"].iter().fold(Some(&mut *spec), descend);
    if let Some(labels) = labels {
        for (key, value) in [
            ("batch.kubernetes.io/job-name", &job_name),
            ("job-name", &job_name),
            (CONTROLLER_UID, &uid),
            ("controller-uid", &uid),
        ] {
            labels.insert(key.to_owned(), Value::from(value.as_str()));
        }
    }
    let selected = ["selector", "matchLabels"].iter().fold(Some(spec), descend);
    if let Some(selected) = selected {
        selected.insert(CONTROLLER_UID.to_owned(), Value::from(uid));
    }
}

fn descend<'a>(at: Option<&'a mut Map<String, Value>>, field: &&str) -> Option<&'a mut Map<String, Value>> {
    at.and_then(|fields| ensure(fields, field).as_object_mut())
}

fn validate_create(job: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(job, "spec");
    validate_spec(&spec, &mut errors);
    let selector = spec.field("selector");
    if selector.is_set() {
        selectors::label_selector(&selector, &mut errors);
        replicas::template_labels(&spec, &spec.field("template"), &mut errors);
    } else {
        errors.required(&selector, "");
    }
    errors.into_vec()
}

pub(super) fn validate_spec(spec: &At<'_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.not_negative(&spec.field(field));
    }
    let mode = spec.field("completionMode");
    errors.if_set_one_of(&mode, MODES);
    if mode.text() == "Indexed" && !spec.field("completions").is_set() {
        errors.required(&spec.field("completions"), "when completion mode is Indexed");
    }
    errors.if_set_one_of(&spec.field("podReplacementPolicy"), REPLACEMENTS);
    let pods = spec.field("template");
    template::validate(&pods, errors);
    let policy = pods.field("spec").field("restartPolicy");
    match policy.text() {
        "OnFailure" | "Never" => {}
        "" | "Always" => errors.required(&policy, "valid values: \"OnFailure\", \"Never\""),
        _ => errors.not_supported(&policy, &["OnFailure", "Never"]),
    }
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.extend(validate_create(new));
    let (spec, before) = (At::top(new, "spec"), At::top(old, "spec"));
    let suspended = before.field("suspend").truth() && text_at(old, "/status/startTime").is_empty();
    let mut fixed = vec!["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy"];
    if !suspended {
        fixed.push("template");
    }
    if spec.field("completionMode").text() != "Indexed" {
        fixed.push("completions");
    }
    for field in fixed {
        errors.immutable(&spec.field(field), &before.field(field));
    }
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, row, stored, with};
    use super::*;

    const UID: &str = "7d1f0e5e-0000-4000-8000-000000000000";

    fn job() -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "once", "namespace": "default", "uid": UID},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}}},
        })
    }

    #[test]
    fn pods_are_found_by_the_jobs_identity() {
        let job = stored(&STRATEGY, job());
        let labels = json!({
            "batch.kubernetes.io/controller-uid": UID, "batch.kubernetes.io/job-name": "once",
            "controller-uid": UID, "job-name": "once",
        });
        let mut spec = job["spec"].clone();
        assert_eq!(spec["template"]["metadata"]["labels"], labels);
        spec.as_object_mut().unwrap().remove("template");
        assert_eq!(
            spec,
            json!({
                "backoffLimit": 6, "completionMode": "NonIndexed", "completions": 1, "parallelism": 1,
                "manualSelector": false, "podReplacementPolicy": "TerminatingOrFailed", "suspend": false,
                "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
            })
        );
    }

    #[test]
    fn jobs_are_judged() {
        check(
            &STRATEGY,
            &job(),
            &[
                (
                    "/spec/template/spec/restartPolicy",
                    json!("Always"),
                    &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
                ),
                (
                    "/spec/parallelism",
                    json!(-1),
                    &["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"],
                ),
                (
                    "/spec",
                    with(&job(), "/spec/manualSelector", json!(true))["spec"].clone(),
                    &["spec.selector: Required value"],
                ),
            ],
        );
    }

    #[test]
    fn rows() {
        let status = |status: Value| row(&STRATEGY, with(&stored(&STRATEGY, job()), "/status", status))[1..4].to_vec();
        assert_eq!(status(json!({})), ["Running", "0/1", ""]);
        assert_eq!(
            status(
                json!({"succeeded": 1, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:05Z",
                "conditions": [{"type": "Complete", "status": "True"}]})
            ),
            ["Complete", "1/1", "5s"]
        );
    }
}
