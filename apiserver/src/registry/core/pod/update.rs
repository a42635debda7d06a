//! What may change in a pod once it exists: images, more tolerations, fewer gates, a nearer deadline.

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Map, Value};

use super::super::super::difference::difference;
use super::super::super::rules::{At, Errors};
use super::super::pod_spec::template::MIRROR;
use super::super::pod_spec::{affinity, only_added_tolerations, only_removed_gates};

const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const MAX_DEADLINE: i64 = i32::MAX as i64;
const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                         `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    super::whole(new, &mut errors);
    annotations(new, old, &mut errors);
    spec(&At::top(new, "spec"), &At::top(old, "spec"), &mut errors);
    errors.into_vec()
}

/// Annotations that the node acts on when the pod starts are fixed.
pub(super) fn annotations(new: &Object, old: &Object, errors: &mut Errors) {
    let path = "annotations";
    let (new, old) = (At::top(new, "metadata").field(path), At::top(old, "metadata").field(path));
    for (key, value) in old.entries() {
        if new.key(key).value() != value.value() {
            fixed(&new.key(key), key, "may not remove or update", errors);
        }
    }
    for (key, value) in new.entries() {
        if !old.key(key).is_set() {
            fixed(&value, key, "may not add", errors);
        }
    }
}

fn fixed(at: &At<'_>, key: &str, what: &str, errors: &mut Errors) {
    if key.starts_with(APP_ARMOR_PREFIX) {
        errors.forbidden(at, format!("{what} AppArmor annotations"));
    }
    if key == MIRROR {
        errors.forbidden(at, format!("{what} mirror pod annotation"));
    }
}

fn spec(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for list in ["containers", "initContainers"] {
        if new.field(list).len() != old.field(list).len() {
            return errors.forbidden(&new.field(list), "pod updates may not add or remove containers");
        }
    }
    if !deadline(&new.field("activeDeadlineSeconds"), &old.field("activeDeadlineSeconds"), errors) {
        return;
    }
    only_added_tolerations(&new.field("tolerations"), &old.field("tolerations"), errors);
    only_removed_gates(&new.field("schedulingGates"), &old.field("schedulingGates"), errors);
    let (Some(new_spec), Some(old_spec)) = (new.value(), old.value()) else { return };
    if new_spec == old_spec {
        return;
    }
    let mut masked = new_spec.clone();
    mask(&mut masked, old_spec);
    if !old.field("schedulingGates").is_empty() {
        gated(new, old, &mut masked, errors);
    }
    if &masked != old_spec {
        errors.forbidden(new, format!("{UPDATABLE}\n{}", difference(old_spec, &masked, "spec")));
    }
}

/// A deadline may come, and may come nearer. Answers whether to look further.
fn deadline(new: &At<'_>, old: &At<'_>, errors: &mut Errors) -> bool {
    match (new.integer(), old.integer()) {
        (Some(seconds), _) if !(0..=MAX_DEADLINE).contains(&seconds) => {
            errors.invalid(new, format!("must be between 0 and {MAX_DEADLINE}, inclusive"));
            false
        }
        (Some(seconds), Some(before)) if before < seconds => {
            errors.invalid(new, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            errors.invalid(new, "must not update from a positive integer to nil value");
            true
        }
        (Some(_) | None, _) => true,
    }
}

/// Puts the old values where changes are allowed or judged elsewhere, so that the rest can be compared whole.
fn mask(spec: &mut Value, old: &Value) {
    for list in ["containers", "initContainers"] {
        let images: Vec<Option<Value>> =
            old.get(list).and_then(Value::as_array).into_iter().flatten().map(|c| c.get("image").cloned()).collect();
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, image) in containers.filter_map(Value::as_object_mut).zip(images) {
            put(container, "image", image);
        }
    }
    let Some(fields) = spec.as_object_mut() else { return };
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        put(fields, field, old.get(field).cloned());
    }
    let grace = |value: Option<&Value>| value.and_then(Value::as_i64);
    let before = grace(old.get("terminationGracePeriodSeconds"));
    if before.is_some_and(|seconds| seconds < 0) && grace(fields.get("terminationGracePeriodSeconds")) == Some(1) {
        put(fields, "terminationGracePeriodSeconds", old.get("terminationGracePeriodSeconds").cloned());
    }
}

fn put(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => fields.insert(name.to_owned(), value),
        None => fields.remove(name),
    };
}

/// While gated, where the pod may run can still be narrowed.
fn gated(new: &At<'_>, old: &At<'_>, masked: &mut Value, errors: &mut Errors) {
    let (selector, old_selector) = (new.field("nodeSelector"), old.field("nodeSelector"));
    if old_selector.entries().any(|(key, value)| selector.key(key).value() != value.value()) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&selector, detail);
    }
    let affinity = |spec: &At<'_>| spec.field("affinity").field("nodeAffinity").value().cloned();
    affinity::only_narrowed(
        &new.field("affinity").field("nodeAffinity"),
        &old.field("affinity").field("nodeAffinity"),
        errors,
    );
    let Some(fields) = masked.as_object_mut() else { return };
    put(fields, "nodeSelector", old_selector.value().cloned());
    if affinity(new) == affinity(old) {
        return;
    }
    let mut kept = fields.get("affinity").and_then(Value::as_object).cloned().unwrap_or_default();
    put(&mut kept, "nodeAffinity", affinity(old));
    let kept = (!kept.is_empty() || old.field("affinity").is_set()).then_some(Value::Object(kept));
    put(fields, "affinity", kept);
}
