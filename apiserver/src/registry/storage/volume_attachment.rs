//! VolumeAttachment: a volume that is, or shall be, attached to a node.

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::Value;

use super::super::display::{AGE, NAME, age, bool_at, boolean, name, text, text_at};
use super::super::keep::keep_metadata;
use super::super::rules::{At, Errors};
use super::super::strategy::{Generation, Strategy};

pub(crate) static STRATEGY: Strategy = Strategy {
    prepare_status: keep_metadata,
    validate_create,
    validate_update: |new, old| {
        let mut errors = Errors::default();
        errors.immutable(&At::top(new, "spec"), &At::top(old, "spec"));
        errors.into_vec()
    },
    columns: &[
        NAME,
        text("Attacher", "The driver that attaches it."),
        text("PV", "The volume."),
        text("Node", "The node."),
        boolean("Attached", "Whether it is done."),
        AGE,
    ],
    cells: |attachment, now| {
        vec![
            name(attachment),
            Value::from(text_at(attachment, "/spec/attacher")),
            Value::from(text_at(attachment, "/spec/source/persistentVolumeName")),
            Value::from(text_at(attachment, "/spec/nodeName")),
            Value::from(bool_at(attachment, "/status/attached").unwrap_or_default()),
            age(attachment, now),
        ]
    },
    generation: Generation::None,
    ..Strategy::DEFAULT
};

fn validate_create(attachment: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(attachment, "spec");
    errors.need(&spec.field("attacher"));
    errors.need(&spec.field("nodeName"));
    let source = spec.field("source");
    if !source.field("persistentVolumeName").is_set() && !source.field("inlineVolumeSpec").is_set() {
        errors.required(&source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName");
    }
    errors.into_vec()
}
