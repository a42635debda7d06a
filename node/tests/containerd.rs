//! A whole agent with real containers, in a network namespace of its own with a containerd of its own. Needs root,
//! containerd, runc and a static busybox; fails where it has them not.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the test runner")]

#[path = "support/api.rs"]
#[expect(dead_code, reason = "the simulated tests use all of it")]
mod api;
#[path = "support/contract.rs"]
mod contract;
#[path = "support/https.rs"]
mod https;
#[path = "support/machine.rs"]
mod machine;

use std::io::Read;
use std::process::ExitCode;

use api::Api;
use futures::FutureExt;
use machine::Machine;
use quorate_env::{Clock, Env, Scope};
use quorate_node::containerd::Containerd;
use quorate_node::runtime::{CriRuntime, Runtime};
use serde_json::{Value, json};

fn pod(name: &str, mut spec: Value) -> Value {
    spec["nodeName"] = json!("n1");
    spec["terminationGracePeriodSeconds"] = json!(2);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}}, "spec": spec})
}

fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "image": "test/busybox:1", "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script]})
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

fn ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn message(pod: &Value) -> &str {
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"].as_str().unwrap_or_default()
}

fn main() -> ExitCode {
    if let Some(code) = act_as_plugin() {
        return code;
    }
    real_containers_from_start_to_end();
    println!("test real_containers_from_start_to_end ... ok");
    ExitCode::SUCCESS
}

/// containerd calls this binary by the plugin's name.
fn act_as_plugin() -> Option<ExitCode> {
    let called = std::env::args().next()?;
    let name = std::path::Path::new(&called).file_name()?.to_str()?;
    if !matches!(name, quorate_node::config::CNI_PLUGIN | "loopback") {
        return None;
    }
    let mut stdin = Vec::new();
    std::io::stdin().read_to_end(&mut stdin).unwrap();
    let output = quorate_node::cni::plugin_main(name, &std::env::vars().collect(), &stdin);
    print!("{}", output.stdout);
    Some(ExitCode::from(output.exit_code))
}

fn real_containers_from_start_to_end() {
    let machine = Machine::new();
    Machine::run(async {
        keep_the_contract(&machine).await;
        let (api, scope) = (Api::new(), Scope::root("test"));
        let agent = quorate_node::run(machine.config(), Env::real(), scope.clone(), api.client());
        let story = async {
            let result = std::panic::AssertUnwindSafe(story(api.clone(), &machine)).catch_unwind().await;
            scope.cancel();
            result
        };
        let (ended, told) = tokio::join!(agent, story);
        ended.unwrap();
        if let Err(panic) = told {
            std::panic::resume_unwind(panic);
        }
    });
    assert_eq!(machine.leftovers(), Vec::<String>::new());
}

/// On a containerd without an agent, which would end pods that the API does not have.
async fn keep_the_contract(machine: &Machine) {
    let (config, clock, scope) = (machine.config(), Clock::real(), Scope::root("contract"));
    let containerd = Containerd::prepare(&config, &clock).unwrap();
    containerd.launch(&scope).await.unwrap();
    let runtime = CriRuntime::connect(&quorate_node::containerd::socket(&config), clock, &scope).unwrap();
    containerd.load_images(&config, &runtime).await.unwrap();
    contract::check(&Runtime::Cri(Box::new(runtime)), "docker.io/test/busybox:1").await;
    assert_eq!(scope.close(std::time::Duration::from_secs(5)).await, Vec::<String>::new());
    containerd.stop().await;
}

async fn story(api: Api, machine: &Machine) {
    prepare(&api);
    let began = Clock::real().now();
    api.put("pods", pod("web", web()));
    let web = api.until("web", "ready", ready).await;
    eprintln!("create to ready: {:?}", Clock::real().now() - began);
    let ip = web["status"]["podIP"].as_str().unwrap().to_owned();
    assert!(ip.starts_with("10.244.1."), "{ip}");
    check_inside(&api, machine.root()).await;
    check_server(machine).await;
    check_ends(&api).await;
    check_volumes(&api).await;
    check_restart(&api).await;
    let began = Clock::real().now();
    for name in ["web", "words", "oom", "crash", "volumes"] {
        api.delete_pod(name, 2);
    }
    for name in ["web", "words", "oom", "crash", "volumes"] {
        api.until(name, "gone", Value::is_null).await;
    }
    eprintln!("five deletions: {:?}", Clock::real().now() - began);
    let node = api.get("nodes", "", "n1").unwrap();
    let conditions = node["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"), "{conditions:#?}");
    assert!(node["status"]["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap().starts_with("containerd://"));
}

fn prepare(api: &Api) {
    api.put(
        "configmaps",
        json!({"metadata": {"name": "cfg", "namespace": "default"}, "data": {"key": "value", "other": "x"}}),
    );
    api.put(
        "configmaps",
        json!({"metadata": {"name": "kube-root-ca.crt", "namespace": "default"}, "data": {"ca.crt": "CA"}}),
    );
    api.put("secrets", json!({"metadata": {"name": "sec", "namespace": "default"}, "data": {"password": "c2VjcmV0"}}));
    api.put(
        "services",
        json!({"metadata": {"name": "kubernetes", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "protocol": "TCP"}]}}),
    );
}

