//! Validation shared by all kinds: names, labels, annotations, object metadata, request options.
//!
//! Functions that look at one text give messages (no path); functions that look at an object give [`FieldError`]s. An
//! empty list is a pass. All texts are upstream's.

mod metadata;
mod names;
mod options;
mod selector;
#[cfg(test)]
mod tests;
mod texts;

pub use metadata::{
    ANNOTATIONS_MAX_BYTES, annotations, finalizer_name, finalizers, labels, managed_fields, metadata_create,
    metadata_update, owner_references,
};
pub use names::{
    DNS1035_LABEL_MAX_LENGTH, DNS1123_LABEL_MAX_LENGTH, DNS1123_SUBDOMAIN_MAX_LENGTH, LABEL_VALUE_MAX_LENGTH,
    NameCheck, dns1035_label, dns1123_label, dns1123_subdomain, label_key, label_value, name_is_dns_label,
    name_is_dns_subdomain, name_is_dns1035_label, name_is_path_segment, qualified_name, wildcard_dns1123_subdomain,
};
pub use options::{
    FIELD_MANAGER_MAX_BYTES, PropagationPolicy, delete_options, dry_run, field_manager, field_validation, patch_options,
};
pub use selector::label_selector;
pub use texts::{
    c_identifier, config_map_key, env_var_name, group_id, http_header_name, in_range, percent, port_name, port_number,
    relaxed_env_var_name, user_id,
};

use serde_json::Value;

use crate::field::{FieldError, FieldPath};

/// One finding for each message about one value.
pub fn invalid_each(path: &FieldPath, value: &str, messages: Vec<String>) -> Vec<FieldError> {
    messages.into_iter().map(|message| FieldError::invalid(path, value, message)).collect()
}

pub fn non_negative(value: i64, path: &FieldPath) -> Vec<FieldError> {
    if value < 0 {
        return vec![FieldError::invalid(path, value, "must be greater than or equal to 0")];
    }
    Vec::new()
}

/// An absent field and `null` are the same.
pub fn immutable(new: Option<&Value>, old: Option<&Value>, path: &FieldPath) -> Vec<FieldError> {
    let (new, old) = (new.unwrap_or(&Value::Null), old.unwrap_or(&Value::Null));
    if new == old {
        return Vec::new();
    }
    vec![FieldError::invalid(path, new.clone(), "field is immutable")]
}
