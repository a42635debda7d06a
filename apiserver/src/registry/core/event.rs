//! Event: what happened to an object. One kind, served by the core group and, stricter, by `events.k8s.io`.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::{Map, Value};

use super::super::display::{NAME, elapsed, field, integer, name, number_at, or, since, text, text_at, time, wide};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Conversion, Dependents, Strategy};

const TTL_SECONDS: u32 = 3600;
const MAX_WORD: usize = 128;
const MAX_NOTE: usize = 1024;
/// Fields that are named differently in the two groups: core's name first.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];
/// What the newer API fixes once an event is there; only its series goes on.
const FIXED: [&str; 13] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

pub(crate) static STRATEGY: Strategy = Strategy {
    validate_create: |event| {
        let mut errors = Errors::default();
        common(event, &mut errors);
        errors.into_vec()
    },
    validate_update: |new, _| {
        let mut errors = Errors::default();
        common(new, &mut errors);
        errors.into_vec()
    },
    validate_name: names::name_is_path_segment,
    columns: COLUMNS,
    cells,
    field_labels,
    allow_create_on_update: true,
    dependents: Dependents::Never,
    ttl_seconds: Some(TTL_SECONDS),
    ..Strategy::DEFAULT
};

/// The stricter rules of `events.k8s.io`.
pub(crate) static EVENTS_STRATEGY: Strategy = Strategy {
    validate_create: validate_new_form,
    validate_update: validate_new_form_update,
    validate_name: names::name_is_dns_subdomain,
    ..STRATEGY
};

/// Between `events.k8s.io/v1` and the stored core form.
pub(crate) static CONVERSION: Conversion = Conversion {
    to_storage: |event| rename(event, |(core, events)| (events, core)),
    from_storage: |event| rename(event, |(core, events)| (core, events)),
};

