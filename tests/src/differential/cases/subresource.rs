//! Scale, status, binding, eviction, log.

use serde_json::{Value, json};

use super::{Case, DEPLOYMENTS, PODS};

const MERGE: &str = "application/merge-patch+json";

pub(super) fn cases() -> Vec<Case> {
    let scale = format!("{DEPLOYMENTS}/web/scale");
    let status = json!({"status": {"replicas": 2, "observedGeneration": 1}});
    let pod = |rest: &str| format!("{PODS}/{rest}");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "none"}});
    let aimless = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {}});
    vec![
        Case::get("get a scale", &scale),
        Case::patch("patch a scale", &scale, MERGE, &json!({"spec": {"replicas": 5}})),
        Case::patch("patch a scale below zero", &scale, MERGE, &json!({"spec": {"replicas": -1}})),
        Case::patch("patch a status", &format!("{DEPLOYMENTS}/web/status"), MERGE, &status),
        Case::post("bind a pod that is not there", &pod("none/binding"), &binding("none", "n1")),
        Case::post("bind without a target", &pod("web/binding"), &aimless),
        Case::post("bind a pod", &pod("web/binding"), &binding("web", "n1")),
        Case::post("bind it again", &pod("web/binding"), &binding("web", "n2")),
        Case::post("evict a pod that is not there", &pod("none/eviction"), &eviction),
        Case::get("a log of a pod that is not there", &pod("none/log")),
    ]
}

fn binding(pod: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    })
}
