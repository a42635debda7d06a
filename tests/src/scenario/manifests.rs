//! The example manifests, each given to an unmodified kubectl as it is.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};

use anyhow::{Context, Result, ensure};

use super::Scenario;
use super::workload::{PODS_DEADLINE, await_running, probe_on};
use crate::await_until::{await_true, await_until};
use crate::cluster::{Cluster, Runtime};
use crate::kubectl::text;
use crate::process::Process;
use crate::tools;

/// One scenario per manifest; those that look into containers need real ones.
pub fn scenarios(runtime: Runtime) -> Vec<(&'static str, Scenario)> {
    let mut all: Vec<(&'static str, Scenario)> =
        vec![("replication-controller.json", replication_controller), ("service.json", service)];
    if runtime == Runtime::Containerd {
        all.extend([
            ("pod.json" as &str, pod as Scenario),
            ("service-without-selector.yaml", service_without_selector),
            ("init-containers.yaml", init_containers),
            ("configmap-use.yaml", configmap_use),
        ]);
    }
    all
}

fn create(cluster: &Cluster, file: &str) -> Result<String> {
    let path = tools::repository().join("examples").join(file);
    cluster.kubectl.run(&["create", "-f", &path.to_string_lossy()])
}

fn delete(cluster: &Cluster, file: &str) -> Result<()> {
    let path = tools::repository().join("examples").join(file);
    cluster.kubectl.run(&["delete", "-f", &path.to_string_lossy(), "--grace-period=1", "--timeout=60s"])?;
    Ok(())
}

fn replication_controller(cluster: &mut Cluster) -> Result<()> {
    ensure!(create(cluster, "replication-controller.json")? == "replicationcontroller/nginx-controller created\n");
    let pods = await_running(&cluster.kubectl, "name=nginx", 2)?;
    let victim = text(&pods[0], "/metadata/name");
    cluster.kubectl.run(&["delete", "pod", victim, "--wait=false"])?;
    for replicas in ["4", "1"] {
        cluster.kubectl.run(&["scale", "rc", "nginx-controller", "--replicas", replicas])?;
        await_running(&cluster.kubectl, "name=nginx", replicas.parse()?)?;
    }
    delete(cluster, "replication-controller.json")?;
    await_true("the controller's pods to go", PODS_DEADLINE, || {
        Ok(cluster.kubectl.items(&["pods", "-l", "name=nginx"])?.is_empty())
    })
}

fn service(cluster: &mut Cluster) -> Result<()> {
    ensure!(create(cluster, "service.json")? == "service/myapp created\n");
    let service = cluster.kubectl.get(&["service", "myapp"])?;
    ensure!(text(&service, "/spec/clusterIP").starts_with("10.96."), "{service}");
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "myapp", "labels": {"app": "MyApp"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [
            {"name": "serve", "image": "quorate/probe:1", "args": ["serve", "9376", "my-answer"]}]},
    });
    let file = cluster.lab.dir.join("myapp.json");
    std::fs::write(&file, pod.to_string())?;
    cluster.kubectl.run(&["create", "-f", &file.to_string_lossy()])?;
    let pods = await_running(&cluster.kubectl, "app=MyApp", 1)?;
    await_until("the Endpoints of the same name", PODS_DEADLINE, || {
        let endpoints = cluster.kubectl.get(&["endpoints", "myapp"])?;
        let ready = text(&endpoints, "/subsets/0/addresses/0/ip") == text(&pods[0], "/status/podIP");
        Ok((ready && endpoints.pointer("/subsets/0/ports/0/port") == Some(&9376.into())).then_some(()))
    })?;
    if cluster.runtime == Runtime::Containerd {
        for node in cluster.nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>() {
            let answer = probe_on(cluster, &format!("ask-{node}"), &node, &["fetch", "http://myapp/"])?;
            ensure!(answer.contains("my-answer"), "{answer}");
        }
    }
    cluster.kubectl.run(&["delete", "pod/myapp", "service/myapp", "--timeout=60s"])?;
    Ok(())
}

/// Two containers share a volume and an address; one of them serves caller after caller.
fn pod(cluster: &mut Cluster) -> Result<()> {
    ensure!(create(cluster, "pod.json")? == "pod/podtest created\n");
    await_running(&cluster.kubectl, "name=redis-master", 1)?;
    let sidecar = |script: &str| cluster.kubectl.run(&["exec", "podtest", "-c", "sidecar", "--", "sh", "-c", script]);
    let file =
        await_until("the file of the other container", PODS_DEADLINE, || Ok(Some(sidecar("cat /data/master")?)))?;
    ensure!(file == "from-master\n", "the shared volume holds {file:?}");
    await_true("an answer on the pod's port", PODS_DEADLINE, || {
        Ok(sidecar("nc 127.0.0.1 6379 </dev/null")? == "pong\n")
    })?;
    forward(cluster)?;
    delete(cluster, "pod.json")
}

