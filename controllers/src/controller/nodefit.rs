//! May a pod of this template stand on that node: names, labels and taints, as the scheduler judges them.

use quorate_api::placement::{self, chooses_node};
use serde_json::Value;

use crate::projection::{Node, Projected, Taint, Toleration};

/// Name, node selector and required node affinity.
pub fn chooses(spec: &Value, node: &Node) -> bool {
    let Some(spec) = spec.as_object() else { return true };
    let named = spec.get("nodeName").and_then(Value::as_str).unwrap_or_default();
    (named.is_empty() || named == node.name()) && chooses_node(spec, node.name(), node.labels())
}

pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let toleration = placement::Toleration {
        key: &toleration.key,
        operator: &toleration.operator,
        value: &toleration.value,
        effect: &toleration.effect,
    };
    toleration.tolerates(placement::Taint { key: &taint.key, value: &taint.value, effect: &taint.effect })
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
    fn nodes_are_chosen_by_name_and_labels() {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"a": "5"}}})).unwrap();
        for (spec, wanted) in [
            (json!({}), true),
            (json!(null), true),
            (json!({"nodeName": "n"}), true),
            (json!({"nodeName": "m"}), false),
            (json!({"nodeName": "n", "nodeSelector": {"a": "6"}}), false),
        ] {
            assert_eq!(chooses(&spec, &node), wanted, "{spec}");
        }
    }

    #[test]
    fn a_taint_repels_by_its_effect() {
        let taints = json!([{"key": "k", "value": "v", "effect": "NoExecute"}]);
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"taints": taints}})).unwrap();
        let tolerating: Toleration = serde_json::from_value(json!({"key": "k", "operator": "Exists"})).unwrap();
        assert!(repels(&[], &node, &["NoSchedule", "NoExecute"]));
        assert!(!repels(&[], &node, &["NoSchedule"]));
        assert!(!repels(&[tolerating], &node, &["NoExecute"]));
    }
}
