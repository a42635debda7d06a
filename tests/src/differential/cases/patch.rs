//! PATCH in its three forms.

use serde_json::json;

use super::{CONFIG_MAPS, Case, DEPLOYMENTS, PODS, SERVICES};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub(super) fn cases() -> Vec<Case> {
    let one = format!("{CONFIG_MAPS}/one");
    let web = format!("{DEPLOYMENTS}/web");
    let operation = |op: &str, path: &str, value: &str| json!([{"op": op, "path": path, "value": value}]);
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}});
    let old = json!({"metadata": {"resourceVersion": "1"}});
    vec![
        Case::patch("merge patch", &one, MERGE, &json!({"data": {"k": null, "l": "m"}})),
        Case::patch("json patch", &one, JSON, &operation("add", "/data/n", "o")),
        Case::patch("json patch whose test fails", &one, JSON, &operation("test", "/data/n", "p")),
        Case::patch(
            "json patch to a path that is not there",
            &one,
            JSON,
            &json!([{"op": "remove", "path": "/data/none"}]),
        ),
        Case::patch("patch of an unknown type", &one, "application/toml", &json!({})),
        Case::patch("patch that is no object", &one, MERGE, &json!([1])),
        Case::patch("patch what is not there", &format!("{CONFIG_MAPS}/none"), MERGE, &json!({})),
        Case::patch("patch with an old revision", &one, MERGE, &old),
        Case::patch("patch a type wrongly", &web, STRATEGIC, &json!({"spec": {"replicas": "many"}})),
        Case::patch("strategic patch by name", &web, STRATEGIC, &image),
    ]
}

/// Fields that do not change once they are set.
pub(super) fn fixed() -> Vec<Case> {
    let (deployment, pod, service) = (format!("{DEPLOYMENTS}/web"), format!("{PODS}/web"), format!("{SERVICES}/web"));
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "else"}}}});
    let container = json!({"spec": {"containers": [{"name": "more", "image": "more"}]}});
    let address = json!({"spec": {"clusterIP": "10.96.0.51", "clusterIPs": ["10.96.0.51"]}});
    vec![
        Case::patch("patch a selector, which is fixed", &deployment, STRATEGIC, &selector),
        Case::patch("patch a pod's containers, which are fixed", &pod, STRATEGIC, &container),
        Case::patch("patch a service's address, which is fixed", &service, MERGE, &address),
    ]
}
