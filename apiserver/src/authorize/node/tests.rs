use serde_json::json;

use super::*;
use crate::identity::Identity;

fn graph() -> NodeGraph {
    let graph = NodeGraph::default();
    let pod = json!({
        "metadata": {"name": "p", "namespace": "a"},
        "spec": {
            "nodeName": "n1",
            "serviceAccountName": "robot",
            "imagePullSecrets": [{"name": "pull"}],
            "containers": [{"name": "c", "env": [{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "env", "key": "k"}}}]}],
            "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "from"}}]}],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "token", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}},
                {"name": "scratch", "ephemeral": {}},
                {"name": "secret", "secret": {"secretName": "vol"}},
            ],
        },
    });
    let (node, references) = references::read(pod.to_string().as_bytes()).unwrap();
    graph.0.write().set("a/p", Some(Bound { node: node.into(), references: references.into() }));
    graph
}

#[test]
fn a_node_reaches_what_is_its_own() {
    let graph = graph();
    let identity = Identity::node("n1");
    // verb, group, resource/subresource, namespace, name, field selector, allowed
    let cases = [
        ("get", "", "secrets", "a", "pull", "", true),
        ("watch", "", "secrets", "a", "vol", "", true),
        ("get", "", "secrets", "a", "from", "", true),
        ("get", "", "secrets", "b", "pull", "", false),
        ("list", "", "secrets", "a", "", "", false),
        ("update", "", "secrets", "a", "pull", "", false),
        ("get", "", "configmaps", "a", "kube-root-ca.crt", "", true),
        ("get", "", "configmaps", "a", "env", "", true),
        ("get", "", "configmaps", "a", "other", "", false),
        ("get", "", "persistentvolumeclaims", "a", "claim", "", true),
        ("get", "", "persistentvolumeclaims", "a", "p-scratch", "", true),
        ("create", "", "serviceaccounts/token", "a", "robot", "", true),
        ("create", "", "serviceaccounts/token", "a", "default", "", false),
        ("get", "", "pods", "a", "p", "", true),
        ("get", "", "pods", "a", "q", "", false),
        ("patch", "", "pods/status", "a", "p", "", true),
        ("patch", "", "pods", "a", "p", "", false),
        ("list", "", "pods", "", "", "spec.nodeName=n1", true),
        ("watch", "", "pods", "", "", "spec.nodeName==n1,status.phase!=Failed", true),
        ("list", "", "pods", "", "", "spec.nodeName=n2", false),
        ("list", "", "pods", "", "", "", false),
        ("patch", "", "nodes/status", "", "n1", "", true),
        ("patch", "", "nodes/status", "", "n2", "", false),
        ("delete", "", "nodes", "", "n1", "", false),
        ("list", "", "nodes", "", "", "", true),
        ("update", "coordination.k8s.io", "leases", "kube-node-lease", "n1", "", true),
        ("update", "coordination.k8s.io", "leases", "kube-node-lease", "n2", "", false),
        ("create", "coordination.k8s.io", "leases", "default", "", "", false),
        ("create", "", "events", "a", "", "", true),
        ("list", "", "services", "", "", "", true),
        ("watch", "discovery.k8s.io", "endpointslices", "", "", "", true),
        ("create", "authorization.k8s.io", "subjectaccessreviews", "", "", "", true),
        ("create", "apps", "deployments", "a", "", "", false),
        ("get", "rbac.authorization.k8s.io", "roles", "a", "r", "", false),
    ];
    for (verb, group, resource, namespace, name, field_selector, allowed) in cases {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let asked = Attributes {
            subresource,
            namespace,
            name,
            field_selector,
            ..Attributes::resource(&identity, verb, group, resource)
        };
        assert_eq!(decide("n1", &asked, &graph).is_ok(), allowed, "{asked:?}");
    }
}

#[test]
fn references_end_with_the_pod() {
    let graph = graph();
    assert!(graph.refers("n1", "a", Reference::Secret("pull".into())));
    graph.delete(&mut graph.0.write(), &Home::new("", "pods").object("a", "p"));
    assert!(!graph.refers("n1", "a", Reference::Secret("pull".into())));
    assert!(graph.0.read().nodes.is_empty());
}

#[test]
fn the_refusal_is_upstreams() {
    let identity = Identity::node("n1");
    let asked = Attributes { namespace: "a", name: "x", ..Attributes::resource(&identity, "get", "", "secrets") };
    let reason = decide("n1", &asked, &NodeGraph::default()).unwrap_err();
    assert_eq!(reason, "no relationship found between node 'n1' and this object");
}
