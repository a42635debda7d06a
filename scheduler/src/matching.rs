//! Does a term match: tolerations, node selector terms, label selectors.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::node::{NodeInfo, Taint};

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Upstream's `ToleratesTaint`: an empty key with `Exists` tolerates everything, an empty effect any effect.
pub fn tolerates(tolerations: &[Value], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        let (key, effect, operator) =
            (text(toleration, "key"), text(toleration, "effect"), text(toleration, "operator"));
        let key_fits = if key.is_empty() { operator == "Exists" } else { key == taint.key };
        let value_fits = operator == "Exists" || text(toleration, "value") == taint.value;
        key_fits && value_fits && (effect.is_empty() || effect == taint.effect)
    })
}

/// A node selector term: all expressions and all fields must match; a term without any matches nothing.
pub fn node_term_matches(term: &Value, node: &NodeInfo) -> bool {
    let (expressions, fields) = (list(term, "matchExpressions"), list(term, "matchFields"));
    let named = BTreeMap::from([("metadata.name".to_owned(), node.name.clone())]);
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|expression| requirement_matches(expression, &node.labels))
        && fields.iter().all(|field| requirement_matches(field, &named))
}

/// A LabelSelector in its JSON form; none matches nothing, an empty one everything.
pub fn label_selector_matches(selector: Option<&Value>, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = selector else { return false };
    let exact = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut exact = exact.map(|(key, value)| labels.get(key).map(String::as_str) == value.as_str());
    exact.all(|fits| fits) && list(selector, "matchExpressions").iter().all(|e| requirement_matches(e, labels))
}

fn requirement_matches(requirement: &Value, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(text(requirement, "key"));
    let mut values = list(requirement, "values").iter().filter_map(Value::as_str);
    let number = |text: &str| text.parse::<i64>().ok();
    match text(requirement, "operator") {
        "In" => value.is_some_and(|value| values.any(|wanted| wanted == value)),
        "NotIn" => value.is_none_or(|value| values.all(|unwanted| unwanted != value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => {
            value.and_then(|v| number(v)).zip(values.next().and_then(number)).is_some_and(|(own, bound)| own > bound)
        }
        "Lt" => {
            value.and_then(|v| number(v)).zip(values.next().and_then(number)).is_some_and(|(own, bound)| own < bound)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tolerations() {
        let taint = Taint { key: "k".into(), value: "v".into(), effect: "NoSchedule".into() };
        let cases = [
            (json!({"key": "k", "value": "v", "effect": "NoSchedule"}), true),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "value": "w"}), false),
            (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"value": "v"}), false),
        ];
        for (toleration, expected) in cases {
            assert_eq!(tolerates(std::slice::from_ref(&toleration), &taint), expected, "{toleration}");
        }
    }

    #[test]
    fn selectors() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let expression = |operator: &str, key: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let cases = [
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (expression("In", "a", &["1", "2"]), true),
            (expression("NotIn", "a", &["1"]), false),
            (expression("NotIn", "b", &["1"]), true),
            (expression("Exists", "b", &[]), false),
            (expression("DoesNotExist", "b", &[]), true),
            (expression("Gt", "a", &["0"]), true),
            (expression("Lt", "a", &["1"]), false),
        ];
        for (selector, expected) in cases {
            assert_eq!(label_selector_matches(Some(&selector), &labels), expected, "{selector}");
        }
        assert!(!label_selector_matches(None, &labels));
    }

    #[test]
    fn an_empty_node_term_matches_nothing() {
        let node = NodeInfo::from_json(&json!({"metadata": {"name": "n", "labels": {"a": "1"}}})).unwrap();
        assert!(!node_term_matches(&json!({}), &node));
        assert!(node_term_matches(
            &json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}),
            &node
        ));
    }
}
