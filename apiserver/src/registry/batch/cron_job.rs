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
use super::super::strategy::{Column, Generation, Strategy};
use super::{job, schedule};

/// Names of jobs append eleven characters to the schedule's name.
const MAX_NAME: usize = 52;
const POLICIES: &[&str] = &["Allow", "Forbid", "Replace"];

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    validate_create,
    validate_update: |new, _| validate_create(new),
    warnings: |new, _| {
        warnings::pod_spec(&At::top(new, "spec").field("jobTemplate").field("spec").field("template").field("spec"))
    },
    validate_name,
    columns: COLUMNS,
    cells,
    generation: Generation::OnSpecChange,
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
