//! What a node does for its containers beside starting them. The pods of all checks run at the same time, since much of it
//! is waiting: periods, back-offs, grace.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::workload::{PODS_DEADLINE, create, state};
use crate::await_until::{await_true, await_until};
use crate::cluster::Cluster;
use crate::kubectl::{Kubectl, text};
use crate::process::Process;

/// The first restart is at once, the second one ten seconds after the end before it.
const BACK_OFF: Duration = Duration::from_secs(10);
/// Logs are looked at every ten seconds.
const ROTATION_DEADLINE: Duration = Duration::from_secs(45);
/// Lines of a hundred bytes: more than the ten MiB at which a log is rotated.
const LINES: usize = 115_000;
const GRACE_SECONDS: u64 = 3;

pub fn lives(cluster: &mut Cluster) -> Result<()> {
    let node = cluster.nodes[0].name.clone();
    for mut pod in [probed(), crashing(), stubborn(), init_fails(), talkative(), reading()] {
        pod["spec"]["nodeName"] = json!(node);
        create(&cluster.kubectl, &cluster.lab.dir, &pod)?;
    }
    let kubectl = cluster.kubectl.clone();
    check_probes(&kubectl).context("probes")?;
    check_init_failure(&kubectl).context("a failed init container")?;
    check_attach(cluster).context("attach")?;
    check_grace(&kubectl).context("grace period")?;
    check_back_off(&kubectl).context("back-off")?;
    check_rotation(cluster).context("log rotation")?;
    kubectl.run(&["delete", "pods", "-l", "lives", "--grace-period=1", "--timeout=60s"]).map(drop)
}

fn pod(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"lives": name}}, "spec": spec})
}

fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "image": "busybox:1", "command": ["sh", "-c", script]})
}

/// Started, ready and alive as three files say.
fn probed() -> Value {
    let file = |test: &str| json!({"exec": {"command": ["sh", "-c", test]}, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 10});
    let mut container = shell("c", "trap 'exit 0' TERM; nc -lk -p 7000 & while true; do sleep 1; done");
    container["startupProbe"] = file("test -f /tmp/started");
    container["startupProbe"]["failureThreshold"] = json!(600);
    container["readinessProbe"] = json!({"tcpSocket": {"port": 7000}, "periodSeconds": 1});
    container["livenessProbe"] = file("! test -f /tmp/dead");
    container["lifecycle"] = json!({"preStop": {"exec": {"command": ["sh", "-c", "echo last-wish >/proc/1/fd/1"]}}});
    pod("probed", json!({"terminationGracePeriodSeconds": 5, "containers": [container]}))
}

fn check_probes(kubectl: &Kubectl) -> Result<()> {
    let touch = |file: &str| kubectl.run(&["exec", "probed", "--", "touch", file]);
    let status = |path: &str| -> Result<Value> {
        let pod = kubectl.get(&["pod", "probed"])?;
        Ok(pod.pointer(&format!("/status/containerStatuses/0{path}")).cloned().unwrap_or_default())
    };
    await_true("the container to run", PODS_DEADLINE, || Ok(!status("/state/running")?.is_null()))?;
    // Its readiness probe would succeed, and does not count before the startup probe has.
    await_true("a refusal of the startup probe", PODS_DEADLINE, || {
        let events = kubectl.run(&["events", "--for", "pod/probed"])?;
        Ok(events.contains("Startup probe failed"))
    })?;
    ensure!((status("/started")?, status("/ready")?) == (json!(false), json!(false)), "{}", status("")?);
    touch("/tmp/started")?;
    await_true("started and ready", PODS_DEADLINE, || Ok(status("/ready")? == json!(true)))?;
    ensure!(status("/started")? == json!(true), "{}", status("")?);
    touch("/tmp/dead")?;
    await_true("a new container, not started yet", PODS_DEADLINE, || {
        Ok(status("/restartCount")? == json!(1) && !status("/state/running")?.is_null())
    })?;
    ensure!(status("/ready")? == json!(false), "{}", status("")?);
    let previous = kubectl.run(&["logs", "probed", "--previous"])?;
    ensure!(previous.contains("last-wish"), "the preStop hook has not run: {previous:?}");
    let events = kubectl.run(&["events", "--for", "pod/probed"])?;
    for wanted in ["Liveness probe failed", "Container c failed liveness probe, will be restarted"] {
        ensure!(events.contains(wanted), "no {wanted:?} in\n{events}");
    }
    Ok(())
}

fn init_fails() -> Value {
    let init = [shell("first", "exit 0"), shell("second", "echo no; exit 3"), shell("third", "exit 0")];
    pod("init-fails", json!({"restartPolicy": "Never", "initContainers": init, "containers": [shell("c", "exit 0")]}))
}

/// What follows the failed one never starts.
fn check_init_failure(kubectl: &Kubectl) -> Result<()> {
    let pod = await_until("the pod to fail", PODS_DEADLINE, || {
        let pod = kubectl.get(&["pod", "init-fails"])?;
        Ok((state(&pod) == "Failed").then_some(pod))
    })?;
    let code = |index: usize| {
        pod.pointer(&format!("/status/initContainerStatuses/{index}/state/terminated/exitCode")).and_then(Value::as_i64)
    };
    ensure!((code(0), code(1), code(2)) == (Some(0), Some(3), None), "{}", pod["status"]);
    ensure!(!pod.pointer("/status/containerStatuses/0/state/waiting").unwrap_or(&Value::Null).is_null(), "{pod}");
    let table = kubectl.run(&["get", "pod", "init-fails", "--no-headers"])?;
    ensure!(table.contains("Init:Error"), "{table}");
    Ok(())
}

