//! The whole machinery against an API in memory: real client, watches, queue, executor.

use std::sync::Arc;

use quorate_env::{Env, Scope};
use serde_json::{Value, json};

use crate::testing::{Address, Fake, Place, World};
use crate::{Config, DEFAULT_NODE_GRACE, Metrics, run};

mod scenes;

struct Cluster {
    fake: Fake,
    scope: Scope,
}

impl Cluster {
    fn start() -> Self {
        let (fake, scope) = (Fake::default(), Scope::root("test"));
        fake.act(|world| {
            world
                .create(
                    Address::new("", "namespaces", "", "a"),
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}),
                )
                .unwrap()
        });
        let env = Env::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 1);
        let client = fake.client();
        let client_for = {
            let client = client.clone();
            Arc::new(move |_: &str| client.clone())
        };
        let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
        let config =
            Config { client, client_for, metrics, cluster_ca_pem: "PEM".to_owned(), node_grace: DEFAULT_NODE_GRACE };
        scope.spawn("controllers", run(config, env, scope.child("controllers")));
        Self { fake, scope }
    }

    fn create(&self, group: &str, plural: &str, object: Value) -> Value {
        let namespace = if plural == "nodes" || plural == "namespaces" { "" } else { "a" };
        self.fake.act(|world| world.create(Address::new(group, plural, namespace, ""), object).unwrap())
    }

    fn patch(&self, group: &str, plural: &str, name: &str, subresource: &str, patch: &Value) {
        let namespace = if plural == "nodes" || plural == "namespaces" { "" } else { "a" };
        let address = Address::new(group, plural, namespace, name);
        let place = Place { address, subresource: subresource.to_owned() };
        self.fake.act(|world| world.patch(&place, crate::action::PatchKind::Merge, patch).unwrap());
    }

    /// Stands in for scheduler and node: every pod that has no node yet gets one and becomes ready.
    fn run_pods(&self) {
        let fake = self.fake.clone();
        self.scope.spawn_until_cancelled("kubelet", async move {
            loop {
                fake.until("a pod to run", |world| next_pod(world).is_some()).await;
                fake.act(step_pod);
            }
        });
    }

    async fn stop(self) {
        assert!(self.scope.close(std::time::Duration::from_secs(10)).await.is_empty());
    }
}

fn next_pod(world: &World) -> Option<Address> {
    let waits = |pod: &Value| !pod["spec"]["nodeName"].is_string() || pod["metadata"]["deletionTimestamp"].is_string();
    world.objects.iter().find(|(at, pod)| at.plural == "pods" && waits(pod)).map(|(at, _)| at.clone())
}

fn step_pod(world: &mut World) {
    let Some(address) = next_pod(world) else { return };
    if world.objects[&address]["metadata"]["deletionTimestamp"].is_string() {
        world.delete(&address, &json!({"gracePeriodSeconds": 0})).unwrap();
        return;
    }
    let serial = world.revision % 250;
    let bind = json!({"spec": {"nodeName": "n1"}});
    let place = Place { address: address.clone(), subresource: String::new() };
    world.patch(&place, crate::action::PatchKind::Merge, &bind).unwrap();
    let status = json!({"status": {
        "phase": "Running",
        "podIP": format!("10.0.0.{serial}"),
        "podIPs": [{"ip": format!("10.0.0.{serial}")}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    let place = Place { address, subresource: "status".to_owned() };
    world.patch(&place, crate::action::PatchKind::Merge, &status).unwrap();
}

fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z"}},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    })
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image, "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}]}]}})
}

fn deployment(replicas: i32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        },
    })
}
