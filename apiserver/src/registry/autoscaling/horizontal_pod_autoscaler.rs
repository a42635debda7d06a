//! HorizontalPodAutoscaler: keeps a measure near a target by changing how many pods there are.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::{Value, json};

use super::super::defaulting::{default_value, ensure};
use super::super::display::{AGE, NAME, NONE, UNKNOWN, age, field, items_at, name, number_at, text, text_at};
use super::super::int_or_percent;
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Conversion, Generation, Strategy};
use super::v1;

const TARGET_UTILIZATION: i64 = 80;
const SHOWN_METRICS: usize = 2;
/// The member that holds a metric's target, by the metric's type.
const SOURCES: [(&str, &str); 5] = [
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
    ("Pods", "pods"),
    ("Object", "object"),
    ("External", "external"),
];

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    validate_create,
    validate_update: |new, _| validate_create(new),
    columns: COLUMNS,
    cells,
    generation: Generation::None,
    ..Strategy::DEFAULT
};

/// Between `autoscaling/v1` and the stored `v2`.
pub(crate) static CONVERSION: Conversion = Conversion { to_storage: v1::to_v2, from_storage: v1::from_v2 };

const COLUMNS: &[Column] = &[
    NAME,
    text("Reference", "What it scales."),
    text("Targets", "The measures, and where they should be."),
    text("MinPods", "The least number of pods."),
    text("MaxPods", "The largest number of pods."),
    text("Replicas", "How many pods there are."),
    AGE,
];

fn cells(scaler: &Object, now: Timestamp) -> Vec<Value> {
    let reference =
        format!("{}/{}", text_at(scaler, "/spec/scaleTargetRef/kind"), text_at(scaler, "/spec/scaleTargetRef/name"));
    vec![
        name(scaler),
        Value::from(reference),
        Value::from(targets(scaler)),
        Value::from(int_or_percent::shown(scaler.get("/spec/minReplicas"), "<unset>")),
        Value::from(number_at(scaler, "/spec/maxReplicas")),
        Value::from(number_at(scaler, "/status/currentReplicas")),
        age(scaler, now),
    ]
}

fn targets(scaler: &Object) -> String {
    let measured = items_at(scaler, "/status/currentMetrics");
    let all: Vec<String> = items_at(scaler, "/spec/metrics")
        .iter()
        .enumerate()
        .map(|(i, metric)| target(metric, measured.get(i)))
        .collect();
    let shown = all.iter().take(SHOWN_METRICS).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len() {
        0 => NONE.to_owned(),
        count if count > SHOWN_METRICS => format!("{shown} + {} more...", count - SHOWN_METRICS),
        _ => shown,
    }
}

/// `cpu: 40%/80%`, `17/100 (avg)`.
fn target(metric: &Value, measured: Option<&Value>) -> String {
    let Some((_, member)) = SOURCES.iter().find(|(kind, _)| *kind == field(metric, "type")) else {
        return "<unknown type>".to_owned();
    };
    let spec = metric.get(member).unwrap_or(&Value::Null);
    let wanted = |key: &str| spec.get("target").and_then(|target| target.get(key)).filter(|value| !value.is_null());
    let current = |key: &str| measured?.get(member)?.get("current")?.get(key).filter(|value| !value.is_null());
    let shown = |value: Option<&Value>| int_or_percent::shown(value, UNKNOWN);
    match *member {
        "resource" | "containerResource" => {
            let resource = field(spec, "name");
            if wanted("averageValue").is_some() {
                return format!("{resource}: {}/{}", shown(current("averageValue")), shown(wanted("averageValue")));
            }
            let percent = |value: Option<&Value>, otherwise: &str| {
                value.and_then(Value::as_i64).map_or_else(|| otherwise.to_owned(), |percent| format!("{percent}%"))
            };
            let now = percent(current("averageUtilization"), UNKNOWN);
            format!("{resource}: {now}/{}", percent(wanted("averageUtilization"), "<auto>"))
        }
        "pods" => format!("{}/{}", shown(current("averageValue")), shown(wanted("averageValue"))),
        _ if wanted("averageValue").is_some() => {
            format!("{}/{} (avg)", shown(current("averageValue")), shown(wanted("averageValue")))
        }
        _ => format!("{}/{}", shown(current("value")), shown(wanted("value"))),
    }
}

fn default(scaler: &mut Object) {
    let spec = ensure(scaler.as_map_mut(), "spec");
    default_value(spec, "minReplicas", 1);
    let unset = spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if unset {
        let metric = json!([{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": TARGET_UTILIZATION},
        }}]);
        super::super::defaulting::set(spec, "metrics", metric);
    }
}

fn validate_create(scaler: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(scaler, "spec");
    let (least, most) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    if least.integer().is_some_and(|pods| pods < 1) {
        errors.invalid(&least, "must be greater than or equal to 1");
    }
    if most.number() < 1 {
        errors.invalid_value(&most, most.number(), "must be greater than 0");
    }
    if least.integer().is_some_and(|pods| most.number() < pods) {
        errors.invalid_value(&most, most.number(), "must be greater than or equal to `minReplicas`");
    }
    let reference = spec.field("scaleTargetRef");
    for part in ["kind", "name"].map(|part| reference.field(part)) {
        if errors.need(&part) {
            errors.invalid_each(&part, names::name_is_path_segment(part.text(), false));
        }
    }
    for metric in spec.field("metrics").items() {
        judge_metric(&metric, &mut errors);
    }
    errors.into_vec()
}

fn judge_metric(metric: &At<'_>, errors: &mut Errors) {
    let kind = metric.field("type");
    if kind.is_empty() {
        return errors.required(&kind, "must specify a metric source type");
    }
    let Some((_, member)) = SOURCES.iter().find(|(known, _)| *known == kind.text()) else {
        return errors.one_of(&kind, &["ContainerResource", "External", "Object", "Pods", "Resource"]);
    };
    let source = metric.field(member);
    if !source.is_set() {
        let detail = "must populate information for the given metric source";
        return errors.required(&source, detail);
    }
    let target = source.field("target");
    errors.need_one_of(&target.field("type"), &["AverageValue", "Utilization", "Value"]);
    let utilization = target.field("averageUtilization");
    if utilization.integer().is_some_and(|percent| percent < 1) {
        errors.invalid(&utilization, "must be greater than 0");
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{check, row, stored, with};
    use super::*;

    fn scaler() -> Value {
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 5},
        })
    }

    #[test]
    fn the_processor_is_watched_unless_told_otherwise() {
        let spec = stored(&STRATEGY, scaler())["spec"].clone();
        assert_eq!(spec["minReplicas"], 1);
        assert_eq!(
            spec["metrics"],
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}])
        );
    }

    #[test]
    fn scalers_are_judged() {
        check(
            &STRATEGY,
            &scaler(),
            &[
                (
                    "/spec/minReplicas",
                    json!(0),
                    &["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"],
                ),
                (
                    "/spec/minReplicas",
                    json!(6),
                    &["spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"],
                ),
                ("/spec/scaleTargetRef/name", json!(""), &["spec.scaleTargetRef.name: Required value"]),
                (
                    "/spec/metrics",
                    json!([{"type": "Resource"}]),
                    &[
                        "spec.metrics[0].resource: Required value: must populate information for the given metric source",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn a_row() {
        let measured = json!({"currentReplicas": 2, "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 90}}},
        ]});
        let cells = row(&STRATEGY, with(&stored(&STRATEGY, scaler()), "/status", measured));
        assert_eq!(json!(cells), json!(["web", "Deployment/web", "cpu: 90%/80%", "1", 5, 2, "10m"]));
    }
}
