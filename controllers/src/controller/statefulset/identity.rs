//! Names, labels and volumes by number.

use serde_json::{Value, json};

use super::{Row, Version};
use crate::action::Create;
use crate::controller::controller_reference;
use crate::controller::revisions::HASH_LABEL;
use crate::projection::{Pod, Projected, StatefulSet};
use crate::resource::Kind;

const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The number in the pod's name, if it is a name of this set.
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let number = pod.name().strip_prefix(set.name())?.strip_prefix('-')?;
    let parsed: i32 = number.parse().ok()?;
    (parsed.to_string() == number).then_some(parsed)
}

fn claim_name(template: &Value, pod: &str) -> String {
    format!("{}-{pod}", template["metadata"]["name"].as_str().unwrap_or_default())
}

/// The volume claims of a number that do not exist yet.
pub(super) fn missing_claims(row: &Row<'_>, pod: &str) -> Vec<Create> {
    let set = row.set;
    let missing = set.spec.volume_claim_templates.iter().filter(|own| !row.claims.contains(&claim_name(own, pod)));
    let create = |template: &Value| {
        let mut body = template.clone();
        body["apiVersion"] = json!("v1");
        body["kind"] = json!("PersistentVolumeClaim");
        body["metadata"]["name"] = json!(claim_name(template, pod));
        body["metadata"]["namespace"] = json!(set.namespace());
        for (key, value) in set.spec.selector["matchLabels"].as_object().into_iter().flatten() {
            body["metadata"]["labels"][key] = value.clone();
        }
        if let Some(fields) = body.as_object_mut() {
            fields.remove("status");
        }
        let namespace = Some(set.namespace().to_owned());
        Create { resource: Kind::PersistentVolumeClaim.resource(), namespace, body }
    };
    missing.map(create).collect()
}

/// The pod of a number, as one version of the template describes it.
pub(super) fn pod(set: &StatefulSet, version: &Version, ordinal: i32) -> Create {
    let name = format!("{}-{ordinal}", set.name());
    let template = &version.template;
    let mut metadata = json!({
        "name": name,
        "labels": template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({})),
        "ownerReferences": [controller_reference(Kind::StatefulSet, set)],
    });
    for field in ["annotations", "finalizers"] {
        if let Some(value) = template.pointer(&format!("/metadata/{field}")) {
            metadata[field] = value.clone();
        }
    }
    metadata["labels"][NAME_LABEL] = json!(name);
    metadata["labels"][INDEX_LABEL] = json!(ordinal.to_string());
    metadata["labels"][HASH_LABEL] = json!(version.name);
    let mut spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    spec["hostname"] = json!(name);
    if !set.spec.service_name.is_empty() {
        spec["subdomain"] = json!(set.spec.service_name);
    }
    if !set.spec.volume_claim_templates.is_empty() {
        spec["volumes"] = volumes(set, &spec, &name);
    }
    let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    Create { resource: Kind::Pod.resource(), namespace: Some(set.namespace().to_owned()), body }
}

/// The number's own claims take the place of template volumes of their names.
fn volumes(set: &StatefulSet, spec: &Value, pod: &str) -> Value {
    let own = set.spec.volume_claim_templates.iter().map(|template| {
        json!({"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name(template, pod)}})
    });
    let mut volumes: Vec<Value> = own.collect();
    let shared = spec["volumes"].as_array().into_iter().flatten();
    let taken: Vec<Value> = volumes.iter().map(|volume| volume["name"].clone()).collect();
    volumes.extend(shared.filter(|volume| !taken.contains(&volume["name"])).cloned());
    json!(volumes)
}
