//! ControllerRevision: a controller's memory of one of its templates.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::Value;

use super::super::display::{AGE, NAME, NONE, age, name, number_at, text};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Strategy};

pub(crate) static STRATEGY: Strategy =
    Strategy { validate_create, validate_update, columns: COLUMNS, cells, ..Strategy::DEFAULT };

const COLUMNS: &[Column] =
    &[NAME, text("Controller", "Whose revision it is."), text("Revision", "Its number; higher is newer."), AGE];

fn cells(revision: &Object, now: Timestamp) -> Vec<Value> {
    let controller = revision.controller_owner().map_or_else(
        || NONE.to_owned(),
        |owner| {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            let dot = if group.is_empty() { "" } else { "." };
            format!("{}{dot}{group}/{}", owner.kind.to_lowercase(), owner.name)
        },
    );
    vec![name(revision), Value::from(controller), Value::from(number_at(revision, "/revision")), age(revision, now)]
}

fn validate_create(revision: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    if !At::top(revision, "data").is_set() {
        errors.required(&At::top(revision, "data"), "data is mandatory");
    }
    errors.not_negative(&At::top(revision, "revision"));
    errors.into_vec()
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.immutable(&At::top(new, "data"), &At::top(old, "data"));
    errors.not_negative(&At::top(new, "revision"));
    errors.into_vec()
}
