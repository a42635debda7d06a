//! `matchLabelKeys`: the pod's own label values become part of its selectors when it is created.

use quorate_api::object::Object;
use serde_json::{Map, Value, json};

use super::super::super::defaulting::{each, ensure, with};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn merge(pod: &mut Object) {
    let labels: Map<String, Value> =
        pod.get("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
    let spec = ensure(pod.as_map_mut(), "spec");
    each(spec, "topologySpreadConstraints", |constraint| add(constraint, &labels, "matchLabelKeys", "In"));
    let term = |term: &mut Value| {
        add(term, &labels, "matchLabelKeys", "In");
        add(term, &labels, "mismatchLabelKeys", "NotIn");
    };
    with(spec, "affinity", |affinity| {
        for kind in ["podAffinity", "podAntiAffinity"] {
            with(affinity, kind, |affinity| {
                each(affinity, REQUIRED, term);
                each(affinity, PREFERRED, |weighted| with(weighted, "podAffinityTerm", term));
            });
        }
    });
}

fn add(owner: &mut Value, labels: &Map<String, Value>, keys: &str, operator: &str) {
    let keys: Vec<String> = owner
        .get(keys)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|key| key.as_str().map(str::to_owned))
        .collect();
    let Some(selector) = owner.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
    for key in keys {
        let Some(value) = labels.get(&key) else { continue };
        let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
        if let Some(expressions) = expressions.as_array_mut() {
            expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
        }
    }
}
