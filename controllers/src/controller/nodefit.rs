//! May a pod of this template stand on that node: names, labels and taints, as the scheduler judges them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::string_map;
use crate::projection::{Node, Projected, Taint, Toleration};

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Name, node selector and required node affinity.
pub fn chooses(spec: &Value, node: &Node) -> bool {
    let named = text(spec, "nodeName");
    if !named.is_empty() && named != node.name() {
        return false;
    }
    let selector = string_map(spec.get("nodeSelector"));
    if !selector.iter().all(|(key, value)| node.labels().get(key) == Some(value)) {
        return false;
    }
    let required = spec.pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    required.is_none_or(|required| list(required, "nodeSelectorTerms").iter().any(|term| term_matches(term, node)))
}

/// All expressions and all fields must match; a term without any matches nothing.
fn term_matches(term: &Value, node: &Node) -> bool {
    let (expressions, fields) = (list(term, "matchExpressions"), list(term, "matchFields"));
    let named = BTreeMap::from([("metadata.name".to_owned(), node.name().to_owned())]);
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|expression| requirement_matches(expression, node.labels()))
        && fields.iter().all(|field| requirement_matches(field, &named))
}

fn requirement_matches(requirement: &Value, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(text(requirement, "key"));
    let mut values = list(requirement, "values").iter().filter_map(Value::as_str);
    let number = |text: &str| text.parse::<i64>().ok();
    let mut compare = |holds: fn(i64, i64) -> bool| {
        let bound = values.next().and_then(number);
        value.and_then(|own| number(own)).zip(bound).is_some_and(|(own, bound)| holds(own, bound))
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

/// An empty key with `Exists` tolerates everything, an empty effect any effect.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let exists = toleration.operator == "Exists";
    let key = if toleration.key.is_empty() { exists } else { toleration.key == taint.key };
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    key && effect && (exists || toleration.value == taint.value)
}

/// Whether one of these effects of the node is not tolerated.
pub fn repels(tolerations: &[Toleration], node: &Node, effects: &[&str]) -> bool {
    let mut taints = node.spec.taints.iter().filter(|taint| effects.contains(&taint.effect.as_str()));
    taints.any(|taint| !tolerations.iter().any(|own| tolerates(own, taint)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_are_chosen_by_name_labels_and_terms() {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"a": "5"}}})).unwrap();
        let required = |term: &Value| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            }}})
        };
        let expression = |operator: &str, values: &[&str]| {
            required(&json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}))
        };
        let field = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]});
        for (spec, wanted) in [
            (json!({}), true),
            (json!({"nodeName": "m"}), false),
            (json!({"nodeSelector": {"a": "5"}}), true),
            (json!({"nodeSelector": {"a": "6"}}), false),
            (expression("In", &["4", "5"]), true),
            (expression("NotIn", &["5"]), false),
            (expression("Gt", &["4"]), true),
            (expression("Lt", &["5"]), false),
            (expression("DoesNotExist", &[]), false),
            (required(&field), true),
            (required(&json!({})), false),
        ] {
            assert_eq!(chooses(&spec, &node), wanted, "{spec}");
        }
    }
}
