//! Fields that are a number or a percentage, as text.

use serde_json::Value;

use super::rules::{At, Errors};

const NO_PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                          '93%', regex used for validation is '[0-9]+%')";

/// Not negative, and if it is text, a percentage.
pub(crate) fn not_negative(at: &At<'_>, errors: &mut Errors) {
    match at.value() {
        Some(Value::String(text)) if percent(text).is_none() => errors.invalid(at, NO_PERCENT),
        Some(Value::String(_)) | None => {}
        Some(_) => errors.not_negative(at),
    }
}

pub(crate) fn at_most_all(at: &At<'_>, errors: &mut Errors) {
    if percent(at.text()).is_some_and(|percent| percent > 100) {
        errors.invalid(at, "must not be greater than 100%");
    }
}

/// The number as it is, a percentage's digits.
pub(crate) fn magnitude(at: &At<'_>) -> i64 {
    percent(at.text()).unwrap_or_else(|| at.number())
}

/// As cells show it.
pub(crate) fn shown(value: Option<&Value>, otherwise: &str) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => otherwise.to_owned(),
        Some(number) => number.to_string(),
    }
}

fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_make_a_percentage() {
        assert_eq!(percent("25%"), Some(25));
        for text in ["25", "-1%", "%", "a%"] {
            assert_eq!(percent(text), None, "{text}");
        }
    }
}
