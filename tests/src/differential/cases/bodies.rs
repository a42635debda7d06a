//! The objects that the cases send.

use serde_json::{Value, json};

pub(super) fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub(super) fn unknown_field(name: &str) -> Value {
    let mut object = config_map(name, &json!({"k": "v"}));
    object["dta"] = json!({"k": "v"});
    object["metadata"]["nmae"] = json!("x");
    object
}

pub(super) fn invalid_config_map() -> Value {
    let mut object = config_map("Not_A_Name", &json!({"a b": "v"}));
    object["metadata"]["labels"] = json!({"bad label": "-"});
    object
}

pub(super) fn invalid_role() -> Value {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"]}]);
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": rules})
}

pub(super) fn empty_pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "empty"}, "spec": {"containers": []}})
}

pub(super) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"automountServiceAccountToken": false, "containers": [{
            "name": "web", "image": "web:1", "ports": [{"containerPort": 80}],
            "resources": {"requests": {"cpu": "0.1", "memory": "128Mi"}, "limits": {"memory": "0.25Gi"}},
            "readinessProbe": {"httpGet": {"path": "/", "port": 80}}}]},
    })
}

pub(super) fn invalid_pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Bad_Name"},
        "spec": {"restartPolicy": "Sometimes", "volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}],
            "containers": [{"name": "A", "image": "", "ports": [{"containerPort": 0}],
                "env": [{"name": "", "value": "x"}], "volumeMounts": [{"name": "w", "mountPath": ""}],
                "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]},
    })
}

pub(super) fn service(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"clusterIP": address, "selector": {"app": "web"}, "ports": [{"port": 80}]},
    })
}

pub(super) fn invalid_service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "9bad"},
        "spec": {"type": "Sideways", "sessionAffinity": "Often", "ports": [
            {"port": 70000}, {"name": "UP", "port": 80, "protocol": "ICMP", "targetPort": "a_b"}]},
    })
}

pub(super) fn deployment(name: &str, selected: &str, label: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": selected}}, "template": {
            "metadata": {"labels": {"app": label}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}},
    })
}
