//! A new node takes no pods until somebody has seen it ready.

use quorate_api::object::Object;
use quorate_api::status::Status;
use serde_json::{Value, json};

use super::{AdmissionRequest, Operation};

pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

pub(super) fn mutate(request: &AdmissionRequest<'_>, node: &mut Object) -> Result<(), Status> {
    if request.operation != Operation::Create || !request.is("", "nodes") {
        return Ok(());
    }
    let taint = json!({"effect": EFFECT, "key": NOT_READY});
    match node.get_mut("/spec/taints").and_then(Value::as_array_mut) {
        Some(taints) => {
            let same = |own: &Value| own.get("key") == taint.get("key") && own.get("effect") == taint.get("effect");
            if !taints.iter().any(same) {
                taints.push(taint);
            }
            Ok(())
        }
        None => super::put(node, "/spec/taints", json!([taint])),
    }
}