/// Two connections by `kubectl port-forward`, one after the other.
fn forward(cluster: &Cluster) -> Result<()> {
    let command = cluster.kubectl.command(&["port-forward", "pod/podtest", ":6379"]);
    let mut forwarding = Process::spawn("port-forward", &cluster.lab.dir, command)?;
    let port: u16 = await_until("the forwarded port", PODS_DEADLINE, || {
        let log = std::fs::read_to_string(&forwarding.log)?;
        Ok(log.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()))
    })?;
    for _ in 0..2 {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PODS_DEADLINE))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer == "pong\n", "through port-forward came {answer:?}: {}", forwarding.log_tail());
    }
    forwarding.kill()
}

fn service_without_selector(cluster: &mut Cluster) -> Result<()> {
    let backend = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "legacy", "labels": {"app": "legacy"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [
            {"name": "serve", "image": "quorate/probe:1", "args": ["serve", "9376", "by-hand"]}]},
    });
    let file = cluster.lab.dir.join("legacy.json");
    std::fs::write(&file, backend.to_string())?;
    cluster.kubectl.run(&["create", "-f", &file.to_string_lossy()])?;
    let pods = await_running(&cluster.kubectl, "app=legacy", 1)?;
    let text_of_manifest = std::fs::read_to_string(tools::repository().join("examples/service-without-selector.yaml"))?;
    let (service, endpoints) = text_of_manifest.split_once("---").context("two documents")?;
    let own = cluster.lab.dir.join("service-without-selector.yaml");
    std::fs::write(&own, service)?;
    cluster.kubectl.run(&["create", "-f", &own.to_string_lossy()])?;
    ensure!(cluster.kubectl.try_run(&["get", "endpoints", "legacy-db"])?.0 == Some(1), "endpoints were made");
    std::fs::write(&own, endpoints.replace("10.255.0.4", text(&pods[0], "/status/podIP")))?;
    cluster.kubectl.run(&["create", "-f", &own.to_string_lossy()])?;
    let node = cluster.nodes[0].name.clone();
    let answer = probe_on(cluster, "ask-legacy", &node, &["fetch", "http://legacy-db/"])?;
    ensure!(answer.contains("by-hand"), "{answer}");
    cluster.kubectl.run(&[
        "delete",
        "pod/legacy",
        "service/legacy-db",
        "endpoints/legacy-db",
        "--ignore-not-found",
        "--timeout=60s",
    ])?;
    Ok(())
}

fn init_containers(cluster: &mut Cluster) -> Result<()> {
    create(cluster, "init-containers.yaml")?;
    let pod = await_until("the pod to run after its init containers", PODS_DEADLINE, || {
        let pod = cluster.kubectl.get(&["pod", "nginx-init"])?;
        Ok((super::workload::state(&pod) == "Running, Ready").then_some(pod))
    })?;
    let ended =
        |index: usize| text(&pod, &format!("/status/initContainerStatuses/{index}/state/terminated/reason")).to_owned();
    ensure!((ended(0).as_str(), ended(1).as_str()) == ("Completed", "Completed"), "{pod}");
    let page =
        cluster.kubectl.run(&["exec", "nginx-init", "-c", "nginx", "--", "cat", "/usr/share/nginx/html/index.html"])?;
    ensure!(page == "one\ntwo\n", "the init containers wrote {page:?}");
    delete(cluster, "init-containers.yaml")
}

fn configmap_use(cluster: &mut Cluster) -> Result<()> {
    create(cluster, "configmap-use.yaml")?;
    let logs = await_until("the values in the pod's output", PODS_DEADLINE, || {
        let logs = cluster.kubectl.run(&["logs", "configmap-user"])?;
        Ok(logs.contains("enemies").then_some(logs))
    })?;
    ensure!(logs == "lives=3\nenemies=aliens\n", "the pod printed {logs:?}");
    let patch = r#"{"data":{"game.properties":"enemies=none\n"}}"#;
    cluster.kubectl.run(&["patch", "configmap", "game-config", "--type=merge", "-p", patch])?;
    await_true("the changed file in the pod", PODS_DEADLINE * 2, || {
        let file = cluster.kubectl.run(&["exec", "configmap-user", "--", "cat", "/etc/game/game.properties"])?;
        Ok(file == "enemies=none\n")
    })?;
    delete(cluster, "configmap-use.yaml")
}