/// A web server behind probes, after an init container that makes its page.
fn web() -> Value {
    json!({
        "initContainers": [{"name": "page", "image": "test/busybox:1", "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", "echo hello > /www/index.html"], "volumeMounts": [{"name": "www", "mountPath": "/www"}]}],
        "containers": [{"name": "web", "image": "test/busybox:1", "imagePullPolicy": "IfNotPresent",
            "command": ["httpd", "-f", "-p", "8080", "-h", "/www"],
            "ports": [{"name": "http", "containerPort": 8080}],
            "volumeMounts": [{"name": "www", "mountPath": "/www"}],
            "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
            "startupProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1},
            "readinessProbe": {"httpGet": {"path": "/index.html", "port": "http"}, "periodSeconds": 1},
            "livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1, "timeoutSeconds": 5}}],
        "volumes": [{"name": "www", "emptyDir": {}}]
    })
}

/// What a container finds in its environment and its files, told by its last words.
async fn check_inside(api: &Api, root: &std::path::Path) {
    let script = "echo \"$KEY $NAME $IP_SET $PASSWORD $KUBERNETES_SERVICE_HOST $CPU $0\" > /dev/termination-log; \
        cat /cfg/key /sec/password /token/token /token/ca.crt /labels/labels /etc/resolv.conf /etc/hosts; hostname; \
        id; echo to-stderr >&2";
    let mut container = shell("words", script);
    container["args"] = json!(["$(NAME)-arg"]);
    container["securityContext"] = json!({"runAsUser": 1000, "runAsGroup": 1000});
    container["env"] = json!([
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "cfg", "key": "key"}}},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "IP_SET", "value": "x$(KEY)"},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "password"}}}]);
    container["resources"] = json!({"limits": {"cpu": "500m"}});
    container["volumeMounts"] = json!([
        {"name": "cfg", "mountPath": "/cfg"}, {"name": "sec", "mountPath": "/sec"},
        {"name": "token", "mountPath": "/token"}, {"name": "labels", "mountPath": "/labels"}]);
    let volumes = json!([
        {"name": "cfg", "configMap": {"name": "cfg"}},
        {"name": "sec", "secret": {"secretName": "sec", "defaultMode": 288}},
        {"name": "labels", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "token", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}]);
    api.put(
        "pods",
        pod(
            "words",
            json!({"restartPolicy": "Never", "containers": [container], "volumes": volumes,
        "securityContext": {"fsGroup": 2000}}),
        ),
    );
    let words = api.until("words", "over", |pod| matches!(phase(pod), "Succeeded" | "Failed")).await;
    let log = root.join("logs/default_words_uid-words/words/0.log");
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(
        (phase(&words), message(&words).trim()),
        ("Succeeded", "value words xvalue secret 10.96.0.1 500 words-arg"),
        "{log}"
    );
    for part in [
        "stdout F valuesecretthe-tokenCAapp=\"words\"",
        "nameserver 10.96.0.10",
        "options ndots:5",
        "search default.svc.cluster.local",
        "Kubernetes-managed hosts file",
        "stdout F words",
        "uid=1000 gid=1000 groups=1000,2000",
        "stderr F to-stderr",
    ] {
        assert!(log.contains(part), "{part} is not in\n{log}");
    }
}

