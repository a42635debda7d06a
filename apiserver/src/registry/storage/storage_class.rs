//! StorageClass and VolumeAttributesClass: kinds of storage.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::Value;

use super::super::core::pod_spec::volume_sources::csi_driver_name;
use super::super::defaulting::default_entry;
use super::super::display::{AGE, NAME, age, bool_at, boolean, or, text, text_at};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Strategy};

const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const RECLAIM_POLICIES: &[&str] = &["Delete", "Retain"];
const BINDING_MODES: &[&str] = &["Immediate", "WaitForFirstConsumer"];

pub(crate) static STRATEGY: Strategy = Strategy {
    default: |class| {
        default_entry(class.as_map_mut(), "reclaimPolicy", "Delete");
        default_entry(class.as_map_mut(), "volumeBindingMode", "Immediate");
    },
    validate_create,
    validate_update,
    columns: COLUMNS,
    cells,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text("Provisioner", "Who makes its volumes."),
    text("ReclaimPolicy", "What becomes of them when their claims go."),
    text("VolumeBindingMode", "When they are made."),
    boolean("AllowVolumeExpansion", "Whether they can grow."),
    AGE,
];

fn cells(class: &Object, now: Timestamp) -> Vec<Value> {
    vec![
        Value::from(shown_name(class, &DEFAULT_CLASS)),
        Value::from(text_at(class, "/provisioner")),
        Value::from(or(text_at(class, "/reclaimPolicy"), "Delete")),
        Value::from(or(text_at(class, "/volumeBindingMode"), "Immediate")),
        Value::from(bool_at(class, "/allowVolumeExpansion").unwrap_or_default()),
        age(class, now),
    ]
}

fn shown_name(class: &Object, annotations: &[&str]) -> String {
    let default = annotations.iter().any(|annotation| class.annotation(annotation) == Some("true"));
    if default { format!("{} (default)", class.name()) } else { class.name().to_owned() }
}

fn validate_create(class: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.need(&At::top(class, "provisioner"));
    errors.if_set_one_of(&At::top(class, "reclaimPolicy"), RECLAIM_POLICIES);
    errors.need_one_of(&At::top(class, "volumeBindingMode"), BINDING_MODES);
    errors.into_vec()
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if At::top(new, field).value() != At::top(old, field).value() {
            errors.forbidden(&At::top(new, field), format!("updates to {field} are forbidden."));
        }
    }
    errors.immutable(&At::top(new, "volumeBindingMode"), &At::top(old, "volumeBindingMode"));
    errors.extend(validate_create(new));
    errors.into_vec()
}

pub(crate) static ATTRIBUTES: Strategy = Strategy {
    validate_create: |class| {
        let mut errors = Errors::default();
        csi_driver_name(&At::top(class, "driverName"), &mut errors);
        errors.into_vec()
    },
    validate_update: |new, old| {
        let mut errors = Errors::default();
        for field in ["driverName", "parameters"] {
            errors.immutable(&At::top(new, field), &At::top(old, field));
        }
        errors.into_vec()
    },
    columns: &[NAME, text("DriverName", "Whose attributes they are."), AGE],
    cells: |class, now| {
        let own = shown_name(class, &["volumeattributesclass.alpha.kubernetes.io/is-default-class"]);
        vec![Value::from(own), Value::from(text_at(class, "/driverName")), age(class, now)]
    },
    ..Strategy::DEFAULT
};