fn reading() -> Value {
    let mut container = shell("c", "while read line; do echo \"got $line\"; done");
    container["stdin"] = json!(true);
    pod("reading", json!({"restartPolicy": "Never", "containers": [container]}))
}

fn check_attach(cluster: &Cluster) -> Result<()> {
    await_true("the container to run", PODS_DEADLINE, || {
        Ok(state(&cluster.kubectl.get(&["pod", "reading"])?) == "Running, Ready")
    })?;
    let mut command = cluster.kubectl.command(&["attach", "-i", "reading"]);
    let output = command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut attached = output.stderr(std::process::Stdio::piped()).spawn()?;
    let mut input = attached.stdin.take().context("its input")?;
    std::io::Write::write_all(&mut input, b"word\n")?;
    await_true("an echo in the log", PODS_DEADLINE, || {
        Ok(cluster.kubectl.run(&["logs", "reading"])?.contains("got word"))
    })?;
    drop(input);
    attached.kill()?;
    let output = attached.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("got word"), "attached, and heard {said:?}");
    Ok(())
}

/// Ignores SIGTERM.
fn stubborn() -> Value {
    let script = "trap '' TERM; while true; do sleep 1; done";
    pod("stubborn", json!({"terminationGracePeriodSeconds": GRACE_SECONDS, "containers": [shell("c", script)]}))
}

fn check_grace(kubectl: &Kubectl) -> Result<()> {
    await_true("the container to run", PODS_DEADLINE, || {
        Ok(state(&kubectl.get(&["pod", "stubborn"])?) == "Running, Ready")
    })?;
    let began = Instant::now();
    kubectl.run(&["delete", "pod", "stubborn", "--timeout=60s"])?;
    let took = began.elapsed();
    ensure!(took >= Duration::from_secs(GRACE_SECONDS), "it was killed after {took:?}, before its grace was over");
    Ok(())
}

fn crashing() -> Value {
    pod("crashing", json!({"containers": [shell("c", "exit 7")]}))
}

fn check_back_off(kubectl: &Kubectl) -> Result<()> {
    let status = await_until("a third crash", PODS_DEADLINE, || {
        let pod = kubectl.get(&["pod", "crashing"])?;
        let status = pod.pointer("/status/containerStatuses/0").cloned().unwrap_or_default();
        let thrice = status.pointer("/restartCount") == Some(&json!(2));
        let waits = text(&status, "/state/waiting/reason") == "CrashLoopBackOff";
        Ok((thrice && waits).then_some(status))
    })?;
    let message = text(&status, "/state/waiting/message");
    ensure!(message.starts_with("back-off 20s restarting failed container=c pod=crashing_default("), "{message}");
    ensure!(status.pointer("/lastState/terminated/exitCode") == Some(&json!(7)), "{status}");
    let last = seconds(text(&status, "/lastState/terminated/startedAt"))?;
    let first = seconds(text(&kubectl.get(&["pod", "crashing"])?, "/status/startTime"))?;
    ensure!(last - first >= i64::try_from(BACK_OFF.as_secs())?, "three starts within {} s", last - first);
    Ok(())
}

/// Seconds of the day of a time stamp; the checks here do not run over midnight twice.
fn seconds(stamp: &str) -> Result<i64> {
    let time = stamp.split('T').nth(1).and_then(|time| time.get(..8)).with_context(|| format!("time {stamp:?}"))?;
    time.split(':').try_fold(0, |sum, part| Ok(sum * 60 + part.parse::<i64>()?))
}

/// Numbered lines beyond the limit of one file, then one more now and then.
fn talkative() -> Value {
    let script = format!(
        "i=0; while [ $i -lt {LINES} ]; do printf '%0100d\\n' $i; i=$((i+1)); done; \
         while true; do printf '%0100d\\n' $i; i=$((i+1)); sleep 0.2; done"
    );
    pod("talkative", json!({"containers": [shell("c", &script)]}))
}

/// A follower hears every line once, over the rotation; the old file is kept beside the new one.
fn check_rotation(cluster: &Cluster) -> Result<()> {
    let command = cluster.kubectl.command(&["logs", "-f", "talkative"]);
    let mut follower = Process::spawn("follower", &cluster.lab.dir, command)?;
    let uid = text(&cluster.kubectl.get(&["pod", "talkative"])?, "/metadata/uid").to_owned();
    let directory = cluster.lab.dir.join(&cluster.nodes[0].name);
    let directory = directory.join("node/logs").join(format!("default_talkative_{uid}")).join("c");
    await_true("a rotated log", ROTATION_DEADLINE, || Ok(files(&directory)?.len() > 1))?;
    let last: usize = await_until("a line in the new file", PODS_DEADLINE, || {
        Ok(cluster.kubectl.run(&["logs", "talkative", "--tail=1"])?.trim().parse().ok())
    })?;
    ensure!(last >= LINES, "the newest line is {last}");
    let heard = await_until("the follower to hear of it", PODS_DEADLINE, || {
        let text = std::fs::read_to_string(&follower.log)?;
        let whole = text.rsplit_once('\n').map_or("", |(whole, _partial)| whole);
        let numbers: Vec<usize> = whole.lines().map(|line| Ok(line.parse()?)).collect::<Result<_>>()?;
        Ok((numbers.last() >= Some(&(last + 5))).then_some(numbers))
    })?;
    follower.kill()?;
    let first = heard.first().copied().unwrap_or_default();
    let gap = heard.windows(2).find(|pair| pair[1] != pair[0] + 1);
    ensure!(gap.is_none(), "the follower heard {gap:?} one after the other");
    ensure!(first < last, "{first}");
    Ok(())
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    Ok(std::fs::read_dir(directory)?.flatten().map(|entry| entry.path()).collect())
}
