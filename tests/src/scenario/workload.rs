//! Step 1: a Deployment from an old manifest, as it is.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::await_until::await_until;
use crate::cluster::{Cluster, Runtime};
use crate::kubectl::{Kubectl, text};
use crate::tools;

pub const PODS_DEADLINE: Duration = Duration::from_secs(60);

pub fn deploy(cluster: &mut Cluster) -> Result<()> {
    let manifest = tools::repository().join("examples/deployment-extensions-v1beta1.yaml");
    let (code, output, warnings) = cluster.kubectl.try_run(&["create", "-f", &manifest.to_string_lossy()])?;
    ensure!(code == Some(0), "kubectl create: {output}{warnings}");
    ensure!(output == "deployment.extensions/nginx-deployment created\n", "unexpected answer {output:?}");
    ensure!(warnings.contains("Warning: "), "the old group-version brings no warning: {warnings:?}");
    let pods = await_running(&cluster.kubectl, "app=nginx", 3)?;
    let nodes: BTreeSet<&str> = pods.iter().map(|pod| text(pod, "/spec/nodeName")).collect();
    ensure!(nodes.len() == cluster.nodes.len(), "pods are on {nodes:?} only");
    let table = cluster.kubectl.run(&["get", "pods", "-o", "wide"])?;
    ensure!(table.starts_with("NAME "), "no table: {table}");
    for column in ["READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES"] {
        ensure!(table.lines().next().is_some_and(|head| head.contains(column)), "column {column} is missing: {table}");
    }
    let deployment = cluster.kubectl.run(&["get", "deployment", "nginx-deployment"])?;
    ensure!(deployment.contains("3/3"), "{deployment}");
    Ok(())
}

pub fn look_inside(cluster: &mut Cluster) -> Result<()> {
    let pods = await_running(&cluster.kubectl, "app=nginx", 3)?;
    for pod in &pods {
        let name = text(pod, "/metadata/name");
        let described = cluster.kubectl.run(&["describe", "pod", name])?;
        for wanted in ["Scheduled", "Pulled", "Created", "Started", "nginx:1.7.9"] {
            ensure!(described.contains(wanted), "describe of {name} lacks {wanted}:\n{described}");
        }
        let answer = cluster.kubectl.run(&["exec", name, "--", "cat", "/etc/hostname"])?;
        ensure!(answer.trim() == name, "exec in {name} answered {answer:?}");
        let logs = await_until("logs of the pod", PODS_DEADLINE, || {
            let logs = cluster.kubectl.run(&["logs", name])?;
            Ok(logs.contains("start worker process").then_some(logs))
        })?;
        ensure!(!logs.is_empty(), "no logs of {name}");
    }
    let (code, _, _) =
        cluster.kubectl.try_run(&["exec", text(&pods[0], "/metadata/name"), "--", "sh", "-c", "exit 5"])?;
    ensure!(code == Some(5), "the exit code of exec is {code:?}, not 5");
    Ok(())
}

/// The pods with a label once exactly `count` of them are Running and Ready and none is on its way out.
pub fn await_running(kubectl: &Kubectl, selector: &str, count: usize) -> Result<Vec<Value>> {
    await_until(&format!("{count} running pods with {selector}"), PODS_DEADLINE, || {
        let pods = kubectl.items(&["pods", "-l", selector])?;
        let states: Vec<String> = pods.iter().map(state).collect();
        anyhow::ensure!(states.len() == count && states.iter().all(|s| s == "Running, Ready"), "{states:?}");
        Ok(Some(pods))
    })
}

/// `Running, Ready` for a pod that serves, else what it is.
pub fn state(pod: &Value) -> String {
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating".to_owned();
    }
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let ready =
        conditions.is_some_and(|all| all.iter().any(|c| text(c, "/type") == "Ready" && text(c, "/status") == "True"));
    let phase = text(pod, "/status/phase");
    if ready { format!("{phase}, Ready") } else { phase.to_owned() }
}

/// Runs `words` in a pod of the probe image on `node` and returns what it printed, once it has succeeded.
pub fn probe_on(cluster: &Cluster, name: &str, node: &str, words: &[&str]) -> Result<String> {
    ensure!(cluster.runtime == Runtime::Containerd, "probes need real containers");
    probe(&cluster.kubectl, &cluster.lab.dir, name, node, words)
}

/// As [`probe_on`], for any cluster; the pod's manifest goes to `dir`.
pub fn probe(kubectl: &Kubectl, dir: &Path, name: &str, node: &str, words: &[&str]) -> Result<String> {
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [
            {"name": "probe", "image": "quorate/probe:1", "args": words}]},
    });
    create(kubectl, dir, &pod)?;
    let phase = await_until(&format!("the end of pod {name}"), PODS_DEADLINE, || {
        let pod = kubectl.get(&["pod", name])?;
        let phase = text(&pod, "/status/phase").to_owned();
        Ok(["Succeeded", "Failed"].contains(&phase.as_str()).then_some(phase))
    })?;
    let output = kubectl.run(&["logs", name])?;
    kubectl.run(&["delete", "pod", name, "--wait=false"])?;
    ensure!(phase == "Succeeded", "{words:?} on {node}: {phase}: {output}");
    Ok(output)
}

/// Gives an object to `kubectl create` by a file in `dir`.
pub fn create(kubectl: &Kubectl, dir: &Path, object: &Value) -> Result<()> {
    let file = dir.join(format!("{}.json", text(object, "/metadata/name")));
    std::fs::write(&file, object.to_string())?;
    kubectl.run(&["create", "-f", &file.to_string_lossy()]).map(drop)
}
