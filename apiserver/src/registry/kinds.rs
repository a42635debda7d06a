//! Which strategy, conversion and storage home each built-in resource has.

use quorate_api::field::FieldError;
use quorate_api::object::Object;

use super::strategy::{Conversion, Strategy};

/// What an update through a subresource must keep to.
pub(crate) type DoorRules = fn(new: &Object, old: &Object) -> Vec<FieldError>;

/// The strategy of a built-in resource, the same for all its versions.
pub(crate) fn strategy(_group: &str, _plural: &str) -> &'static Strategy {
    &Strategy::DEFAULT
}

/// How one served version maps to the stored form; `None` for the storage version itself.
pub(crate) fn conversion(_group: &str, _version: &str, _plural: &str) -> Option<&'static Conversion> {
    None
}

/// Validation of updates through a subresource that lets part of an object through.
pub(crate) fn door_rules(_plural: &str, _subresource: &str) -> Option<DoorRules> {
    None
}
