//! `metadata` of a new object and of an update.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names::{NameCheck, label_key, label_value, name_is_dns_label};
use super::options::field_manager;
use super::{immutable, invalid_each, non_negative};
use crate::field::{FieldError, FieldPath};
use crate::name::Gvk;
use crate::object::{Object, OwnerReference, StringMap};
use crate::quote::quote;
use crate::resource::Scope;

/// Keys and values of all annotations of one object together.
pub const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;
const SUBRESOURCE_NAME_MAX_BYTES: usize = 256;
const FINALIZER_ORPHAN: &str = "orphan";
const FINALIZER_FOREGROUND: &str = "foregroundDeletion";

/// Everything wrong with the metadata of a new object, after its name was generated.
pub fn metadata_create(object: &Object, scope: Scope, name: NameCheck) -> Vec<FieldError> {
    let at = FieldPath::new("metadata");
    let mut errors = Vec::new();
    if let Some(prefix) = object.generate_name() {
        errors.extend(invalid_each(&at.child("generateName"), prefix, name(prefix, true)));
    }
    if object.name().is_empty() {
        errors.push(FieldError::required(&at.child("name"), "name or generateName is required"));
    } else {
        errors.extend(invalid_each(&at.child("name"), object.name(), name(object.name(), false)));
    }
    let namespace_at = at.child("namespace");
    match (scope, object.namespace()) {
        (Scope::Namespaced, None) => errors.push(FieldError::required(&namespace_at, "")),
        (Scope::Namespaced, Some(namespace)) => {
            errors.extend(invalid_each(&namespace_at, namespace, name_is_dns_label(namespace, false)));
        }
        (Scope::Cluster, Some(_)) => errors.push(FieldError::forbidden(&namespace_at, "not allowed on this type")),
        (Scope::Cluster, None) => {}
    }
    errors.extend(non_negative(object.generation(), &at.child("generation")));
    errors.extend(labels(object.labels(), &at.child("labels")));
    errors.extend(annotations(object.annotations(), &at.child("annotations")));
    errors.extend(owner_references(&object.owner_references(), &at.child("ownerReferences")));
    errors.extend(finalizers(&object.finalizers(), &at.child("finalizers")));
    errors.extend(managed_fields(object, &at.child("managedFields")));
    errors
}

/// Everything wrong with the metadata of an update. Both objects carry their server-kept fields.
pub fn metadata_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let at = FieldPath::new("metadata");
    let mut errors = Vec::new();
    if old.is_deleting() {
        errors.extend(no_new_finalizers(new, old, &at.child("finalizers")));
    }
    if new.resource_version().is_none() {
        errors.push(FieldError::invalid(&at.child("resourceVersion"), "", "must be specified for an update"));
    }
    errors.extend(non_negative(new.generation(), &at.child("generation")));
    if new.generation() < old.generation() {
        errors.push(FieldError::invalid(&at.child("generation"), new.generation(), "must not be decremented"));
    }
    let text = |value: Option<&str>| Value::from(value.unwrap_or_default());
    let kept = [
        ("name", text(Some(new.name())), text(Some(old.name()))),
        ("namespace", text(new.namespace()), text(old.namespace())),
        ("uid", text(new.uid()), text(old.uid())),
        ("creationTimestamp", time(new.creation_timestamp()), time(old.creation_timestamp())),
        ("deletionTimestamp", time(new.deletion_timestamp()), time(old.deletion_timestamp())),
        (
            "deletionGracePeriodSeconds",
            Value::from(new.deletion_grace_period_seconds()),
            Value::from(old.deletion_grace_period_seconds()),
        ),
    ];
    for (field, new, old) in &kept {
        errors.extend(immutable(Some(new), Some(old), &at.child(field)));
    }
    errors.extend(labels(new.labels(), &at.child("labels")));
    errors.extend(annotations(new.annotations(), &at.child("annotations")));
    errors.extend(owner_references(&new.owner_references(), &at.child("ownerReferences")));
    errors.extend(managed_fields(new, &at.child("managedFields")));
    errors
}

fn time(time: Option<crate::time::Time>) -> Value {
    Value::from(time.map(|time| time.to_string()))
}

pub fn labels(labels: StringMap<'_>, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.iter() {
        errors.extend(invalid_each(path, key, label_key(key)));
        errors.extend(invalid_each(path, value, label_value(value)));
    }
    errors
}

