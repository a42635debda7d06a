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
    assert_eq!(bound.field("/metadata/generation"), 1, "where it runs is not part of what was asked for");
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
    let negative = world.delete(&path, &json!({"gracePeriodSeconds": -7})).await.expect(200);
    assert_eq!(negative.field("/metadata/deletionGracePeriodSeconds"), 1);
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

#[tokio::test(start_paused = true)]
async fn a_binding_clears_the_nomination() {
    let world = World::new().await;
    world.default_account("a").await;
    node(&world, "n1", "1", "10").await;
    pod(&world, "p", "1m").await;
    let nominated = json!({"status": {"nominatedNodeName": "n2"}});
    world.merge(&format!("{PODS}/p/status"), &nominated).await.expect(200);
    bind(&world, "p", "n1").await.expect(201);
    assert_eq!(world.get(&format!("{PODS}/p")).await.field("/status/nominatedNodeName"), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_port_on_every_address_is_no_neighbour_of_one_on_a_single_address() {
    let world = World::new().await;
    world.default_account("a").await;
    node(&world, "n1", "1", "10").await;
    for (name, address) in [("one", "10.0.0.1"), ("same", "10.0.0.1"), ("other", "10.0.0.2"), ("all", "0.0.0.0")] {
        let port = json!({"containerPort": 80, "hostPort": 80, "hostIP": address});
        let pod =
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "ports": [port]}]}});
        world.post(PODS, &pod).await.expect(201);
    }
    bind(&world, "one", "n1").await.expect(201);
    bind(&world, "same", "n1").await.expect(409);
    bind(&world, "other", "n1").await.expect(201);
    let refused = bind(&world, "all", "n1").await.expect(409);
    assert!(refused.message().contains("has no free port/TCP/80"), "{}", refused.message());
    for name in ["one", "other"] {
        world.delete(&format!("{PODS}/{name}"), &json!({"gracePeriodSeconds": 0})).await.expect(200);
    }
    bind(&world, "all", "n1").await.expect(201);
    bind(&world, "same", "n1").await.expect(409);
}

/// A pod that finalizers hold ends now, not when its first grace would have ended.
#[tokio::test(start_paused = true)]
async fn a_held_pod_ends_when_it_is_told_to() {
    let world = World::new().await;
    world.default_account("a").await;
    node(&world, "n1", "1", "10").await;
    let held = json!({"metadata": {"name": "p", "finalizers": ["example.com/hold"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    world.post(PODS, &held).await.expect(201);
    bind(&world, "p", "n1").await.expect(201);
    let path = format!("{PODS}/p");
    world.delete(&path, &Value::Null).await.expect(200);
    let now = world.delete(&path, &json!({"gracePeriodSeconds": 0})).await.expect(200);
    assert_eq!(now.field("/metadata/deletionGracePeriodSeconds"), 0);
    assert_eq!(now.field("/metadata/deletionTimestamp"), "2026-01-01T00:00:00Z");
    world.merge(&path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    world.get(&path).await.expect(404);
}

/// What `kubectl debug` sends, and what else its right is good for: nothing.
#[tokio::test(start_paused = true)]
async fn a_container_to_look_inside_is_added_and_nothing_else() {
    let world = World::new().await;
    world.default_account("a").await;
    let made = json!({
        "metadata": {"name": "p", "labels": {"app": "x"}, "finalizers": ["example.com/hold"]},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
    });
    world.post(PODS, &made).await.expect(201);
    let change = json!({
        "metadata": {"labels": {"app": "y"}, "annotations": {"a": "b"}, "finalizers": null},
        "spec": {"ephemeralContainers": [{"name": "look", "image": "busybox"}], "hostname": "h"},
    });
    let door = format!("{PODS}/p/ephemeralcontainers");
    let looked = world.patch(&door, "application/strategic-merge-patch+json", &change).await.expect(200);
    assert_eq!(looked.field("/spec/ephemeralContainers/0/imagePullPolicy"), "Always");
    assert_eq!(looked.field("/spec/ephemeralContainers/0/terminationMessagePolicy"), "File");
    assert_eq!(looked.field("/spec/hostname"), Value::Null);
    assert_eq!(looked.field("/metadata/generation"), 2);
    let resize = json!({
        "metadata": {"labels": {"app": "y"}},
        "spec": {"containers": [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "2"}}}]},
    });
    let path = format!("{PODS}/p/resize");
    let resized = world.patch(&path, "application/strategic-merge-patch+json", &resize).await.expect(200);
    assert_eq!(resized.field("/spec/containers/0/resources/requests/cpu"), "2");
    assert_eq!(
        (resized.field("/spec/containers/0/image"), resized.field("/metadata/generation")),
        (json!("i"), json!(3))
    );
    for answer in [looked, resized] {
        assert_eq!(answer.field("/metadata/labels"), json!({"app": "x"}));
        assert_eq!(answer.field("/metadata/annotations"), Value::Null);
        assert_eq!(answer.field("/metadata/finalizers"), json!(["example.com/hold"]));
    }
    let more = json!({"spec": {"containers": [{"name": "d", "image": "i"}]}});
    let refused = world.patch(&path, "application/strategic-merge-patch+json", &more).await.expect(422);
    assert!(refused.message().contains("containers may not be added or removed on resize"), "{}", refused.message());
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_found_wherever_it_is_stored() {
    let world = World::new().await;
    world.default_account("a").await;
    node(&world, "n1", "1", "10").await;
    let budgets = "/apis/policy/v1/namespaces/a/poddisruptionbudgets";
    let budget = |name: &str, app: &str| json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}});
    // More than one page of the store lies before the pod's own.
    for index in 0..510 {
        world.post(budgets, &budget(&format!("b{index:03}"), "other")).await.expect(201);
    }
    world.post(budgets, &budget("z", "x")).await.expect(201);
    let status = |allowed: i64| {
        json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 2,
            "desiredHealthy": 1, "expectedPods": 2}})
    };
    world.merge(&format!("{budgets}/z/status"), &status(1)).await.expect(200);
    for name in ["p1", "p2", "p3"] {
        pod(&world, name, "1m").await;
        bind(&world, name, "n1").await.expect(201);
        let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        world.merge(&format!("{PODS}/{name}/status"), &running).await.expect(200);
    }
    let evict = |name: &'static str, headers: &'static [(&str, &str)], body: String| {
        let world = &world;
        async move { world.call(http::Method::POST, &format!("{PODS}/{name}/eviction"), headers, body).await }
    };
    // An old client, in YAML.
    let old = "apiVersion: policy/v1beta1\nkind: Eviction\nmetadata: {name: p1}\n".to_owned();
    evict("p1", &[("content-type", "application/yaml")], old).await.expect(201);
    let spent = world.get(&format!("{budgets}/z")).await;
    assert_eq!(
        (spent.field("/status/conditions/0/type"), spent.field("/status/conditions/0/reason")),
        (json!("DisruptionAllowed"), json!("InsufficientPods"))
    );
    let eviction = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let json = [("content-type", "application/json")].as_slice();
    evict("p2", json, eviction("p2").to_string()).await.expect(429);
    let many: serde_json::Map<String, Value> =
        (0..2001).map(|index| (format!("d{index}"), json!("2026-01-01T00:00:00Z"))).collect();
    let mut full = status(1);
    full["status"]["disruptedPods"] = many.into();
    world.merge(&format!("{budgets}/z/status"), &full).await.expect(200);
    let refused = evict("p2", json, eviction("p2").to_string()).await.expect(403);
    assert!(refused.message().contains("DisruptedPods map too big"), "{}", refused.message());
}
