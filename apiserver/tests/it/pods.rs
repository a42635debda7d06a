//! Pods: binding under the node's ledger, graceful deletion, eviction under a budget.

use serde_json::{Value, json};

use crate::world::{Answer, World};

const PODS: &str = "/api/v1/namespaces/a/pods";

async fn node(world: &World, name: &str, cpu: &str, pods: &str) {
    let node = json!({
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "1Gi", "pods": pods}, "capacity": {"cpu": cpu, "memory": "1Gi", "pods": pods}},
    });
    world.post("/api/v1/nodes", &node).await.expect(201);
}

async fn pod(world: &World, name: &str, cpu: &str) {
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
    });
    world.post(PODS, &pod).await.expect(201);
}

async fn bind(world: &World, pod: &str, node: &str) -> Answer {
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}});
    world.post(&format!("{PODS}/{pod}/binding"), &binding).await
}

async fn ledger(world: &World, node: &str) -> Value {
    let counters = world.server.storage().store().counters(format!("local/-/ledger/{node}")).await.unwrap();
    json!(counters)
}

#[tokio::test(start_paused = true)]
async fn a_node_is_never_overcommitted() {
    let world = World::new().await;
    world.default_account("a").await;
    node(&world, "n1", "1", "10").await;
    for name in ["p1", "p2", "p3"] {
        pod(&world, name, "400m").await;
    }
    bind(&world, "p1", "n1").await.expect(201);
    bind(&world, "p2", "n1").await.expect(201);
    let bound = world.get(&format!("{PODS}/p1")).await;
    assert_eq!(bound.field("/spec/nodeName"), "n1");
    assert_eq!(bound.field("/status/conditions/0/type"), "PodScheduled");
    let full = bind(&world, "p3", "n1").await.expect(409);
    assert!(full.message().contains("not enough cpu: 1200 would be allocated of 1000"), "{}", full.message());
    assert_eq!(ledger(&world, "n1").await, json!({"cpu": 800, "pods": 2}));
    let twice = bind(&world, "p1", "n1").await.expect(409);
    assert!(twice.message().contains("is already assigned to node \"n1\""), "{}", twice.message());
    world.delete(&format!("{PODS}/p1"), &json!({"gracePeriodSeconds": 0})).await.expect(200);
    assert_eq!(ledger(&world, "n1").await, json!({"cpu": 400, "pods": 1}), "the delete gave back");
    bind(&world, "p3", "n1").await.expect(201);
    world.merge(&format!("{PODS}/p3/status"), &json!({"status": {"phase": "Succeeded"}})).await.expect(200);
    assert_eq!(ledger(&world, "n1").await, json!({"cpu": 400, "pods": 1}), "the end gave back");
    world.delete(&format!("{PODS}/p3"), &json!({"gracePeriodSeconds": 0})).await.expect(200);
    assert_eq!(ledger(&world, "n1").await, json!({"cpu": 400, "pods": 1}), "but once");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_deleted_in_two_steps() {
    let world = World::new().await;
    world.default_account("a").await;
    node(&world, "n1", "1", "10").await;
    pod(&world, "p", "1m").await;
    bind(&world, "p", "n1").await.expect(201);
    let path = format!("{PODS}/p");
    let marked = world.delete(&path, &Value::Null).await.expect(200);
    assert_eq!(marked.field("/metadata/deletionGracePeriodSeconds"), 30);
    assert_eq!(marked.field("/metadata/deletionTimestamp"), "2026-01-01T00:00:30Z");
    let shorter = world.delete(&path, &json!({"gracePeriodSeconds": 5})).await.expect(200);
    assert_eq!(shorter.field("/metadata/deletionTimestamp"), "2026-01-01T00:00:05Z");
    let longer = world.delete(&path, &json!({"gracePeriodSeconds": 60})).await.expect(200);
    assert_eq!(longer.field("/metadata/deletionGracePeriodSeconds"), 5);
    world.delete(&path, &json!({"gracePeriodSeconds": 0})).await.expect(200);
    world.get(&path).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn evictions_spend_the_budget() {
    let world = World::new().await;
    world.default_account("a").await;
    node(&world, "n1", "1", "10").await;
    let budgets = "/apis/policy/v1/namespaces/a/poddisruptionbudgets";
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    world.post(budgets, &budget).await.expect(201);
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    }});
    world.merge(&format!("{budgets}/b/status"), &status).await.expect(200);
    for name in ["p1", "p2"] {
        pod(&world, name, "1m").await;
        bind(&world, name, "n1").await.expect(201);
        let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        world.merge(&format!("{PODS}/{name}/status"), &running).await.expect(200);
    }
    let eviction = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    world.post(&format!("{PODS}/p1/eviction"), &eviction("p1")).await.expect(201);
    let going = world.get(&format!("{PODS}/p1")).await;
    assert_ne!(going.field("/metadata/deletionTimestamp"), Value::Null);
    let spent = world.get(&format!("{budgets}/b")).await;
    assert_eq!(spent.field("/status/disruptionsAllowed"), 0);
    assert_eq!(spent.field("/status/disruptedPods/p1"), "2026-01-01T00:00:00Z");
    let refused = world.post(&format!("{PODS}/p2/eviction"), &eviction("p2")).await;
    insta::assert_snapshot!("eviction_refused", refused.golden());
}