pub fn annotations(annotations: StringMap<'_>, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations.iter() {
        size += key.len() + value.len();
        // Only here the case of the prefix does not matter.
        errors.extend(invalid_each(path, key, label_key(&key.to_lowercase())));
    }
    if size > ANNOTATIONS_MAX_BYTES {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX_BYTES));
    }
    errors
}

pub fn owner_references(owners: &[OwnerReference], path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for (index, owner) in owners.iter().enumerate() {
        errors.extend(owner_reference(owner, &path.index(index)));
        if owner.controller != Some(true) {
            continue;
        }
        let name = format!("{}/{}", owner.kind, owner.name);
        if let Some(first) = &controller {
            let message = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
            );
            errors.push(FieldError::invalid(path, shown(owners), message));
        } else {
            controller = Some(name);
        }
    }
    errors
}

fn owner_reference(owner: &OwnerReference, path: &FieldPath) -> Vec<FieldError> {
    const EMPTY: &str = "must not be empty";
    let mut errors = Vec::new();
    let gvk = Gvk::from_type_fields(&owner.api_version, &owner.kind);
    let at = path.child("apiVersion");
    if owner.api_version.is_empty() {
        errors.push(FieldError::required(&at, EMPTY));
    } else if !gvk.as_ref().is_ok_and(|gvk| !gvk.version.is_empty()) {
        errors.push(FieldError::invalid(&at, owner.api_version.as_str(), "must be <group>/<version> or <version>"));
    }
    for (field, value) in [("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)] {
        if value.is_empty() {
            errors.push(FieldError::required(&path.child(field), EMPTY));
        }
    }
    let banned = Gvk::new("", "v1", "Event");
    if gvk.is_ok_and(|gvk| gvk == banned) {
        let message = format!("{banned} is disallowed from being an owner");
        errors.push(FieldError::invalid(path, shown(owner), message));
    }
    errors
}

pub fn finalizers(finalizers: &[&str], path: &FieldPath) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = finalizers.iter().flat_map(|name| finalizer_name(name, path)).collect();
    if finalizers.contains(&FINALIZER_ORPHAN) && finalizers.contains(&FINALIZER_FOREGROUND) {
        let message = format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(path, shown(&finalizers), message));
    }
    errors
}

pub fn finalizer_name(name: &str, path: &FieldPath) -> Vec<FieldError> {
    invalid_each(path, name, label_key(name))
}

fn no_new_finalizers(new: &Object, old: &Object, path: &FieldPath) -> Option<FieldError> {
    let new: BTreeSet<&str> = new.finalizers().into_iter().collect();
    let old: BTreeSet<&str> = old.finalizers().into_iter().collect();
    let extra: Vec<String> = new.difference(&old).map(|name| quote(name)).collect();
    if extra.is_empty() {
        return None;
    }
    let message = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        extra.join(", ")
    );
    Some(FieldError::forbidden(path, message))
}

pub fn managed_fields(object: &Object, path: &FieldPath) -> Vec<FieldError> {
    let entries = object.metadata().and_then(|metadata| metadata.get("managedFields")).and_then(Value::as_array);
    entries
        .into_iter()
        .flatten()
        .enumerate()
        .flat_map(|(index, entry)| managed_entry(entry, &path.index(index)))
        .collect()
}

fn managed_entry(entry: &Value, path: &FieldPath) -> Vec<FieldError> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut errors = Vec::new();
    match text("operation") {
        "" => errors.push(FieldError::required(&path.child("operation"), "must not be empty")),
        "Apply" | "Update" => {}
        other => errors.push(FieldError::not_supported(&path.child("operation"), other, &["Apply", "Update"])),
    }
    let fields_type = text("fieldsType");
    if !fields_type.is_empty() && fields_type != "FieldsV1" {
        errors.push(FieldError::invalid(&path.child("fieldsType"), fields_type, "must be `FieldsV1`"));
    }
    errors.extend(field_manager(text("manager"), &path.child("manager")));
    if text("subresource").len() > SUBRESOURCE_NAME_MAX_BYTES {
        errors.push(FieldError::too_long(&path.child("subresource"), SUBRESOURCE_NAME_MAX_BYTES));
    }
    errors
}

/// Plain data always has a JSON form.
fn shown<T: serde::Serialize + ?Sized>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}
