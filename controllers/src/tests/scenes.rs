use serde_json::{Value, json};

use super::{Cluster, deployment, node, template};
use crate::testing::{Address, World};

fn count(world: &World, plural: &str) -> usize {
    world.list(plural).len()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|own| own["type"] == kind)
}

fn complete(world: &World, replicas: i64) -> bool {
    let deployments = world.list("deployments");
    let reason = |own: &Value| condition(own, "Progressing").is_some_and(|c| c["reason"] == "NewReplicaSetAvailable");
    deployments.iter().all(|own| {
        own["status"]["availableReplicas"] == replicas && own["status"]["replicas"] == replicas && reason(own)
    })
}

#[tokio::test(start_paused = true)]
async fn a_lagging_watch_never_creates_twice() {
    let cluster = Cluster::start();
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("nginx:1")},
    });
    cluster.fake.until("the account", |world| count(world, "serviceaccounts") == 1).await;
    cluster.fake.hold("pods");
    cluster.create("apps", "replicasets", owner);
    cluster.fake.until("three pods", |world| count(world, "pods") == 3).await;
    // Whatever wakes the owner now, its pods are invisible to it.
    for round in 0..5 {
        cluster.patch(
            "apps",
            "replicasets",
            "web",
            "",
            &json!({"metadata": {"labels": {"round": format!("r{round}")}}}),
        );
        tokio::task::yield_now().await;
    }
    // However long it takes.
    quorate_env::Clock::real().sleep(std::time::Duration::from_secs(300)).await;
    assert_eq!(count(&cluster.fake.snapshot(), "pods"), 3);
    cluster.fake.release("pods");
    cluster.fake.until("the status", |world| world.list("replicasets")[0]["status"]["replicas"] == 3).await;
    let made =
        cluster.fake.world().log.iter().filter(|own| own.address.plural == "pods" && own.kind == "ADDED").count();
    assert_eq!(made, 3);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_lost_creates_nothing_twice() {
    let cluster = Cluster::start();
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("nginx:1")},
    });
    cluster.fake.until("the account", |world| count(world, "serviceaccounts") == 1).await;
    // Nothing shows what was made, and nothing says so.
    cluster.fake.hold("pods");
    cluster.fake.lose_answer("pods");
    cluster.create("apps", "replicasets", owner);
    let fake = cluster.fake.clone();
    cluster
        .fake
        .until("a pod without an answer", |world| count(world, "pods") > 0 && fake.answer_is_lost("pods"))
        .await;
    quorate_env::Clock::real().sleep(std::time::Duration::from_secs(60)).await;
    cluster.fake.release("pods");
    cluster.fake.until("the status", |world| world.list("replicasets")[0]["status"]["replicas"] == 3).await;
    let world = cluster.fake.snapshot();
    assert_eq!(world.log.iter().filter(|own| own.address.plural == "pods" && own.kind == "ADDED").count(), 3);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_held_namespace_costs_little() {
    let cluster = Cluster::start();
    cluster
        .fake
        .until("the gifts", |world| count(world, "configmaps") == 1 && count(world, "serviceaccounts") == 1)
        .await;
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.org/hold"]},
    });
    cluster.create("", "configmaps", held);
    cluster.fake.act(|world| world.delete(&Address::new("", "namespaces", "", "a"), &json!({})).unwrap());
    cluster
        .fake
        .until("all but the held one gone", |world| {
            count(world, "configmaps") == 1 && count(world, "serviceaccounts") == 0
        })
        .await;
    quorate_env::Clock::real().sleep(std::time::Duration::from_secs(20)).await;
    let before = cluster.fake.lists();
    quorate_env::Clock::real().sleep(std::time::Duration::from_secs(80)).await;
    let lists = cluster.fake.lists() - before;
    assert!((5..=20).contains(&lists), "{lists} lists");
    let release = json!({"metadata": {"finalizers": null}});
    cluster.patch("", "configmaps", "held", "", &release);
    cluster.fake.until("the namespace gone", |world| count(world, "namespaces") == 0).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_rolls_serves_and_is_collected() {
    let cluster = Cluster::start();
    cluster.run_pods();
    cluster.create("", "nodes", node());
    cluster.create("apps", "deployments", deployment(3, "nginx:1"));
    cluster.create(
        "",
        "services",
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"clusterIP": "10.96.0.5", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
                "ports": [{"name": "", "port": 80, "targetPort": "http", "protocol": "TCP"}]},
        }),
    );
    cluster.fake.until("the first roll-out", |world| complete(world, 3)).await;
    cluster
        .fake
        .until("three ready endpoints", |world| {
            let slices = world.list("endpointslices");
            let endpoints = world.list("endpoints");
            slices.iter().any(|own| {
                own["endpoints"].as_array().is_some_and(|all| all.len() == 3) && own["ports"][0]["port"] == 80
            }) && endpoints
                .iter()
                .any(|own| own["subsets"][0]["addresses"].as_array().is_some_and(|all| all.len() == 3))
        })
        .await;
    cluster.patch("apps", "deployments", "web", "", &json!({"spec": {"template": template("nginx:2")}}));
    cluster
        .fake
        .until("the second roll-out", |world| {
            count(world, "replicasets") == 2
                && complete(world, 3)
                && world.list("deployments")[0]["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
                && world.list("pods").iter().all(|pod| pod["spec"]["containers"][0]["image"] == "nginx:2")
        })
        .await;
    cluster.patch("apps", "deployments", "web", "", &json!({"spec": {"replicas": 5}}));
    cluster.fake.until("five", |world| complete(world, 5)).await;
    cluster.fake.act(|world| world.delete(&Address::new("apps", "deployments", "a", "web"), &json!({})).unwrap());
    cluster.fake.until("everything collected", |world| count(world, "replicasets") + count(world, "pods") == 0).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_the_dependents() {
    let cluster = Cluster::start();
    cluster.run_pods();
    cluster.create("apps", "deployments", deployment(2, "nginx:1"));
    cluster.fake.until("the roll-out", |world| complete(world, 2)).await;
    let address = Address::new("apps", "deployments", "a", "web");
    cluster.fake.act(|world| world.delete(&address, &json!({"propagationPolicy": "Foreground"})).unwrap());
    cluster
        .fake
        .until("nothing left", |world| {
            count(world, "deployments") + count(world, "replicasets") + count(world, "pods") == 0
        })
        .await;
    let world = cluster.fake.snapshot();
    let ended = |plural: &str| {
        world
            .log
            .iter()
            .filter(|own| own.address.plural == plural && own.kind == "DELETED")
            .map(|own| own.revision)
            .max()
    };
    assert!(ended("pods") < ended("replicasets") && ended("replicasets") < ended("deployments"));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn orphans_stay() {
    let cluster = Cluster::start();
    cluster.run_pods();
    cluster.create("apps", "deployments", deployment(2, "nginx:1"));
    cluster.fake.until("the roll-out", |world| complete(world, 2)).await;
    let address = Address::new("apps", "deployments", "a", "web");
    cluster.fake.act(|world| world.delete(&address, &json!({"propagationPolicy": "Orphan"})).unwrap());
    cluster
        .fake
        .until("the deployment alone gone", |world| {
            count(world, "deployments") == 0
                && world.list("replicasets").iter().all(|own| own["metadata"]["ownerReferences"].is_null())
        })
        .await;
    let world = cluster.fake.snapshot();
    assert_eq!((count(&world, "replicasets"), count(&world, "pods")), (1, 2));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_ends_with_all_it_holds() {
    let cluster = Cluster::start();
    cluster.run_pods();
    cluster.create("apps", "deployments", deployment(2, "nginx:1"));
    cluster.create(
        "example.org",
        "widgets",
        json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}}),
    );
    cluster
        .fake
        .until("the roll-out and the gifts", |world| {
            complete(world, 2) && count(world, "configmaps") == 1 && count(world, "serviceaccounts") == 1
        })
        .await;
    cluster.fake.act(|world| world.delete(&Address::new("", "namespaces", "", "a"), &json!({})).unwrap());
    cluster.fake.until("an empty world", |world| world.objects.keys().all(|own| own.plural == "events")).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_loses_its_pods() {
    let cluster = Cluster::start();
    cluster.run_pods();
    cluster.create("", "nodes", node());
    let mut other = node();
    other["metadata"]["name"] = json!("n2");
    cluster.create("", "nodes", other);
    cluster.create("apps", "deployments", deployment(1, "nginx:1"));
    cluster.fake.until("the roll-out", |world| complete(world, 1)).await;
    let beating = cluster.fake.clone();
    cluster.scope.spawn_until_cancelled("heartbeat", async move {
        for beat in 0.. {
            quorate_env::Clock::real().sleep(std::time::Duration::from_secs(10)).await;
            let body =
                json!({"metadata": {"name": "n2"}, "spec": {"renewTime": format!("2026-01-01T00:00:00.{beat:06}Z")}});
            let at = Address::new("coordination.k8s.io", "leases", "kube-node-lease", "n2");
            beating.act(|world| {
                if world.objects.contains_key(&at) {
                    let place = crate::testing::Place { address: at, subresource: String::new() };
                    world.patch(&place, crate::action::PatchKind::Merge, &body).unwrap();
                } else {
                    world.create(at, body).unwrap();
                }
            });
        }
    });
    cluster
        .fake
        .until("taints on the silent node", |world| {
            let node = world.list("nodes").into_iter().find(|own| own["metadata"]["name"] == "n1").unwrap();
            condition(node, "Ready").is_some_and(|ready| ready["status"] == "Unknown")
                && node["spec"]["taints"].as_array().is_some_and(|taints| taints.len() == 2)
        })
        .await;
    cluster
        .fake
        .until("its pod evicted", |world| {
            world.log.iter().any(|own| own.kind == "DELETED" && own.address.plural == "pods")
        })
        .await;
    let world = cluster.fake.snapshot();
    let healthy = world.list("nodes").into_iter().find(|own| own["metadata"]["name"] == "n2").unwrap();
    assert!(healthy["spec"]["taints"].is_null(), "{healthy}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_template_is_told() {
    let cluster = Cluster::start();
    cluster.fake.act(|world| world.refused.insert("pods".to_owned()));
    cluster.create("apps", "deployments", deployment(3, "nginx:1"));
    cluster
        .fake
        .until("the failure in both statuses", |world| {
            let told = |plural: &str| {
                world
                    .list(plural)
                    .iter()
                    .any(|own| condition(own, "ReplicaFailure").is_some_and(|c| c["reason"] == "FailedCreate"))
            };
            told("replicasets") && told("deployments")
        })
        .await;
    cluster.fake.act(|world| world.refused.clear());
    cluster.run_pods();
    cluster
        .fake
        .until("recovery", |world| {
            complete(world, 3) && world.list("replicasets").iter().all(|own| condition(own, "ReplicaFailure").is_none())
        })
        .await;
    cluster.stop().await;
}
