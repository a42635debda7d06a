//! A whole agent on the simulated runtime: pods from the API become running, end, and are removed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]

#[path = "support/api.rs"]
mod api;
#[path = "support/contract.rs"]
mod contract;

use std::time::Duration;

use api::Api;
use quorate_env::{Env, Scope};
use quorate_node::config::{ClusterNetwork, ServerConfig};
use quorate_node::runtime::{Runtime, SimulatedRuntime};
use quorate_node::{Config, RuntimeChoice};
use serde_json::{Value, json};

fn config(root: &std::path::Path) -> Config {
    Config {
        name: "n1".into(),
        addresses: vec!["192.0.2.1".parse().unwrap()],
        zone: Some("z1".into()),
        labels: [("pool".to_owned(), "a".to_owned())].into(),
        root_dir: root.to_owned(),
        runtime: RuntimeChoice::Simulated,
        image_archives: Vec::new(),
        network: ClusterNetwork {
            pod_cidr: Some("10.244.1.0/24".parse().unwrap()),
            service_cidr: "10.96.0.0/16".parse().unwrap(),
            dns: "10.96.0.10".parse().unwrap(),
            domain: "cluster.local".into(),
        },
        server: ServerConfig { listen: None, tls: None },
        cgroup_root: "/quorate-test".into(),
        binary: "/bin/true".into(),
        max_pods: 110,
        run_proxy: false,
        run_dns: false,
    }
}

fn pod(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["nodeName"] = json!("n1");
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn the_simulated_runtime_keeps_the_contract() {
    let runtime = SimulatedRuntime::new(Env::real(), "10.244.1.0/24".parse().unwrap());
    let image = runtime.pull_image("docker.io/test/busybox:1", None).await.unwrap();
    contract::check(&Runtime::Simulated(runtime), &image).await;
}

#[tokio::test]
async fn pods_live_and_end() {
    let root = tempfile::tempdir().unwrap();
    let (api, env, scope) = (Api::new(), Env::real(), Scope::root("test"));
    let agent = quorate_node::run(config(root.path()), env, scope.clone(), api.client());
    let story = async {
        api.put("pods", pod("web", json!({"containers": [{"name": "c", "image": "nginx:1"}]})));
        let web = api.until("web", "Running", |pod| phase(pod) == "Running").await;
        assert_eq!(web["status"]["podIP"], "10.244.1.2");
        let ready = web["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!(ready["status"], "True");

        let node = api.get("nodes", "", "n1").unwrap();
        assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "z1");
        assert_eq!(node["metadata"]["labels"]["pool"], "a");
        assert_eq!(node["spec"]["podCIDR"], "10.244.1.0/24");

        let mut job = pod("job", json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx:1"}]}));
        job["metadata"]["annotations"] =
            json!({"simulated.quorate.io/run-seconds": "1", "simulated.quorate.io/exit-code": "3"});
        api.put("pods", job);
        let job = api.until("job", "Failed", |pod| phase(pod) == "Failed").await;
        assert_eq!(job["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);

        api.put("pods", pod("bad", json!({"containers": [{"name": "c", "image": "missing:1"}]})));
        let waiting = |reason: &'static str| {
            move |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
        };
        api.until("bad", "ErrImagePull", waiting("ErrImagePull")).await;
        api.until("bad", "ImagePullBackOff", waiting("ImagePullBackOff")).await;
        for part in
            ["Pulling: Pulling image \"missing:1\"", "Failed: Error: ErrImagePull", "Started: Started container c"]
        {
            api.until_event(part).await;
        }

        api.delete_pod("web", 5);
        api.delete_pod("bad", 5);
        api.until("web", "gone", Value::is_null).await;
        api.until("bad", "gone", Value::is_null).await;
        assert!(api.get("leases", "kube-node-lease", "n1").is_some());
        scope.cancel();
    };
    let (ended, ()) = tokio::join!(agent, story);
    ended.unwrap();
    assert_eq!(scope.close(Duration::from_secs(5)).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_node_that_comes_back_keeps_the_labels_of_others_and_loses_its_own_old_ones() {
    let root = tempfile::tempdir().unwrap();
    let api = Api::new();
    let labels = |node: &Value| node["metadata"]["labels"].clone();
    for (pool, others) in [(Some("a"), json!(null)), (None, json!("x"))] {
        let scope = Scope::root("test");
        let mut config = config(root.path());
        config.labels = pool.map(|pool| ("pool".to_owned(), pool.to_owned())).into_iter().collect();
        let agent = quorate_node::run(config, Env::real(), scope.clone(), api.client());
        let story = async {
            api.put("pods", pod("web", json!({"containers": [{"name": "c", "image": "nginx:1"}]})));
            api.until("web", "Running", |pod| phase(pod) == "Running").await;
            let mut node = api.get("nodes", "", "n1").unwrap();
            assert_eq!((labels(&node)["pool"].as_str(), &labels(&node)["of-an-admin"]), (pool, &others));
            node["metadata"]["labels"]["of-an-admin"] = json!("x");
            api.put("nodes", node);
            api.delete_pod("web", 1);
            api.until("web", "gone", Value::is_null).await;
            scope.cancel();
        };
        let (ended, ()) = tokio::join!(agent, story);
        ended.unwrap();
    }
}

#[tokio::test]
async fn a_status_that_met_a_conflict_is_written_again() {
    let root = tempfile::tempdir().unwrap();
    let (api, scope) = (Api::new(), Scope::root("test"));
    let agent = quorate_node::run(config(root.path()), Env::real(), scope.clone(), api.client());
    let story = async {
        // As many as it may write before it runs.
        for _ in 0..3 {
            api.conflict_once("web");
        }
        api.put("pods", pod("web", json!({"containers": [{"name": "c", "image": "nginx:1"}]})));
        api.until("web", "Running", |pod| phase(pod) == "Running").await;
        assert!(api.had_conflicts());
        scope.cancel();
    };
    let (ended, ()) = tokio::join!(agent, story);
    ended.unwrap();
}

/// Where a hook is answered after longer than the grace period below, and a word when it was.
async fn slow_hook(scope: &Scope) -> (u16, tokio::sync::oneshot::Receiver<()>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (answered, answer) = tokio::sync::oneshot::channel();
    scope.spawn_until_cancelled("hook", async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 512];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        Env::real().clock.sleep(Duration::from_secs(2)).await;
        // Nobody may be there any more: that is what the test is about.
        let _left = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        answered.send(()).unwrap();
    });
    (port, answer)
}

#[tokio::test]
async fn a_post_start_hook_may_take_longer_than_the_grace_period() {
    let root = tempfile::tempdir().unwrap();
    let (api, scope) = (Api::new(), Scope::root("test"));
    let agent = quorate_node::run(config(root.path()), Env::real(), scope.clone(), api.client());
    let (port, answer) = slow_hook(&scope).await;
    let story = async {
        let hook = json!({"postStart": {"httpGet": {"host": "127.0.0.1", "port": port}}});
        let containers = json!([{"name": "c", "image": "nginx:1", "lifecycle": hook}]);
        api.put("pods", pod("web", json!({"terminationGracePeriodSeconds": 1, "containers": containers})));
        answer.await.unwrap();
        assert!(!api.events().iter().any(|event| event.starts_with("FailedPostStartHook")), "{:#?}", api.events());
        let web = api.until("web", "Running", |pod| phase(pod) == "Running").await;
        assert_eq!(web["status"]["containerStatuses"][0]["restartCount"], 0);
        scope.cancel();
    };
    let (ended, ()) = tokio::join!(agent, story);
    ended.unwrap();
}
