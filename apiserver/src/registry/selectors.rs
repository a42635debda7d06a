//! Labels and label selectors inside objects.

use quorate_api::object::StringMap;
use quorate_api::validate;
use serde_json::Value;

use super::rules::{At, Errors};

/// A map of labels: qualified names to label values.
pub(crate) fn labels(at: &At<'_>, errors: &mut Errors) {
    errors.extend(validate::labels(StringMap::new(at.value()), at.path()));
}

/// A `LabelSelector`; an absent one is fine.
pub(crate) fn label_selector(at: &At<'_>, errors: &mut Errors) {
    errors.extend(validate::label_selector(at.value(), at.path()));
}

/// The key of a label.
pub(crate) fn label_name(at: &At<'_>, errors: &mut Errors) {
    errors.invalid_each(at, validate::qualified_name(at.text()));
}

pub(crate) fn label_values(values: &At<'_>, errors: &mut Errors) {
    for value in values.items() {
        errors.invalid_each(&value, validate::label_value(value.text()));
    }
}

/// Whether a valid selector object matches a map of labels; an invalid one is judged elsewhere and matches.
pub(crate) fn matches(selector: &Value, labels: Option<&Value>) -> bool {
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let pairs = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let requirements = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    let fits = |requirement: &Value| {
        let field = |name: &str| requirement.get(name).and_then(Value::as_str).unwrap_or_default();
        let values = requirement.get("values").and_then(Value::as_array).into_iter().flatten();
        let own = label(field("key"));
        let listed = own.is_some_and(|own| values.clone().any(|value| value == own));
        match field("operator") {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => own.is_some(),
            "DoesNotExist" => own.is_none(),
            _ => true,
        }
    };
    pairs.clone().all(|(key, value)| label(key) == value.as_str()) && requirements.clone().all(fits)
}

/// Whether the selector selects nothing in particular.
pub(crate) fn is_empty_selector(at: &At<'_>) -> bool {
    at.field("matchLabels").is_empty() && at.field("matchExpressions").is_empty()
}
