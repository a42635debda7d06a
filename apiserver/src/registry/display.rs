//! How table cells are worded: ages, lists, selectors, container names.

use jiff::Timestamp;
use quorate_api::object::Object;
use serde_json::Value;

use super::strategy::{AGE_DESCRIPTION, Column, NAME_DESCRIPTION};
pub(crate) use crate::table::{age, elapsed, human_duration};

pub(crate) const NONE: &str = "<none>";
pub(crate) const UNSET: &str = "<unset>";
pub(crate) const UNKNOWN: &str = "<unknown>";
/// Lists in cells show this many items and count the rest.
const SHOWN_ITEMS: usize = 3;

pub(crate) const NAME: Column =
    Column { name: "Name", kind: "string", format: "name", description: NAME_DESCRIPTION, priority: 0 };
pub(crate) const AGE: Column =
    Column { name: "Age", kind: "string", format: "", description: AGE_DESCRIPTION, priority: 0 };

pub(crate) const fn text(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

pub(crate) const fn integer(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "integer", format: "", description, priority: 0 }
}

pub(crate) const fn boolean(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "boolean", format: "", description, priority: 0 }
}

/// A column that only `-o wide` shows.
pub(crate) const fn wide(column: Column) -> Column {
    Column { priority: 1, ..column }
}

pub(crate) const CONTAINERS: Column = wide(text("Containers", "The names of the template's containers."));
pub(crate) const IMAGES: Column = wide(text("Images", "The images of the template's containers."));
pub(crate) const SELECTOR: Column = wide(text("Selector", "Which pods belong to the object."));

pub(crate) fn name(object: &Object) -> Value {
    Value::from(object.name())
}

/// The columns of kinds without a table of their own.
pub(crate) const CREATED_AT_COLUMNS: &[Column] =
    &[NAME, Column { name: "Created At", kind: "date", format: "", description: AGE_DESCRIPTION, priority: 0 }];

pub(crate) fn created_at_cells(object: &Object, _now: Timestamp) -> Vec<Value> {
    vec![name(object), object.get("/metadata/creationTimestamp").cloned().unwrap_or_default()]
}

pub(crate) const NAME_AND_AGE: &[Column] = &[NAME, AGE];

pub(crate) fn name_and_age(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

/// How long ago the time in `field` was.
pub(crate) fn since(field: Option<&Value>, now: Timestamp) -> String {
    match time(field) {
        Some(then) => elapsed(then, now),
        None => UNKNOWN.to_owned(),
    }
}

pub(crate) fn time(field: Option<&Value>) -> Option<Timestamp> {
    field.and_then(Value::as_str).and_then(|text| text.parse().ok())
}

/// The string at `pointer`, empty when absent.
pub(crate) fn text_at<'a>(object: &'a Object, pointer: &str) -> &'a str {
    object.get(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at `pointer`, zero when absent.
pub(crate) fn number_at(object: &Object, pointer: &str) -> i64 {
    object.get(pointer).and_then(Value::as_i64).unwrap_or_default()
}

pub(crate) fn bool_at(object: &Object, pointer: &str) -> Option<bool> {
    object.get(pointer).and_then(Value::as_bool)
}

/// The list at `pointer`, empty when absent.
pub(crate) fn items_at<'a>(object: &'a Object, pointer: &str) -> &'a [Value] {
    items(object.get(pointer))
}

pub(crate) fn items(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// How many entries the list or map at `pointer` has.
pub(crate) fn count_at(object: &Object, pointer: &str) -> i64 {
    let count = match object.get(pointer) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(entries)) => entries.len(),
        _ => 0,
    };
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// `text`, or `otherwise` when it is empty.
pub(crate) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

pub(crate) fn field<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The first few items and how many more there are.
pub(crate) fn first_few(items: &[String], when_empty: &str) -> String {
    let shown = items.iter().take(SHOWN_ITEMS).map(String::as_str).collect::<Vec<_>>().join(",");
    match items.len() {
        0 => when_empty.to_owned(),
        count if count > SHOWN_ITEMS => format!("{shown} + {} more...", count - SHOWN_ITEMS),
        _ => shown,
    }
}

/// The names and the images of the containers under `pod_spec`.
pub(crate) fn containers_and_images(object: &Object, pod_spec: &str) -> [Value; 2] {
    let containers = items_at(object, &format!("{pod_spec}/containers"));
    ["name", "image"].map(|key| {
        let parts: Vec<&str> = containers.iter().map(|container| field(container, key)).collect();
        Value::from(parts.join(","))
    })
}

/// A map of labels as `a=b,c=d`.
pub(crate) fn labels(map: Option<&Value>) -> String {
    let pairs: Vec<String> = map
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    or(&pairs.join(","), NONE).to_owned()
}

/// The selector of a workload: a label selector, or the plain map that the oldest kinds have.
pub(crate) fn selector_of(selector: Option<&Value>) -> String {
    let has = |part: &str| selector.and_then(|selector| selector.get(part)).is_some_and(|part| !part.is_string());
    if has("matchLabels") || has("matchExpressions") { label_selector(selector) } else { labels(selector) }
}

/// A label selector object in the query syntax; `<none>` selects everything or nothing.
pub(crate) fn label_selector(selector: Option<&Value>) -> String {
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector.and_then(|s| s.get("matchLabels")).and_then(Value::as_object).into_iter().flatten() {
        parts.push((key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for requirement in items(selector.and_then(|s| s.get("matchExpressions"))) {
        parts.push((field(requirement, "key").to_owned(), expression(requirement)));
    }
    parts.sort();
    let texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    or(&texts.join(","), NONE).to_owned()
}

fn expression(requirement: &Value) -> String {
    let key = field(requirement, "key");
    let mut values: Vec<&str> = items(requirement.get("values")).iter().filter_map(Value::as_str).collect();
    values.sort_unstable();
    let values = values.join(",");
    match field(requirement, "operator") {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.to_owned(),
        "DoesNotExist" => format!("!{key}"),
        _ => "<error>".to_owned(),
    }
}

/// Whether the list at `pointer` has a condition of this type with status True.
pub(crate) fn has_true_condition(object: &Object, pointer: &str, kind: &str) -> bool {
    items_at(object, pointer).iter().any(|c| field(c, "type") == kind && field(c, "status") == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_read_like_queries() {
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
            {"key": "old", "operator": "DoesNotExist"}]});
        assert_eq!(label_selector(Some(&selector)), "app=web,!old,tier in (a,b)");
        assert_eq!(label_selector(None), "<none>");
    }

    #[test]
    fn long_lists_are_cut() {
        let items: Vec<String> = (1..=5).map(|n| n.to_string()).collect();
        assert_eq!(first_few(&items, NONE), "1,2,3 + 2 more...");
        assert_eq!(first_few(&[], NONE), "<none>");
    }
}
