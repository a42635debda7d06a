//! PodTemplate: a template stored on its own.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::Value;

use super::super::defaulting::ensure;
use super::super::display::{NAME, containers_and_images, labels, name, text};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Generation, Strategy};
use super::pod_spec::{defaults, template, warnings};

pub(crate) static STRATEGY: Strategy = Strategy {
    default: |object| defaults::template(ensure(object.as_map_mut(), "template")),
    validate_create,
    validate_update: |new, _| validate_create(new),
    warnings: |new, old| warnings::workload(new, old, &At::top(new, "template"), false),
    columns: COLUMNS,
    cells,
    generation: Generation::OnSpecChange,
    return_deleted_object: true,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text("Containers", "The names of the template's containers."),
    text("Images", "The images of the template's containers."),
    text("Pod Labels", "The labels of pods made from it."),
];

fn cells(object: &Object, _now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers_and_images(object, "/template/spec");
    vec![name(object), containers, images, Value::from(labels(object.get("/template/metadata/labels")))]
}

fn validate_create(object: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    template::validate(&At::top(object, "template"), &mut errors);
    errors.into_vec()
}