async fn check_server(machine: &Machine) {
    let get = async |path: &str| machine.certificates.get(Machine::server(), path).await;
    assert_eq!(get("/healthz").await, (200, "ok".into()));
    let (status, text) = get("/containerLogs/default/words/words?stream=Stderr").await;
    assert_eq!((status, text.as_str()), (200, "to-stderr\n"));
    let (status, text) = get("/containerLogs/default/words/words?tailLines=1").await;
    assert_eq!((status, text.lines().count()), (200, 1), "{text}");
    let (status, text) = get("/containerLogs/default/words/words?previous=true").await;
    assert_eq!((status, text.as_str()), (400, "previous terminated container \"words\" in pod \"words\" not found"));
    assert_eq!(get("/containerLogs/default/nobody/c").await, (404, "pod \"nobody\" not found".into()));
    let (status, pods) = get("/pods").await;
    assert!(status == 200 && pods.contains("\"kind\":\"PodList\"") && pods.contains("\"words\""), "{pods}");
    let (_, metrics) = get("/metrics").await;
    assert!(metrics.contains("quorate_node_containers{state=\"running\"} 1"), "{metrics}");
    let path = "/exec/default/web/web?command=cat&command=%2Fwww%2Findex.html&output=1&error=1";
    let told = machine.certificates.websocket(Machine::server(), path).await;
    assert!(told.contains("hello") && told.contains("\"status\":\"Success\""), "{told:?}");
}

async fn check_ends(api: &Api) {
    let mut hog = shell("oom", "dd if=/dev/zero of=/dev/null bs=200M count=1");
    hog["resources"] = json!({"limits": {"memory": "32Mi"}});
    api.put("pods", pod("oom", json!({"restartPolicy": "Never", "containers": [hog]})));
    let oom = api.until("oom", "Failed", |pod| phase(pod) == "Failed").await;
    let end = &oom["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&end["reason"], &end["exitCode"]), (&json!("OOMKilled"), &json!(137)));

    let mut crash = shell("crash", "echo last words; exit 4");
    crash["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    api.put("pods", pod("crash", json!({"containers": [crash]})));
    let is_waiting =
        |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    let crash = api.until("crash", "in CrashLoopBackOff", is_waiting).await;
    let last = &crash["status"]["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!((last["exitCode"].as_i64(), last["message"].as_str()), (Some(4), Some("last words\n")));
    api.until_event("BackOff: Back-off restarting failed container crash in pod crash_default(").await;
}

async fn check_volumes(api: &Api) {
    let mut container = shell(
        "c",
        "cat /sub/file; mount | grep -q '/mem type tmpfs' && touch /mem/x && \
        while ! grep -q new /cfg/key; do sleep 0.2; done; echo updated > /dev/termination-log",
    );
    container["volumeMounts"] = json!([
        {"name": "mem", "mountPath": "/mem"}, {"name": "cfg", "mountPath": "/cfg"},
        {"name": "mem", "mountPath": "/sub/file", "subPath": "deep/dir"}]);
    api.put(
        "pods",
        pod(
            "volumes",
            json!({"restartPolicy": "Never", "containers": [container], "volumes": [
        {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "cfg", "configMap": {"name": "cfg"}}]}),
        ),
    );
    api.until("volumes", "Running", |pod| phase(pod) == "Running").await;
    api.put("configmaps", json!({"metadata": {"name": "cfg", "namespace": "default"}, "data": {"key": "new"}}));
    let volumes = api.until("volumes", "over", |pod| matches!(phase(pod), "Succeeded" | "Failed")).await;
    assert_eq!((phase(&volumes), message(&volumes).trim()), ("Succeeded", "updated"));
}

/// A missing secret holds a container up until it is there.
async fn check_restart(api: &Api) {
    let mut container = shell("c", "echo $VALUE > /dev/termination-log");
    container["env"] = json!([{"name": "VALUE", "valueFrom": {"secretKeyRef": {"name": "late", "key": "k"}}}]);
    api.put("pods", pod("late", json!({"restartPolicy": "Never", "containers": [container]})));
    let is_waiting = |pod: &Value| {
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    };
    let late = api.until("late", "waiting for its secret", is_waiting).await;
    assert_eq!(late["status"]["containerStatuses"][0]["state"]["waiting"]["message"], "secret \"late\" not found");
    api.put("secrets", json!({"metadata": {"name": "late", "namespace": "default"}, "data": {"k": "aGVyZQ=="}}));
    let late = api.until("late", "over", |pod| phase(pod) == "Succeeded").await;
    assert_eq!(message(&late).trim(), "here");
    api.delete_pod("late", 1);
    api.until("late", "gone", Value::is_null).await;
}
