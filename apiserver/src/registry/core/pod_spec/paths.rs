//! Paths inside volumes and images that must not lead out of them.

use super::super::super::rules::{At, Errors};

/// Relative and without `..` elements.
pub(super) fn descending(at: &At<'_>, errors: &mut Errors) {
    if at.text().starts_with('/') {
        errors.invalid(at, "must be a relative path");
    }
    no_backsteps(at, errors);
}

pub(super) fn no_backsteps(at: &At<'_>, errors: &mut Errors) {
    if has_backsteps(at.text()) {
        errors.invalid(at, "must not contain '..'");
    }
}

pub(super) fn has_backsteps(path: &str) -> bool {
    path.split('/').any(|element| element == "..")
}

/// Descending, and free of the names that atomic volume updates use.
pub(super) fn local_unreserved(at: &At<'_>, errors: &mut Errors) {
    descending(at, errors);
    let path = at.text();
    if path.starts_with("..") && !has_backsteps(path) {
        errors.invalid(at, "must not start with '..'");
    }
}

/// A file mode in its low nine bits.
pub(super) fn file_mode(at: &At<'_>, errors: &mut Errors) {
    if at.integer().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.invalid(at, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// A map from a key to a path, of ConfigMap and Secret volumes.
pub(super) fn key_to_path(item: &At<'_>, errors: &mut Errors) {
    errors.need(&item.field("key"));
    errors.need(&item.field("path"));
    local_unreserved(&item.field("path"), errors);
    file_mode(&item.field("mode"), errors);
}
