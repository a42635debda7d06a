//! Pod: what may be created, what may change afterwards, and its row in a table.

mod ephemeral;
mod label_keys;
mod resize;
mod row;
mod status;
#[cfg(test)]
mod tests;
mod update;

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Value, json};

use super::super::defaulting::{ensure, text};
use super::super::legacy::annotations;
use super::super::rules::{At, Errors};
use super::super::strategy::{Generation, Strategy};
use super::pod_spec::{self, Owner, defaults, qos, template, warnings};

pub(crate) use ephemeral::validate_update as validate_ephemeral_containers;
pub(crate) use resize::{narrow as narrow_resize, validate as validate_resize};

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update,
    validate_create,
    validate_update: update::validate,
    warnings: |new, old| {
        let mut all = warnings::pod(new, old);
        if old.is_none() {
            all.extend(annotations::warnings(new.as_map().get("metadata"), "metadata"));
        }
        all
    },
    prepare_status: status::prepare,
    validate_status: status::validate,
    columns: row::COLUMNS,
    cells: row::cells,
    field_labels,
    generation: Generation::OnSpecChange,
    guards: Some(crate::subresource::ledger::guards),
    graceful_delete: Some(grace_seconds),
    return_deleted_object: true,
    ..Strategy::DEFAULT
};

fn default(pod: &mut Object) {
    let is_new = pod.resource_version().is_none();
    let metadata = pod.as_map().get("metadata").cloned();
    let spec = ensure(pod.as_map_mut(), "spec");
    // The spec of a pod that exists is fixed, so an annotation that comes later says nothing.
    if is_new {
        annotations::to_fields(metadata.as_ref(), spec);
    }
    defaults::spec(spec);
    defaults::pod_only(spec);
    status::default(pod);
}

fn prepare_create(pod: &mut Object) {
    label_keys::merge(pod);
    let spec = ensure(pod.as_map_mut(), "spec");
    defaults::service_account(spec);
    let class = qos::class(spec);
    let gated = spec.get("schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty());
    let mut status = json!({"phase": "Pending", "qosClass": class});
    if gated {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod.as_map_mut().insert("status".to_owned(), status);
}

fn prepare_update(new: &mut Object, _old: &Object) {
    defaults::service_account(ensure(new.as_map_mut(), "spec"));
}

fn validate_create(pod: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    whole(pod, &mut errors);
    let spec = At::top(pod, "spec");
    if !spec.field("ephemeralContainers").is_empty() {
        errors.forbidden(&spec.field("ephemeralContainers"), "cannot be set on create");
    }
    if !spec.field("nodeName").is_empty() && !spec.field("schedulingGates").is_empty() {
        errors.forbidden(&spec.field("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
    errors.into_vec()
}

/// What every stored pod satisfies.
fn whole(pod: &Object, errors: &mut Errors) {
    let spec = At::top(pod, "spec");
    template::pod_annotations(&At::top(pod, "metadata").field("annotations"), &spec, errors);
    pod_spec::validate(&spec, Owner::Pod(pod.name()), errors);
    if !spec.field("serviceAccountName").is_empty() {
        return;
    }
    for volume in spec.field("volumes").items() {
        for source in volume.field("projected").field("sources").items() {
            let token = source.field("serviceAccountToken");
            if token.is_set() {
                errors.forbidden(&token, "must not be specified when serviceAccountName is not set");
            }
        }
    }
}

fn field_labels(pod: &Object) -> Vec<(&'static str, String)> {
    let empty = Value::Null;
    let (spec, status) = (pod.get("/spec").unwrap_or(&empty), pod.get("/status").unwrap_or(&empty));
    let host_network = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or_default();
    let ip = text(status, "podIP");
    vec![
        ("spec.nodeName", text(spec, "nodeName").to_owned()),
        ("spec.host", text(spec, "nodeName").to_owned()),
        ("spec.restartPolicy", text(spec, "restartPolicy").to_owned()),
        ("spec.schedulerName", text(spec, "schedulerName").to_owned()),
        ("spec.serviceAccountName", text(spec, "serviceAccountName").to_owned()),
        ("spec.hostNetwork", host_network.to_string()),
        ("status.phase", text(status, "phase").to_owned()),
        ("status.podIP", ip.to_owned()),
        ("status.podIPs", ip.to_owned()),
        ("status.nominatedNodeName", text(status, "nominatedNodeName").to_owned()),
    ]
}

/// How long the node may take to end the pod; nothing to wait for where nothing runs.
fn grace_seconds(pod: &Object, wish: Option<i64>) -> i64 {
    let phase = pod.get("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let assigned = pod.get("/spec/nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty());
    if !assigned || matches!(phase, "Failed" | "Succeeded") {
        return 0;
    }
    let own = pod.get("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    let seconds = wish.or(own).unwrap_or_default();
    if seconds < 0 { 1 } else { seconds }
}
