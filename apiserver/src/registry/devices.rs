//! The kinds of the resource group: devices, classes of them, and claims on them.

use quorate_api::object::Object;
use serde_json::Value;

use super::display::{AGE, NAME, NAME_AND_AGE, age, items_at, name, name_and_age, text, text_at};
use super::keep::keep_metadata;
use super::rules::{At, Errors};
use super::strategy::{Generation, Strategy};

pub(crate) static DEVICE_CLASS: Strategy =
    Strategy { columns: NAME_AND_AGE, cells: name_and_age, generation: Generation::OnSpecChange, ..Strategy::DEFAULT };

pub(crate) static CLAIM: Strategy = Strategy {
    prepare_status: keep_metadata,
    validate_update: |new, old| {
        let mut errors = Errors::default();
        errors.immutable(&At::top(new, "spec"), &At::top(old, "spec"));
        errors.into_vec()
    },
    columns: &[NAME, text("State", "Whether it is allocated and reserved."), AGE],
    cells: |claim, now| vec![name(claim), Value::from(state(claim)), age(claim, now)],
    ..Strategy::DEFAULT
};

fn state(claim: &Object) -> String {
    let mut words = Vec::new();
    if claim.is_deleting() {
        words.push("deleted");
    }
    if claim.get("/status/allocation").is_some() {
        words.push("allocated");
        if !items_at(claim, "/status/reservedFor").is_empty() {
            words.push("reserved");
        }
    } else if !claim.is_deleting() {
        words.push("pending");
    }
    words.join(",")
}

pub(crate) static CLAIM_TEMPLATE: Strategy = Strategy {
    validate_update: |new, old| {
        let mut errors = Errors::default();
        errors.immutable(&At::top(new, "spec"), &At::top(old, "spec"));
        errors.into_vec()
    },
    columns: NAME_AND_AGE,
    cells: name_and_age,
    ..Strategy::DEFAULT
};

pub(crate) static SLICE: Strategy = Strategy {
    validate_create: |slice| {
        let mut errors = Errors::default();
        let spec = At::top(slice, "spec");
        errors.need(&spec.field("driver"));
        errors.need(&spec.field("pool").field("name"));
        errors.into_vec()
    },
    validate_update: |new, old| {
        let mut errors = Errors::default();
        let (spec, before) = (At::top(new, "spec"), At::top(old, "spec"));
        errors.immutable(&spec.field("driver"), &before.field("driver"));
        errors.immutable(&spec.field("pool").field("name"), &before.field("pool").field("name"));
        errors.immutable(&spec.field("nodeName"), &before.field("nodeName"));
        errors.into_vec()
    },
    columns: &[
        NAME,
        text("Node", "The node that has the devices."),
        text("Driver", "Who manages them."),
        text("Pool", "The pool they belong to."),
        AGE,
    ],
    cells: |slice, now| {
        vec![
            name(slice),
            Value::from(text_at(slice, "/spec/nodeName")),
            Value::from(text_at(slice, "/spec/driver")),
            Value::from(text_at(slice, "/spec/pool/name")),
            age(slice, now),
        ]
    },
    field_labels: |slice| {
        vec![
            ("spec.nodeName", text_at(slice, "/spec/nodeName").to_owned()),
            ("spec.driver", text_at(slice, "/spec/driver").to_owned()),
        ]
    },
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};
