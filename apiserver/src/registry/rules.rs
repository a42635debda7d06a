//! The words that validation is written in: [`At`], a place in a document, and [`Errors`], what is wrong there.
//!
//! A rule is a plain function `fn container_port(port: &At<'_>, errors: &mut Errors)`. Absent, null and empty read the
//! same way (`text()` is `""`, `items()` has none), as they do to the clients that leave them out.

use std::collections::BTreeSet;

use quorate_api::field::{FieldError, FieldPath};
use quorate_api::object::Object;
use serde_json::Value;

/// What upstream says of a negative number.
pub(crate) const NEGATIVE: &str = "must be greater than or equal to 0";
/// What upstream says of a number that is not above zero.
pub(crate) const NOT_POSITIVE: &str = "must be greater than zero";
/// What upstream says of a changed field that may not change.
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// A place in a document: the value there, if any, and the path that error messages name.
#[derive(Clone, Debug)]
pub(crate) struct At<'a> {
    value: Option<&'a Value>,
    path: FieldPath,
}

impl<'a> At<'a> {
    /// The top-level field `name` of `object`.
    pub(crate) fn top(object: &'a Object, name: &str) -> Self {
        Self { value: object.as_map().get(name).filter(|value| !value.is_null()), path: FieldPath::new(name) }
    }

    /// No field in particular; upstream's messages show it so.
    pub(crate) fn nowhere() -> Self {
        Self { value: None, path: FieldPath::new("[]") }
    }

    /// The same value under a path of one name, which upstream gives a few nested fields.
    pub(crate) fn filed_at_top(&self, name: &str) -> At<'a> {
        At { value: self.value, path: FieldPath::new(name) }
    }

    /// A value that stands under `path`, wherever it comes from.
    pub(crate) fn with_path(value: Option<&'a Value>, path: FieldPath) -> Self {
        Self { value: value.filter(|value| !value.is_null()), path }
    }

    pub(crate) fn field(&self, name: &str) -> At<'a> {
        let value = self.value.and_then(|value| value.get(name)).filter(|value| !value.is_null());
        At { value, path: self.path.child(name) }
    }

    /// The same value under the path of `other`: for the messages that upstream files under another name.
    pub(crate) fn filed_under(&self, other: &At<'_>) -> At<'a> {
        At { value: self.value, path: other.path.clone() }
    }

    pub(crate) fn index(&self, index: usize) -> At<'a> {
        At { value: self.value.and_then(|value| value.get(index)), path: self.path.index(index) }
    }

    pub(crate) fn key(&self, key: &str) -> At<'a> {
        At { value: self.value.and_then(|value| value.get(key)), path: self.path.key(key) }
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = At<'a>> + use<'a> {
        let path = self.path.clone();
        let items = self.value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().enumerate().map(move |(index, value)| At { value: Some(value), path: path.index(index) })
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, At<'a>)> + use<'a> {
        let path = self.path.clone();
        let entries = self.value.and_then(Value::as_object).into_iter().flatten();
        entries.map(move |(key, value)| (key.as_str(), At { value: Some(value), path: path.key(key) }))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// Whether nothing is here, or an empty string, list or map, or zero.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Object(entries)) => entries.is_empty(),
            Some(Value::Number(number)) => number.as_i64() == Some(0),
            Some(Value::Bool(truth)) => !truth,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self.value {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(entries)) => entries.len(),
            _ => 0,
        }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    pub(crate) fn number(&self) -> i64 {
        self.integer().unwrap_or_default()
    }

    pub(crate) fn truth(&self) -> bool {
        self.boolean().unwrap_or_default()
    }

    pub(crate) fn boolean(&self) -> Option<bool> {
        self.value.and_then(Value::as_bool)
    }

    pub(crate) fn value(&self) -> Option<&'a Value> {
        self.value
    }

    pub(crate) fn path(&self) -> &FieldPath {
        &self.path
    }

    /// The value as messages show it.
    fn shown(&self) -> Value {
        self.value.cloned().unwrap_or(Value::Null)
    }

    /// The text as messages show it: an absent string reads `""`.
    fn shown_text(&self) -> Value {
        self.value.cloned().unwrap_or_else(|| Value::from(""))
    }
}

/// What is wrong with a document, in the order the rules found it.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    found: Vec<FieldError>,
}

