//! What a node's credentials reach: the images of its own pods, and nothing through them.

use http::Method;
use quorate_apiserver::Identity;
use serde_json::{Value, json};

use crate::world::World;

const PODS: &str = "/api/v1/namespaces/a/pods";

fn mirror(uid: &Value, change: &Value) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": true});
    let mut pod = json!({
        "metadata": {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    });
    merge(&mut pod, change);
    pod
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key.as_str()).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_mirror_pod_opens_nothing_to_its_node() {
    let world = World::new().await;
    let node = world.post("/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await.expect(201);
    let uid = node.field("/metadata/uid");
    let create = |change: Value| {
        let (world, pod) = (&world, mirror(&uid, &change));
        async move { world.by(Identity::node("n1"), Method::POST, PODS, &pod).await }
    };
    let volume = |source: Value| json!({"spec": {"volumes": [source]}});
    let itself = r#"node "n1" can only create pods with an owner reference set to itself"#;
    let refused = [
        (json!({"metadata": {"ownerReferences": []}}), itself),
        (
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": "u"}]}}),
            itself,
        ),
        (
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}]}}),
            r#"node "n1" can only create pods with a controller owner reference set to itself"#,
        ),
        (
            json!({"spec": {"containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "x"}}]}]}}),
            r#"node "n1" can not create pods that reference configmaps"#,
        ),
        (
            volume(json!({"name": "v", "persistentVolumeClaim": {"claimName": "x"}})),
            r#"node "n1" can not create pods that reference persistentvolumeclaims"#,
        ),
        (
            volume(
                json!({"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"name": "x", "path": "p"}}]}}),
            ),
            r#"node "n1" can not create pods that reference clustertrustbundles"#,
        ),
        (
            volume(json!({"name": "v", "azureFile": {"secretName": "x", "shareName": "s"}})),
            "a mirror pod may not reference secrets",
        ),
    ];
    for (change, why) in refused {
        let answer = create(change).await.expect(403);
        assert_eq!(answer.message(), format!(r#"pods "m" is forbidden: {why}"#));
    }
    let scratch = volume(json!({"name": "v", "emptyDir": {}}));
    create(scratch).await.expect(201);
    world.delete(&format!("{PODS}/m"), &json!({"gracePeriodSeconds": 0})).await.expect(200);
    let other = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "another", "controller": true});
    let answer = create(json!({"metadata": {"ownerReferences": [other]}})).await.expect(403);
    assert!(answer.message().contains("node n1 UID mismatch: expected another got "), "{}", answer.message());
}

#[tokio::test(start_paused = true)]
async fn a_node_reports_and_no_more() {
    let world = World::new().await;
    world.default_account("a").await;
    let by_node = |method: Method, path: String, body: Value| {
        let world = &world;
        async move { world.by(Identity::node("n1"), method, &path, &body).await }
    };
    let taken = json!({"metadata": {"name": "n1"}, "spec": {"configSource": {"configMap": {
        "namespace": "a", "name": "x", "kubeletConfigKey": "k"}}}});
    let refused = by_node(Method::POST, "/api/v1/nodes".to_owned(), taken).await.expect(403);
    assert_eq!(
        refused.message(),
        r#"nodes "n1" is forbidden: node "n1" is not allowed to create pods with a non-nil configSource"#
    );
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}});
    let mut stored = world.post(PODS, &pod).await.expect(201).json();
    stored["status"]["resourceClaimStatuses"] = json!([{"name": "gpu", "resourceClaimName": "somebodys"}]);
    let refused = by_node(Method::PUT, format!("{PODS}/p/status"), stored).await.expect(403);
    assert_eq!(refused.message(), r#"pods "p" is forbidden: node "n1" cannot update resource claim statues"#);
    let slices = "/apis/resource.k8s.io/v1/resourceslices".to_owned();
    let slice = |node: &str| {
        json!({"metadata": {"name": format!("s-{node}")}, "spec": {"nodeName": node,
        "driver": "d.example.com", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}})
    };
    let refused = by_node(Method::POST, slices.clone(), slice("n2")).await.expect(403);
    assert!(refused.message().ends_with("can only create ResourceSlice with the same NodeName as the requesting node"));
    by_node(Method::POST, slices, slice("n1")).await.expect(201);
}

/// A node gets tokens for whom its pods' volumes are, not for whomever it likes.
#[tokio::test(start_paused = true)]
async fn a_nodes_tokens_are_for_its_pods_audiences() {
    let world = World::new().await;
    world.default_account("a").await;
    let source = json!({"serviceAccountToken": {"path": "t", "audience": "vault"}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "nodeName": "n1", "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "projected": {"sources": [source]}}],
    }});
    let pod = world.post(PODS, &pod).await.expect(201);
    let ask = |audiences: Value| {
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.field("/metadata/uid")});
        let (world, wanted) = (&world, json!({"spec": {"audiences": audiences, "boundObjectRef": bound}}));
        let path = "/api/v1/namespaces/a/serviceaccounts/default/token";
        async move { world.by(Identity::node("n1"), Method::POST, path, &wanted).await }
    };
    // Nothing is refused but by the missing key.
    assert_eq!(ask(json!(["vault"])).await.expect(503).message(), "this server has no key to sign tokens with");
    let refused = ask(json!(["bank"])).await.expect(403);
    assert!(
        refused.message().ends_with(r#"system:node:n1 is not authorized to request tokens for audience "bank""#),
        "{}",
        refused.message()
    );
    let refused = ask(json!(["vault", "bank"])).await.expect(403);
    assert!(refused.message().ends_with("node may only request 0 or 1 audiences"), "{}", refused.message());
    ask(json!([])).await.expect(403);
}
