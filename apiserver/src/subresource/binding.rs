//! `pods/binding`: a pod gets its node, in one transaction with the node's ledger.

use std::sync::Arc;

use http::Response;
use quorate_api::field::{FieldError, FieldPath};
use quorate_api::name::{GroupKind, GroupResource, Gvk};
use quorate_api::object::Object;
use quorate_api::status::Status;
use quorate_api::time::Time;
use serde_json::{Value, json};

use super::door::Door;
use crate::body::Body;
use crate::call::Call;
use crate::registry::Row;
use crate::verb::options::WriteOptions;
use crate::verb::write::{Part, Writer};
use crate::{decode, respond};

/// What the binding changes has been checked here. The pod's place is no wish of its owner's, so its generation stays.
const BOUND: Door = Door { narrow: |_, _| {}, validate: |_, _| Vec::new(), counts_as_change: false };

/// The old door: a binding posted by itself, naming its pod.
pub(crate) async fn create(call: &mut Call) -> Result<Response<Body>, Status> {
    let pods = call.server.registry().row("v1", "pods").cloned().ok_or_else(Status::unknown_resource)?;
    handle(call, &pods).await
}

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&call.query, "CreateOptions")?;
    let body = call.read_body().await?;
    let binding = decode::object(call, &body, &Gvk::new("", "v1", "Binding"), options.field_validation)?;
    let name = if call.info.name.is_empty() { binding.name().to_owned() } else { call.info.name.clone() };
    if !binding.name().is_empty() && binding.name() != name {
        let message = format!("name in URL does not match name in Binding object: {name:?} vs {:?}", binding.name());
        return Err(Status::bad_request(message));
    }
    check(&binding)?;
    let now = Time::from_timestamp(call.now());
    let namespace = call.info.namespace.clone();
    let writer =
        Writer { call, row, namespace: &namespace, name: &name, subresource: "binding", dry_run: options.dry_run };
    let transform = |old: &Object| bound(old, &binding, now);
    writer.update(Part::Through(BOUND), &transform, None).await?;
    Ok(respond::status(&Status::success(201)))
}

fn check(binding: &Object) -> Result<(), Status> {
    let target = FieldPath::new("target");
    let mut errors = Vec::new();
    let kind = text(binding, "/target/kind");
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::not_supported(&target.child("kind"), kind, &["Node", "<empty>"]));
    }
    if text(binding, "/target/name").is_empty() {
        errors.push(FieldError::required(&target.child("name"), ""));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("", "Binding"), binding.name(), &errors))
}

/// The pod on its node.
fn bound(old: &Object, binding: &Object, now: Time) -> Result<Object, Status> {
    let door = GroupResource::new("", "pods/binding");
    let conflict = |why: String| Err(Status::conflict(&door, old.name(), why));
    let name = old.name();
    if let Some(uid) = binding.uid().filter(|uid| Some(*uid) != old.uid()) {
        let own = old.uid().unwrap_or_default();
        return conflict(format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"));
    }
    if old.is_deleting() {
        return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = text(old, "/spec/nodeName");
    if !node.is_empty() {
        return conflict(format!("pod {name} is already assigned to node {node:?}"));
    }
    if old.get("/spec/schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty()) {
        return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut new = old.clone();
    new.set("/spec/nodeName", text(binding, "/target/name")).map_err(Status::internal)?;
    for (key, value) in binding.annotations().iter() {
        new.set_annotation(key, value);
    }
    for (key, value) in binding.labels().iter() {
        new.set_label(key, value);
    }
    // Whatever node was meant for it before: readers must not take that for a plan still.
    new.remove("/status/nominatedNodeName");
    set_condition(&mut new, json!({"type": "PodScheduled", "status": "True"}), now)?;
    new.set_resource_version(binding.resource_version().or(old.resource_version()));
    Ok(new)
}

/// Sets a condition; its transition time changes with its status only.
pub(super) fn set_condition(pod: &mut Object, mut condition: Value, now: Time) -> Result<(), Status> {
    let mut conditions = pod.get("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let existing = conditions.iter_mut().find(|own| own.get("type") == condition.get("type"));
    let since = existing.as_ref().filter(|own| own.get("status") == condition.get("status"));
    condition["lastTransitionTime"] =
        since.and_then(|own| own.get("lastTransitionTime")).cloned().unwrap_or_else(|| now.to_string().into());
    match existing {
        Some(own) => *own = condition,
        None => conditions.push(condition),
    }
    pod.set("/status/conditions", conditions).map_err(Status::internal)
}

fn text<'a>(object: &'a Object, place: &str) -> &'a str {
    object.get(place).and_then(Value::as_str).unwrap_or_default()
}
