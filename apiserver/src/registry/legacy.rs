//! Old API versions: what published examples of years ago still say, stored as today's kinds.
//!
//! Only what differs is here: selectors that used to be implied, backends that used to be flat, annotations that became
//! fields. Everything else passes as it is and gets today's defaults.

pub(crate) mod annotations;
mod ingress;

use quorate_api::object::Object;
use quorate_api::resource::Resource;
use serde_json::Value;

use super::defaulting::{ensure, remove};
use super::strategy::Conversion;

/// How objects of an old version become stored ones and back.
pub(crate) fn conversion(group: &str, version: &str, plural: &str) -> Option<&'static Conversion> {
    match (group, version, plural) {
        ("extensions", "v1beta1", "deployments" | "daemonsets" | "replicasets")
        | ("apps", "v1beta1", "deployments" | "statefulsets")
        | ("apps", "v1alpha1", "petsets") => Some(&IMPLIED_SELECTOR),
        ("extensions" | "networking.k8s.io", "v1beta1", "ingresses") => Some(&ingress::CONVERSION),
        _ => None,
    }
}

static IMPLIED_SELECTOR: Conversion = Conversion {
    to_storage: |workload| {
        fill_template(workload);
        imply_selector(workload);
    },
    from_storage: |_| {},
};

/// Templates of that age say in annotations what has become fields. Whoever takes the fields away later means it.
fn fill_template(workload: &mut Object) {
    if workload.resource_version().is_some() {
        return;
    }
    let Some(template) = workload.get_mut("/spec/template").and_then(Value::as_object_mut) else { return };
    let metadata = template.get("metadata").cloned();
    annotations::to_fields(metadata.as_ref(), ensure(template, "spec"));
}

/// Selector and labels were the template's labels unless given; fields that nothing reads today are dropped.
fn imply_selector(workload: &mut Object) {
    let spec = ensure(workload.as_map_mut(), "spec");
    for field in ["rollbackTo", "templateGeneration"] {
        remove(spec, field);
    }
    let labels = spec.pointer("/template/metadata/labels").filter(|labels| is_filled(labels)).cloned();
    let Some(labels) = labels else { return };
    let selected = spec.get("selector").is_some_and(|selector| {
        ["matchLabels", "matchExpressions"].iter().any(|part| selector.get(part).is_some_and(is_filled))
    });
    if !selected && let Some(spec) = spec.as_object_mut() {
        spec.insert("selector".to_owned(), serde_json::json!({"matchLabels": labels}));
    }
    if workload.labels().is_empty() {
        workload.metadata_mut().insert("labels".to_owned(), labels);
    }
}

fn is_filled(value: &Value) -> bool {
    match value {
        Value::Object(entries) => !entries.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// What a writer of an old version is told.
pub(crate) fn warning(resource: &Resource, version: &str) -> Option<String> {
    if !resource.legacy {
        return None;
    }
    let (old, new) = (resource.gvk(version), &resource.storage);
    Some(format!("{} {} is deprecated; use {} {}", old.api_version(), old.kind, new.api_version(), new.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_selector_is_implied_by_the_template() {
        let conversion = conversion("extensions", "v1beta1", "deployments").unwrap();
        let mut deployment = Object::from_value(json!({
            "metadata": {"name": "nginx-deployment"},
            "spec": {"replicas": 3, "rollbackTo": {"revision": 1},
                "template": {"metadata": {"labels": {"app": "nginx"}}, "spec": {}}},
        }))
        .unwrap();
        (conversion.to_storage)(&mut deployment);
        assert_eq!(
            deployment.into_value(),
            json!({
                "metadata": {"name": "nginx-deployment", "labels": {"app": "nginx"}},
                "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "nginx"}},
                    "template": {"metadata": {"labels": {"app": "nginx"}}, "spec": {}}},
            })
        );
    }

    #[test]
    fn old_templates_say_it_in_annotations() {
        let conversion = conversion("extensions", "v1beta1", "deployments").unwrap();
        let note = "[{\"name\":\"first\",\"image\":\"busybox:1\"}]";
        let deployment = |version: Option<&str>| {
            let annotations = json!({"pod.beta.kubernetes.io/init-containers": note});
            let mut deployment = Object::from_value(json!({
                "metadata": {"name": "d"},
                "spec": {"template": {"metadata": {"annotations": annotations}, "spec": {}}},
            }))
            .unwrap();
            deployment.set_resource_version(version);
            (conversion.to_storage)(&mut deployment);
            deployment.get("/spec/template/spec/initContainers/0/name").cloned()
        };
        assert_eq!(deployment(None), Some(json!("first")));
        assert_eq!(deployment(Some("1")), None, "what was taken away stays away");
    }

    #[test]
    fn a_given_selector_stays() {
        let mut set = Object::from_value(json!({
            "metadata": {"labels": {"own": "yes"}},
            "spec": {"selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b", "c": "d"}}}},
        }))
        .unwrap();
        let before = set.clone();
        imply_selector(&mut set);
        assert_eq!(set, before);
    }

    #[test]
    fn only_versions_that_differ_are_converted() {
        assert!(conversion("apps", "v1", "deployments").is_none());
        assert!(conversion("batch", "v2alpha1", "scheduledjobs").is_none());
        assert!(conversion("networking.k8s.io", "v1beta1", "ingresses").is_some());
    }
}
