//! Pods stay on a node that fails for five minutes, unless they say otherwise.

use quorate_api::object::Object;
use quorate_api::status::Status;
use serde_json::{Value, json};

use super::{AdmissionRequest, Operation};

const SECONDS: i64 = 300;
const KEYS: [&str; 2] = [super::taints::NOT_READY, "node.kubernetes.io/unreachable"];
const EFFECT: &str = "NoExecute";

pub(super) fn mutate(request: &AdmissionRequest<'_>, pod: &mut Object) -> Result<(), Status> {
    let writes = matches!(request.operation, Operation::Create | Operation::Update);
    if !writes || !request.is("", "pods") {
        return Ok(());
    }
    let held = pod.get("/spec/tolerations").and_then(Value::as_array);
    let missing: Vec<Value> = KEYS
        .iter()
        .filter(|key| !held.is_some_and(|held| held.iter().any(|toleration| tolerates(toleration, key))))
        .map(|key| json!({"effect": EFFECT, "key": key, "operator": "Exists", "tolerationSeconds": SECONDS}))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let all = held.into_iter().flatten().cloned().chain(missing).collect::<Vec<_>>();
    super::put(pod, "/spec/tolerations", all)
}

/// Whether the pod has said anything about this taint, also by a toleration of every key or effect.
fn tolerates(toleration: &Value, taint: &str) -> bool {
    let text = |field: &str| toleration.get(field).and_then(Value::as_str).unwrap_or_default();
    (text("key") == taint || text("key").is_empty()) && (text("effect") == EFFECT || text("effect").is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toleration_of_everything_counts() {
        for (toleration, expected) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": KEYS[0], "operator": "Exists"}), true),
            (json!({"key": KEYS[0], "effect": "NoExecute", "tolerationSeconds": 5}), true),
            (json!({"key": KEYS[0], "effect": "NoSchedule"}), false),
            (json!({"key": KEYS[1], "effect": "NoExecute"}), false),
        ] {
            assert_eq!(tolerates(&toleration, KEYS[0]), expected, "{toleration}");
        }
    }
}
