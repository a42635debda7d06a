//! RuntimeClass: which runtime runs a pod.

use quorate_api::validate as names;
use serde_json::Value;

use super::super::core::pod_spec::overhead;
use super::super::display::{AGE, NAME, age, name, text, text_at};
use super::super::rules::{At, Errors};
use super::super::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    validate_create: |class| {
        let mut errors = Errors::default();
        let handler = At::top(class, "handler");
        errors.invalid_each(&handler, names::dns1123_label(handler.text()));
        overhead(&At::top(class, "overhead").field("podFixed"), &mut errors);
        errors.into_vec()
    },
    validate_update: |new, old| {
        let mut errors = Errors::default();
        errors.immutable(&At::top(new, "handler"), &At::top(old, "handler"));
        errors.into_vec()
    },
    columns: &[NAME, text("Handler", "The runtime's name on the node."), AGE],
    cells: |class, now| vec![name(class), Value::from(text_at(class, "/handler")), age(class, now)],
    allow_create_on_update: true,
    ..Strategy::DEFAULT
};
