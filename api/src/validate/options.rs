//! The options of a request: field manager, dry run, field validation, propagation.

use serde_json::Value;

use crate::field::{FieldError, FieldPath};

pub const FIELD_MANAGER_MAX_BYTES: usize = 128;

/// What happens to an object's dependents when it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropagationPolicy {
    Foreground,
    Background,
    Orphan,
}

impl PropagationPolicy {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Foreground" => Some(Self::Foreground),
            "Background" => Some(Self::Background),
            "Orphan" => Some(Self::Orphan),
            _ => None,
        }
    }
}

pub fn field_manager(manager: &str, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > FIELD_MANAGER_MAX_BYTES {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_MAX_BYTES));
    }
    for (position, c) in manager.char_indices().filter(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' ')) {
        let code = u32::from(c);
        let message = format!("invalid character U+{code:04X} (at position {position})");
        errors.push(FieldError::invalid(path, manager, message));
    }
    errors
}

/// `dryRun` may be given several times; the only value is `All`.
pub fn dry_run(values: &[String], path: &FieldPath) -> Vec<FieldError> {
    if values.iter().all(|value| value == "All") {
        return Vec::new();
    }
    vec![FieldError::not_supported(path, Value::from(values.to_vec()), &["All"])]
}

pub fn field_validation(value: &str, path: &FieldPath) -> Vec<FieldError> {
    match value {
        "" | "Ignore" | "Warn" | "Strict" => Vec::new(),
        other => vec![FieldError::not_supported(path, other, &["", "Ignore", "Strict", "Warn"])],
    }
}

/// A server-side apply needs a manager and may force; no other patch may.
pub fn patch_options(is_apply: bool, manager: &str, force: Option<bool>) -> Vec<FieldError> {
    let at = FieldPath::new("fieldManager");
    let mut errors = Vec::new();
    if is_apply && manager.is_empty() {
        errors.push(FieldError::required(&at, "is required for apply patch"));
    }
    if !is_apply && force.is_some() {
        errors.push(FieldError::forbidden(&FieldPath::new("force"), "may not be specified for non-apply patch"));
    }
    errors.extend(field_manager(manager, &at));
    errors
}

/// The old and the new way to say what becomes of dependents exclude each other.
pub fn delete_options(
    orphan_dependents: Option<bool>,
    propagation: Option<&str>,
    dry_runs: &[String],
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = FieldPath::new("propagationPolicy");
    if let Some(policy) = propagation {
        if orphan_dependents.is_some() {
            let message = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(&at, policy, message));
        }
        if PropagationPolicy::parse(policy).is_none() {
            errors.push(FieldError::not_supported(&at, policy, &["Foreground", "Background", "Orphan", "nil"]));
        }
    }
    errors.extend(dry_run(dry_runs, &FieldPath::new("dryRun")));
    errors
}
