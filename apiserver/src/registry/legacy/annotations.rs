//! Annotations that have become fields of the pod spec. A field that is set wins.

use serde_json::Value;

use super::super::defaulting::{set, text};

const INIT_CONTAINERS: [&str; 2] =
    ["pod.beta.kubernetes.io/init-containers", "pod.alpha.kubernetes.io/init-containers"];
const SCHEDULER: &str = "scheduler.alpha.kubernetes.io/name";

/// Fills fields of `spec` from the annotations in `metadata`. Text that is no list of containers is left alone: it
/// meant nothing to old servers either.
pub(crate) fn to_fields(metadata: Option<&Value>, spec: &mut Value) {
    let Some(notes) = metadata.and_then(|metadata| metadata.get("annotations")) else { return };
    if text(spec, "schedulerName").is_empty() && !text(notes, SCHEDULER).is_empty() {
        set(spec, "schedulerName", text(notes, SCHEDULER).to_owned());
    }
    let unset = spec.get("initContainers").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if !unset {
        return;
    }
    let listed = INIT_CONTAINERS.iter().find_map(|key| serde_json::from_str::<Vec<Value>>(text(notes, key)).ok());
    if let Some(containers) = listed.filter(|list| !list.is_empty() && list.iter().all(Value::is_object)) {
        set(spec, "initContainers", containers);
    }
}

/// What a writer of such an annotation is told.
pub(crate) fn warnings(metadata: Option<&Value>, path: &str) -> Vec<String> {
    let Some(notes) = metadata.and_then(|metadata| metadata.get("annotations")) else { return Vec::new() };
    let fields = INIT_CONTAINERS.iter().map(|key| (*key, "initContainers")).chain([(SCHEDULER, "schedulerName")]);
    fields
        .filter(|(key, _)| !text(notes, key).is_empty())
        .map(|(key, field)| format!("{path}.annotations[{key}]: deprecated; use the \"{field}\" field instead"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn annotations_fill_unset_fields() {
        let metadata = json!({"annotations": {
            "pod.alpha.kubernetes.io/init-containers": "[{\"name\":\"first\",\"image\":\"busybox:1\"}]",
            "scheduler.alpha.kubernetes.io/name": "my-scheduler",
        }});
        let mut spec = json!({});
        to_fields(Some(&metadata), &mut spec);
        let filled =
            json!({"initContainers": [{"name": "first", "image": "busybox:1"}], "schedulerName": "my-scheduler"});
        assert_eq!(spec, filled);

        let mut set = json!({"initContainers": [{"name": "own"}], "schedulerName": "own"});
        to_fields(Some(&metadata), &mut set);
        assert_eq!(set, json!({"initContainers": [{"name": "own"}], "schedulerName": "own"}));

        assert_eq!(
            warnings(Some(&metadata), "metadata"),
            [
                "metadata.annotations[pod.alpha.kubernetes.io/init-containers]: deprecated; use the \"initContainers\" field instead",
                "metadata.annotations[scheduler.alpha.kubernetes.io/name]: deprecated; use the \"schedulerName\" field instead",
            ]
        );
    }

    #[test]
    fn text_that_lists_no_containers_is_left_alone() {
        let metadata = json!({"annotations": {"pod.beta.kubernetes.io/init-containers": "[1]"}});
        let mut spec = json!({});
        to_fields(Some(&metadata), &mut spec);
        assert_eq!(spec, json!({}));
    }
}
