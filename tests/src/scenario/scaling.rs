//! Step 4: more pods, a lost pod, a drained node.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::workload::{await_running, state};
use crate::await_until::await_until;
use crate::cluster::Cluster;
use crate::kubectl::text;

const DRAIN_DEADLINE: Duration = Duration::from_secs(90);

pub fn scale_replace_drain(cluster: &mut Cluster) -> Result<()> {
    let kubectl = cluster.kubectl.clone();
    kubectl.run(&["scale", "deployment", "nginx-deployment", "--replicas", "5"])?;
    let pods = await_running(&kubectl, "app=nginx", 5)?;
    let victim = text(&pods[0], "/metadata/name").to_owned();
    kubectl.run(&["delete", "pod", &victim, "--wait=false"])?;
    let pods = await_running(&kubectl, "app=nginx", 5)?;
    ensure!(pods.iter().all(|pod| text(pod, "/metadata/name") != victim), "the deleted pod is still there");
    drain(cluster, text(&pods[0], "/spec/nodeName"))
}

fn drain(cluster: &Cluster, node: &str) -> Result<()> {
    let kubectl = &cluster.kubectl;
    kubectl.run(&["drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=80s"])?;
    await_until("five running pods off the drained node", DRAIN_DEADLINE, || {
        let pods = kubectl.items(&["pods", "-l", "app=nginx"])?;
        let states: Vec<String> =
            pods.iter().map(|pod| format!("{} {}", text(pod, "/spec/nodeName"), state(pod))).collect();
        ensure!(
            pods.len() == 5 && states.iter().all(|s| s.ends_with("Running, Ready") && !s.starts_with(node)),
            "{states:?}"
        );
        Ok(Some(()))
    })?;
    kubectl.run(&["uncordon", node])?;
    Ok(())
}