fn rename(event: &mut Object, direction: fn((&'static str, &'static str)) -> (&'static str, &'static str)) {
    let fields: &mut Map<String, Value> = event.as_map_mut();
    for (from, to) in RENAMED.map(direction) {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

const COLUMNS: &[Column] = &[
    text("Last Seen", "How long ago it happened last."),
    text("Type", "Normal or Warning."),
    text("Reason", "Why, in a word."),
    text("Object", "What it is about."),
    wide(text("Subobject", "Which part of it.")),
    wide(text("Source", "Who tells.")),
    text("Message", "What happened."),
    wide(text("First Seen", "How long ago it happened first.")),
    wide(integer("Count", "How often it happened.")),
    wide(NAME),
];

fn cells(event: &Object, now: Timestamp) -> Vec<Value> {
    let micro = |pointer: &str| time(event.get(pointer));
    let age = |then: Option<Timestamp>| then.map_or_else(|| since(None, now), |then| elapsed(then, now));
    let first = micro("/firstTimestamp").or_else(|| micro("/eventTime"));
    let series = event.get("/series").filter(|series| !series.is_null());
    let last = match series {
        Some(_) => micro("/series/lastObservedTime"),
        None => micro("/lastTimestamp").or(first),
    };
    let count = match series {
        Some(_) => number_at(event, "/series/count"),
        None => number_at(event, "/count").max(1),
    };
    let kind = text_at(event, "/involvedObject/kind").to_lowercase();
    let object = text_at(event, "/involvedObject/name");
    let target = if object.is_empty() { kind } else { format!("{kind}/{object}") };
    vec![
        Value::from(age(last)),
        Value::from(text_at(event, "/type")),
        Value::from(text_at(event, "/reason")),
        Value::from(target),
        Value::from(text_at(event, "/involvedObject/fieldPath")),
        Value::from(source(event)),
        Value::from(text_at(event, "/message").trim()),
        Value::from(age(first)),
        Value::from(count),
        name(event),
    ]
}

fn source(event: &Object) -> String {
    let component = or(text_at(event, "/source/component"), text_at(event, "/reportingComponent"));
    let instance = or(text_at(event, "/source/host"), text_at(event, "/reportingInstance"));
    if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }
}

fn field_labels(event: &Object) -> Vec<(&'static str, String)> {
    let empty = Value::Null;
    let object = event.get("/involvedObject").unwrap_or(&empty);
    let part = |name: &str| field(object, name).to_owned();
    let reporter = text_at(event, "/reportingComponent");
    vec![
        ("involvedObject.kind", part("kind")),
        ("involvedObject.namespace", part("namespace")),
        ("involvedObject.name", part("name")),
        ("involvedObject.uid", part("uid")),
        ("involvedObject.apiVersion", part("apiVersion")),
        ("involvedObject.resourceVersion", part("resourceVersion")),
        ("involvedObject.fieldPath", part("fieldPath")),
        ("regarding.kind", part("kind")),
        ("regarding.namespace", part("namespace")),
        ("regarding.name", part("name")),
        ("regarding.uid", part("uid")),
        ("regarding.apiVersion", part("apiVersion")),
        ("regarding.resourceVersion", part("resourceVersion")),
        ("regarding.fieldPath", part("fieldPath")),
        ("reason", text_at(event, "/reason").to_owned()),
        ("reportingComponent", reporter.to_owned()),
        ("reportingController", reporter.to_owned()),
        ("source", or(text_at(event, "/source/component"), reporter).to_owned()),
        ("type", text_at(event, "/type").to_owned()),
    ]
}

/// What both groups ask for. An event with an exact time is of the newer form, whichever way it came.
fn common(event: &Object, errors: &mut Errors) {
    let own = event.namespace().unwrap_or_default();
    let about = At::top(event, "involvedObject").field("namespace");
    let newer = At::top(event, "eventTime").is_set();
    let agrees = match (newer, about.text()) {
        (false, "") => matches!(own, "" | "default"),
        (false, namespace) => namespace == own,
        (true, "") => matches!(own, "default" | "kube-system"),
        (true, _) => true,
    };
    if !agrees {
        errors.invalid_value(&about, about.text(), "does not match event.namespace");
    }
    if newer {
        newer_fields(event, errors);
    }
    for message in names::dns1123_subdomain(own) {
        errors.invalid_value(&At::top(event, "namespace"), own, message);
    }
}

fn newer_fields(event: &Object, errors: &mut Errors) {
    let reporter = At::top(event, "reportingComponent");
    errors.need(&reporter);
    errors.invalid_each(&reporter, names::qualified_name(reporter.text()));
    for word in ["reportingInstance", "action", "reason"].map(|word| At::top(event, word)) {
        errors.need(&word);
        if word.text().len() > MAX_WORD {
            errors.invalid_value(&word, "", format!("can have at most {MAX_WORD} characters"));
        }
    }
    let note = At::top(event, "message");
    if note.text().len() > MAX_NOTE {
        errors.invalid_value(&note, "", format!("can have at most {MAX_NOTE} characters"));
    }
}

fn validate_new_form(event: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    common(event, &mut errors);
    series(event, &mut errors);
    errors.need(&At::top(event, "eventTime"));
    let kind = At::top(event, "type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        errors.invalid_value(&kind, "", format!("has invalid value: {}", kind.text()));
    }
    for old in ["firstTimestamp", "lastTimestamp", "count", "source"].map(|old| At::top(event, old)) {
        if !old.is_empty() {
            errors.invalid_value(&old, "", "needs to be unset");
        }
    }
    errors.into_vec()
}

fn series(event: &Object, errors: &mut Errors) {
    let at = At::top(event, "series");
    if !at.is_set() {
        return;
    }
    if at.field("count").number() < 2 {
        errors.invalid_value(&at.field("count"), "", "should be at least 2");
    }
    errors.need(&at.field("lastObservedTime"));
}

fn validate_new_form_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    common(new, &mut errors);
    if At::top(new, "series").value() != At::top(old, "series").value() {
        series(new, &mut errors);
    }
    for field in FIXED {
        errors.immutable(&At::top(new, field), &At::top(old, field));
    }
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, check_update, row, stored, with};
    use super::*;

    fn event() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
            "reason": "Scheduled", "message": " placed\n", "type": "Normal", "count": 3,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:05:00Z",
            "source": {"component": "default-scheduler"},
        })
    }

    fn new_form() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
            "reason": "Scheduled", "type": "Normal", "action": "Binding", "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingComponent": "example.com/scheduler", "reportingInstance": "s-0",
        })
    }

    #[test]
    fn events_are_judged() {
        assert_eq!(stored(&STRATEGY, event())["reason"], "Scheduled");
        check(
            &STRATEGY,
            &event(),
            &[
                (
                    "/involvedObject/namespace",
                    json!("other"),
                    &["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"],
                ),
                (
                    "/eventTime",
                    json!("2026-01-01T00:00:00.000000Z"),
                    &[
                        "reportingComponent: Required value",
                        "reportingComponent: Invalid value: \"\": name part must be non-empty",
                        "reportingComponent: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                        "reportingInstance: Required value",
                        "action: Required value",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn the_newer_api_is_stricter() {
        stored(&EVENTS_STRATEGY, new_form());
        check(
            &EVENTS_STRATEGY,
            &new_form(),
            &[
                ("/type", json!("Odd"), &["type: Invalid value: \"\": has invalid value: Odd"]),
                ("/count", json!(1), &["count: Invalid value: \"\": needs to be unset"]),
                (
                    "/series",
                    json!({"count": 1}),
                    &[
                        "series.count: Invalid value: \"\": should be at least 2",
                        "series.lastObservedTime: Required value",
                    ],
                ),
            ],
        );
        check_update(
            &EVENTS_STRATEGY,
            &new_form(),
            &[
                ("/series", json!({"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}), &[]),
                ("/reason", json!("Other"), &["reason: Invalid value: \"Other\": field is immutable"]),
            ],
        );
    }

    #[test]
    fn both_groups_name_the_same_fields() {
        let newer =
            json!({"metadata": {"name": "e"}, "note": "n", "regarding": {"kind": "Pod"}, "reportingController": "c"});
        let mut event = Object::from_value(newer.clone()).unwrap();
        (CONVERSION.to_storage)(&mut event);
        assert_eq!(
            event.to_value(),
            json!({"metadata": {"name": "e"}, "message": "n", "involvedObject": {"kind": "Pod"}, "reportingComponent": "c"})
        );
        (CONVERSION.from_storage)(&mut event);
        assert_eq!(event.into_value(), newer);
    }

    #[test]
    fn rows() {
        assert_eq!(
            row(&STRATEGY, event()),
            [
                json!("5m"),
                json!("Normal"),
                json!("Scheduled"),
                json!("pod/web"),
                json!(""),
                json!("default-scheduler"),
                json!("placed"),
                json!("10m"),
                json!(3),
                json!("e"),
            ]
        );
        let newer = row(
            &STRATEGY,
            with(&new_form(), "/series", json!({"count": 7, "lastObservedTime": "2026-01-01T00:09:00Z"})),
        );
        assert_eq!(newer[0], "60s");
        assert_eq!(newer[5], "example.com/scheduler, s-0");
        assert_eq!(newer[8], 7);
    }
}