impl Errors {
    pub(crate) fn into_vec(self) -> Vec<FieldError> {
        self.found
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    pub(crate) fn push(&mut self, error: FieldError) {
        self.found.push(error);
    }

    pub(crate) fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        self.found.extend(errors);
    }

    pub(crate) fn required(&mut self, at: &At<'_>, detail: &str) {
        self.push(FieldError::required(&at.path, detail));
    }

    pub(crate) fn invalid(&mut self, at: &At<'_>, detail: impl AsRef<str>) {
        self.invalid_value(at, at.shown(), detail);
    }

    pub(crate) fn invalid_value(&mut self, at: &At<'_>, value: impl Into<Value>, detail: impl AsRef<str>) {
        self.push(FieldError::invalid(&at.path, value.into(), detail.as_ref()));
    }

    /// One "Invalid value" for each message, as the name rules of upstream answer.
    pub(crate) fn invalid_each(&mut self, at: &At<'_>, messages: impl IntoIterator<Item = String>) {
        for message in messages {
            self.invalid_value(at, at.shown_text(), message);
        }
    }

    pub(crate) fn forbidden(&mut self, at: &At<'_>, detail: impl AsRef<str>) {
        self.push(FieldError::forbidden(&at.path, detail.as_ref()));
    }

    pub(crate) fn duplicate(&mut self, at: &At<'_>) {
        self.duplicate_value(at, at.shown());
    }

    pub(crate) fn duplicate_value(&mut self, at: &At<'_>, value: impl Into<Value>) {
        self.push(FieldError::duplicate(&at.path, value.into()));
    }

    pub(crate) fn duplicate_because(&mut self, at: &At<'_>, detail: &str) {
        let mut error = FieldError::duplicate(&at.path, at.shown());
        detail.clone_into(&mut error.detail);
        self.push(error);
    }

    /// A name that should have been among `known`.
    pub(crate) fn unknown_name(&mut self, at: &At<'_>, name: &str, detail: &str, known: &BTreeSet<&str>) {
        let mut error = FieldError::not_found(&at.path, name);
        let list: Vec<&str> = known.iter().copied().collect();
        error.detail =
            if list.is_empty() { format!("{detail} which is empty") } else { format!("{detail}: {}", list.join(", ")) };
        self.push(error);
    }

    pub(crate) fn not_found(&mut self, at: &At<'_>) {
        self.push(FieldError::not_found(&at.path, at.shown_text()));
    }

    pub(crate) fn not_supported(&mut self, at: &At<'_>, supported: &[&str]) {
        self.push(FieldError::not_supported(&at.path, at.shown_text(), supported));
    }

    pub(crate) fn too_long(&mut self, at: &At<'_>, max: usize) {
        self.push(FieldError::too_long(&at.path, max));
    }

    pub(crate) fn too_many(&mut self, at: &At<'_>, max: usize) {
        self.push(FieldError::too_many(&at.path, at.len(), max));
    }

    /// The field must be there and not empty. Answers whether it is.
    pub(crate) fn need(&mut self, at: &At<'_>) -> bool {
        let present = !at.is_empty();
        if !present {
            self.required(at, "");
        }
        present
    }

    /// Must be there and be one of `supported`.
    pub(crate) fn need_one_of(&mut self, at: &At<'_>, supported: &[&str]) {
        if self.need(at) {
            self.one_of(at, supported);
        }
    }

    /// Must be one of `supported`; an absent value counts as the empty string.
    pub(crate) fn one_of(&mut self, at: &At<'_>, supported: &[&str]) {
        if !supported.contains(&at.text()) {
            self.not_supported(at, supported);
        }
    }

    /// May be absent, else must be one of `supported`.
    pub(crate) fn if_set_one_of(&mut self, at: &At<'_>, supported: &[&str]) {
        if at.is_set() {
            self.one_of(at, supported);
        }
    }

    pub(crate) fn not_negative(&mut self, at: &At<'_>) {
        if at.number() < 0 {
            self.invalid(at, NEGATIVE);
        }
    }

    pub(crate) fn within(&mut self, at: &At<'_>, low: i64, high: i64) {
        if at.integer().is_some_and(|number| number < low || number > high) {
            self.invalid(at, format!("must be between {low} and {high}, inclusive"));
        }
    }

    pub(crate) fn immutable(&mut self, new: &At<'_>, old: &At<'_>) {
        if new.value != old.value {
            self.invalid(new, IMMUTABLE);
        }
    }
}
