//! What every cluster has besides roles: namespaces, priority classes, services, and what joins and extensions read.

use serde_json::{Value, json};

use super::Settings;
use crate::pki::Pki;

pub(super) const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
const HTTPS_PORT: u16 = 443;
/// What a front proxy's certificate has to be called, and the headers in which it names the user.
const FRONT_PROXY_NAMES: &str = r#"["front-proxy-client"]"#;

pub(super) fn namespaces() -> Vec<Value> {
    NAMESPACES.iter().map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).collect()
}

/// In namespaces that exist by then.
pub(super) fn all(settings: &Settings, pki: Option<&Pki>) -> Vec<Value> {
    let mut all = priority_classes();
    all.push(kubernetes_service(settings));
    all.push(dns_service(settings));
    all.push(service_cidr(settings));
    if let Some(pki) = pki {
        all.push(extension_authentication(pki));
        all.push(cluster_info(settings, pki));
    }
    all
}

fn priority_classes() -> Vec<Value> {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "description": description,
        })
    };
    vec![
        class("system-cluster-critical", 2_000_000_000, "For pods that the cluster needs, on any node."),
        class("system-node-critical", 2_000_001_000, "For pods that a node needs, on that very node."),
    ]
}

/// The API as pods see it. It has no selector: its endpoints are the members that live.
fn kubernetes_service(settings: &Settings) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": settings.api_service_ip(), "clusterIPs": [settings.api_service_ip()],
            "type": "ClusterIP", "sessionAffinity": "None",
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": HTTPS_PORT, "protocol": "TCP", "targetPort": settings.api_port}],
        },
    })
}

/// Answered by each node itself, so it has neither selector nor endpoints.
fn dns_service(settings: &Settings) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kube-dns", "namespace": "kube-system",
            "labels": {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"},
        },
        "spec": {
            "clusterIP": settings.cluster_dns, "clusterIPs": [settings.cluster_dns],
            "type": "ClusterIP", "sessionAffinity": "None",
            "ipFamilyPolicy": "SingleStack",
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
            ],
        },
    })
}

fn service_cidr(settings: &Settings) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [settings.service_cidr.to_string()]},
    })
}

/// How extension API servers check who speaks to them.
fn extension_authentication(pki: &Pki) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "client-ca-file": pki.cluster().pem(),
            "requestheader-allowed-names": FRONT_PROXY_NAMES,
            "requestheader-client-ca-file": pki.front_proxy().pem(),
            "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
            "requestheader-group-headers": r#"["X-Remote-Group"]"#,
            "requestheader-uid-headers": r#"["X-Remote-Uid"]"#,
            "requestheader-username-headers": r#"["X-Remote-User"]"#,
        },
    })
}

/// Where the cluster is and which authority it has, for those who are about to join.
fn cluster_info(settings: &Settings, pki: &Pki) -> Value {
    use base64::Engine;
    let ca = base64::engine::general_purpose::STANDARD.encode(pki.cluster().pem());
    let kubeconfig = format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {ca}\n    server: {}\n  name: \"\"\n\
         contexts: null\ncurrent-context: \"\"\nkind: Config\nusers: null\n",
        Value::from(settings.api_url.as_str())
    );
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cluster-info", "namespace": "kube-public"},
        "data": {"kubeconfig": kubeconfig},
    })
}
