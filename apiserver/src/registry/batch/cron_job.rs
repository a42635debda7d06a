//! CronJob: a Job at each tick of a schedule.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::Value;

use super::super::core::pod_spec::{defaults, warnings};
use super::super::defaulting::{default_text, default_value, ensure, with};
use super::super::display::{
    AGE, CONTAINERS, IMAGES, NAME, NONE, SELECTOR, UNSET, age, bool_at, boolean, containers_and_images, count_at,
    integer, label_selector, name, or, since, text, text_at,
};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Dependents, Generation, Strategy};
use super::{job, schedule};

/// Names of jobs append eleven characters to the schedule's name.
const MAX_NAME: usize = 52;
const POLICIES: &[&str] = &["Allow", "Forbid", "Replace"];

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    validate_create,
    validate_update: |new, _| validate_create(new),
    warnings: |new, old| {
        let template = At::top(new, "spec").field("jobTemplate").field("spec").field("template");
        warnings::workload(new, old, &template, true)
    },
    validate_name,
    columns: COLUMNS,
    cells,
    generation: Generation::OnSpecChange,
    dependents: Dependents::DeletedBut(&["batch/v1beta1", "batch/v2alpha1"]),
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text("Schedule", "When it makes jobs."),
    text("Timezone", "Where the schedule's clock is."),
    boolean("Suspend", "Whether it makes none for now."),
    integer("Active", "How many of its jobs are running."),
    text("Last Schedule", "How long ago it made a job."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn cells(cron: &Object, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers_and_images(cron, "/spec/jobTemplate/spec/template/spec");
    let suspended = match bool_at(cron, "/spec/suspend") {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let last = match cron.get("/status/lastScheduleTime").filter(|last| !last.is_null()) {
        Some(last) => since(Some(last), now),
        None => NONE.to_owned(),
    };
    vec![
        name(cron),
        Value::from(text_at(cron, "/spec/schedule")),
        Value::from(or(text_at(cron, "/spec/timeZone"), NONE)),
        Value::from(suspended),
        Value::from(count_at(cron, "/status/active")),
        Value::from(last),
        age(cron, now),
        containers,
        images,
        Value::from(label_selector(cron.get("/spec/jobTemplate/spec/selector"))),
    ]
}

fn default(cron: &mut Object) {
    let spec = ensure(cron.as_map_mut(), "spec");
    default_text(spec, "concurrencyPolicy", "Allow");
    default_value(spec, "suspend", false);
    default_value(spec, "successfulJobsHistoryLimit", 3);
    default_value(spec, "failedJobsHistoryLimit", 1);
    // A job's own defaults come when the job does.
    with(spec, "jobTemplate", |jobs| with(jobs, "spec", |job| with(job, "template", defaults::template)));
}

fn validate_name(name: &str, prefix: bool) -> Vec<String> {
    let mut messages = names::name_is_dns_subdomain(name, prefix);
    if name.len() > MAX_NAME {
        messages.push(format!("must be no more than {MAX_NAME} characters"));
    }
    messages
}

fn validate_create(cron: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(cron, "spec");
    let when = spec.field("schedule");
    if errors.need(&when)
        && let Some(fault) = schedule::fault(when.text())
    {
        errors.invalid(&when, fault);
    }
    let zone = spec.field("timeZone");
    if zone.is_set() && jiff::tz::TimeZone::get(zone.text()).is_err() {
        errors.invalid(&zone, format!("unknown time zone {}", zone.text()));
    }
    for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.not_negative(&spec.field(field));
    }
    errors.need_one_of(&spec.field("concurrencyPolicy"), POLICIES);
    let jobs = spec.field("jobTemplate").field("spec");
    job::validate_spec(&jobs, &mut errors);
    if jobs.field("manualSelector").truth() {
        errors.not_supported(&jobs.field("manualSelector"), &["nil", "false"]);
    }
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, row, stored, with};
    use super::*;

    fn nightly() -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "CronJob",
            "metadata": {"name": "nightly"},
            "spec": {
                "schedule": "0 3 * * *",
                "jobTemplate": {"spec": {"template": {"spec": {
                    "containers": [{"name": "c", "image": "busybox:1"}], "restartPolicy": "Never",
                }}}},
            },
        })
    }

    #[test]
    fn defaults() {
        let stored = stored(&STRATEGY, nightly());
        let mut spec = stored["spec"].clone();
        let job = spec.as_object_mut().and_then(|spec| spec.remove("jobTemplate")).unwrap_or_default();
        assert_eq!(
            spec,
            json!({
                "schedule": "0 3 * * *", "concurrencyPolicy": "Allow", "suspend": false,
                "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
            })
        );
        assert_eq!(job["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
        assert_eq!(job["spec"]["backoffLimit"], Value::Null, "a job's own defaults come with the job");
    }

    #[test]
    fn cron_jobs_are_judged() {
        check(
            &STRATEGY,
            &nightly(),
            &[
                ("/spec/schedule", json!(""), &["spec.schedule: Required value"]),
                ("/spec/timeZone", json!("Mars"), &["spec.timeZone: Invalid value: \"Mars\": unknown time zone Mars"]),
                (
                    "/spec/concurrencyPolicy",
                    json!("Maybe"),
                    &[
                        "spec.concurrencyPolicy: Unsupported value: \"Maybe\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
                    ],
                ),
                (
                    "/spec/startingDeadlineSeconds",
                    json!(-1),
                    &["spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0"],
                ),
                (
                    "/spec/jobTemplate/spec/manualSelector",
                    json!(true),
                    &[
                        "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn a_row() {
        let cron = with(&stored(&STRATEGY, nightly()), "/status/lastScheduleTime", json!("2026-01-01T00:08:00Z"));
        let cells = row(&STRATEGY, cron);
        assert_eq!(
            cells[1..7],
            ["0 3 * * *", "<none>", "False"]
                .map(Value::from)
                .into_iter()
                .chain([json!(0), json!("2m"), json!("10m")])
                .collect::<Vec<_>>()
        );
    }
}
