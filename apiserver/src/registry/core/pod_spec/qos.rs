//! The quality-of-service class, from what the containers request and may use.

use std::collections::BTreeMap;

use quorate_api::quantity::Quantity;
use serde_json::Value;

use super::resources::amount;

const COUNTED: [&str; 2] = ["cpu", "memory"];

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub(crate) fn class(spec: &Value) -> &'static str {
    let pod_level = spec
        .get("resources")
        .filter(|resources| ["requests", "limits"].iter().any(|list| !amounts(resources, list).is_empty()));
    let owners: Vec<&Value> = match pod_level {
        Some(resources) => vec![resources],
        None => ["containers", "initContainers"]
            .iter()
            .flat_map(|list| spec.get(list).and_then(Value::as_array).into_iter().flatten())
            .map(|container| container.get("resources").unwrap_or(&Value::Null))
            .collect(),
    };
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    let mut all_limited = true;
    for owner in owners {
        let own_limits = amounts(owner, "limits");
        all_limited &= own_limits.len() == COUNTED.len();
        add(&mut requests, amounts(owner, "requests"));
        add(&mut limits, own_limits);
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let guaranteed = all_limited && requests.iter().all(|(name, wanted)| limits.get(name) == Some(wanted));
    if guaranteed && requests.len() == limits.len() { "Guaranteed" } else { "Burstable" }
}

/// The positive amounts that count.
fn amounts<'a>(resources: &'a Value, list: &str) -> BTreeMap<&'a str, Quantity> {
    let entries = resources.get(list).and_then(Value::as_object).into_iter().flatten();
    entries
        .filter(|(name, _)| COUNTED.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name.as_str(), amount(value)?)))
        .filter(|(_, amount)| *amount > Quantity::zero())
        .collect()
}

fn add<'a>(total: &mut BTreeMap<&'a str, Quantity>, more: BTreeMap<&'a str, Quantity>) {
    for (name, amount) in more {
        let sum = total.remove(name).unwrap_or_else(Quantity::zero).saturating_add(&amount);
        total.insert(name, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn three_classes() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let container = |resources: Value| json!({"containers": [{"resources": resources}]});
        assert_eq!(class(&container(json!({}))), "BestEffort");
        assert_eq!(class(&container(json!({"requests": {"cpu": "100m"}}))), "Burstable");
        assert_eq!(class(&container(json!({"requests": both, "limits": both}))), "Guaranteed");
        assert_eq!(class(&container(json!({"requests": {"cpu": "1"}, "limits": both}))), "Burstable");
        let mixed = json!({"containers": [{"resources": {"requests": both, "limits": both}}, {}]});
        assert_eq!(class(&mixed), "Burstable");
        assert_eq!(class(&json!({"resources": {"requests": both, "limits": both}, "containers": [{}]})), "Guaranteed");
    }
}
