//! Which strategy, conversion and storage home each built-in resource has.

use super::strategy::{Conversion, Strategy};

/// The strategy of a built-in resource, the same for all its versions.
pub(crate) fn strategy(_group: &str, _plural: &str) -> &'static Strategy {
    &Strategy::DEFAULT
}

/// How one served version maps to the stored form; `None` for the storage version itself.
pub(crate) fn conversion(_group: &str, _version: &str, _plural: &str) -> Option<&'static Conversion> {
    None
}
