//! `autoscaling/v1`, which knows one measure: CPU utilisation. Whatever else `v2` says travels in annotations.

use quorate_api::object::Object;
use serde_json::{Value, json};

use super::super::defaulting::{ensure, remove};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

pub(super) fn to_v2(scaler: &mut Object) {
    let metrics = take_note(scaler, METRICS);
    let behavior = take_note(scaler, BEHAVIOR);
    let conditions = take_note(scaler, CONDITIONS);
    let current = take_note(scaler, CURRENT_METRICS);
    let spec = ensure(scaler.as_map_mut(), "spec");
    let target = remove(spec, "targetCPUUtilizationPercentage");
    let mut all = metrics.and_then(|metrics| metrics.as_array().cloned()).unwrap_or_default();
    if let Some(percent) = target {
        all.push(json!({"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent},
        }}));
    }
    put(spec, "metrics", (!all.is_empty()).then_some(Value::Array(all)));
    put(spec, "behavior", behavior);
    let Some(status) = scaler.as_map_mut().get_mut("status") else { return };
    let utilization = remove(status, "currentCPUUtilizationPercentage");
    let mut measured = current.and_then(|current| current.as_array().cloned()).unwrap_or_default();
    if let Some(percent) = utilization {
        measured.push(json!({"type": "Resource", "resource": {
            "name": "cpu", "current": {"averageUtilization": percent},
        }}));
    }
    put(status, "currentMetrics", (!measured.is_empty()).then_some(Value::Array(measured)));
    put(status, "conditions", conditions);
}

pub(super) fn from_v2(scaler: &mut Object) {
    let mut notes = Vec::new();
    let spec = ensure(scaler.as_map_mut(), "spec");
    let (cpu, others) = split_cpu(remove(spec, "metrics"), "/resource/target/averageUtilization");
    put(spec, "targetCPUUtilizationPercentage", cpu);
    notes.push((METRICS, others));
    notes.push((BEHAVIOR, remove(spec, "behavior")));
    if let Some(status) = scaler.as_map_mut().get_mut("status") {
        let (cpu, others) = split_cpu(remove(status, "currentMetrics"), "/resource/current/averageUtilization");
        put(status, "currentCPUUtilizationPercentage", cpu);
        notes.push((CURRENT_METRICS, others));
        notes.push((CONDITIONS, remove(status, "conditions")));
    }
    for (key, value) in notes {
        if let Some(value) = value {
            scaler.set_annotation(key, &value.to_string());
        }
    }
}

/// The first CPU utilisation, and the list without it.
fn split_cpu(metrics: Option<Value>, at: &str) -> (Option<Value>, Option<Value>) {
    let Some(Value::Array(mut all)) = metrics else { return (None, None) };
    let is_cpu =
        |metric: &Value| metric.pointer("/resource/name") == Some(&json!("cpu")) && metric.pointer(at).is_some();
    let found = all.iter().position(is_cpu).map(|index| all.remove(index));
    let cpu = found.and_then(|metric| metric.pointer(at).cloned());
    (cpu, (!all.is_empty()).then_some(Value::Array(all)))
}

fn put(of: &mut Value, field: &str, value: Option<Value>) {
    if let (Some(fields), Some(value)) = (of.as_object_mut(), value) {
        fields.insert(field.to_owned(), value);
    }
}

/// An annotation that holds JSON; one that does not is left where it is.
fn take_note(scaler: &mut Object, key: &str) -> Option<Value> {
    let value = serde_json::from_str(scaler.annotation(key)?).ok()?;
    scaler.remove_annotation(key);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let v1 = json!({
            "metadata": {"name": "nginx"},
            "spec": {"maxReplicas": 10, "targetCPUUtilizationPercentage": 50},
            "status": {"currentReplicas": 3, "currentCPUUtilizationPercentage": 90},
        });
        let mut scaler = Object::from_value(v1.clone()).unwrap();
        to_v2(&mut scaler);
        assert_eq!(
            scaler.get("/spec/metrics"),
            Some(&json!([{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]))
        );
        scaler.set("/spec/behavior", json!({"scaleDown": {}})).unwrap();
        from_v2(&mut scaler);
        assert_eq!(scaler.annotation(BEHAVIOR), Some("{\"scaleDown\":{}}"));
        scaler.remove_annotation(BEHAVIOR);
        assert_eq!(scaler.get("/spec"), Some(&v1["spec"]));
        assert_eq!(scaler.get("/status"), Some(&v1["status"]));
    }
}
