//! Which nodes a pod may choose, and which taints it bears: the rules that the scheduler, the daemon set controller and
//! taint eviction must read alike.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::object::StringMap;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// A taint as the rules read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taint<'a> {
    pub key: &'a str,
    pub value: &'a str,
    pub effect: &'a str,
}

/// A toleration as the rules read it; what is not given is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toleration<'a> {
    pub key: &'a str,
    pub operator: &'a str,
    pub value: &'a str,
    pub effect: &'a str,
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

impl<'a> Toleration<'a> {
    pub fn from_json(toleration: &'a Value) -> Self {
        Self {
            key: text(toleration, "key"),
            operator: text(toleration, "operator"),
            value: text(toleration, "value"),
            effect: text(toleration, "effect"),
        }
    }

    /// Upstream's `ToleratesTaint`: an empty key with `Exists` tolerates everything, an empty effect any effect.
    pub fn tolerates(&self, taint: Taint<'_>) -> bool {
        let exists = self.operator == "Exists";
        let key_fits = if self.key.is_empty() { exists } else { self.key == taint.key };
        let value_fits = exists || (matches!(self.operator, "" | "Equal") && self.value == taint.value);
        key_fits && value_fits && (self.effect.is_empty() || self.effect == taint.effect)
    }
}

/// Whether the node selector and the required node affinity of a pod spec let it onto the node.
pub fn chooses_node(spec: &Map<String, Value>, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let selector = StringMap::new(spec.get("nodeSelector"));
    let selected = selector.iter().all(|(key, value)| labels.get(key).is_some_and(|own| own == value));
    let affinity = spec.get("affinity").and_then(|affinity| affinity.get("nodeAffinity"));
    let required = affinity.and_then(|affinity| affinity.get(REQUIRED)).filter(|required| !required.is_null());
    selected
        && required.is_none_or(|required| {
            list(required, "nodeSelectorTerms").iter().any(|term| node_term_matches(term, name, labels))
        })
}

/// A node selector term: all expressions and all fields must match; a term without any matches nothing.
pub fn node_term_matches(term: &Value, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let (expressions, fields) = (list(term, "matchExpressions"), list(term, "matchFields"));
    let named = |field: &Value| (text(field, "key") == "metadata.name").then_some(name);
    !(expressions.is_empty() && fields.is_empty())
        && expressions
            .iter()
            .all(|expression| requirement_matches(expression, labels.get(text(expression, "key")).map(String::as_str)))
        && fields.iter().all(|field| requirement_matches(field, named(field)))
}

fn requirement_matches(requirement: &Value, value: Option<&str>) -> bool {
    let mut values = list(requirement, "values").iter().filter_map(Value::as_str);
    let number = |text: &str| text.parse::<i64>().ok();
    let mut compare = |holds: fn(i64, i64) -> bool| {
        let bound = values.next().and_then(number);
        value.and_then(number).zip(bound).is_some_and(|(own, bound)| holds(own, bound))
    };
    match text(requirement, "operator") {
        "Gt" => compare(|own, bound| own > bound),
        "Lt" => compare(|own, bound| own < bound),
        "In" => value.is_some_and(|value| values.any(|wanted| wanted == value)),
        "NotIn" => value.is_none_or(|value| values.all(|unwanted| unwanted != value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tolerations() {
        let taint = Taint { key: "k", value: "v", effect: "NoSchedule" };
        let cases = [
            (json!({"key": "k", "value": "v", "effect": "NoSchedule"}), true),
            (json!({"key": "k", "operator": "Equal", "value": "v"}), true),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "value": "w"}), false),
            (json!({"key": "k", "operator": "Gt", "value": "v"}), false),
            (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"value": "v"}), false),
        ];
        for (toleration, expected) in cases {
            assert_eq!(Toleration::from_json(&toleration).tolerates(taint), expected, "{toleration}");
        }
    }

    #[test]
    fn nodes_are_chosen_by_labels_and_terms() {
        let labels = BTreeMap::from([("a".to_owned(), "5".to_owned())]);
        let required = |term: &Value| json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}});
        let expression = |operator: &str, key: &str, values: &[&str]| {
            required(&json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        let field = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        for (spec, wanted) in [
            (json!({}), true),
            (json!({"nodeSelector": {"a": "5"}}), true),
            (json!({"nodeSelector": {"a": "6"}}), false),
            (json!({"nodeSelector": {"b": "5"}}), false),
            (expression("In", "a", &["4", "5"]), true),
            (expression("NotIn", "a", &["5"]), false),
            (expression("NotIn", "b", &["5"]), true),
            (expression("Gt", "a", &["4"]), true),
            (expression("Gt", "a", &["5"]), false),
            (expression("Lt", "a", &["6"]), true),
            (expression("Lt", "b", &["6"]), false),
            (expression("Exists", "a", &[]), true),
            (expression("DoesNotExist", "a", &[]), false),
            (expression("Near", "a", &["5"]), false),
            (required(&field("n")), true),
            (required(&field("m")), false),
            (required(&json!({})), false),
        ] {
            assert_eq!(chooses_node(spec.as_object().unwrap(), "n", &labels), wanted, "{spec}");
        }
    }
}
