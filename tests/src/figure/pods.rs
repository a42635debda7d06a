//! Pods created one after another on a node with real containers: from the request until a watcher sees Running.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::{Stream, TryStreamExt};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::report;
use crate::await_until::await_true;
use crate::cluster::{Cluster, Runtime};
use crate::kubectl::Kubectl;
use crate::lab::Lab;
use crate::scenario::failover::client;
use crate::tools::Tools;

/// A pod that is not Running by then is an error, not a figure.
const RUNNING_DEADLINE: Duration = Duration::from_secs(30);
const ACCOUNT_DEADLINE: Duration = Duration::from_secs(30);
const GONE_DEADLINE: Duration = Duration::from_secs(120);
/// More than all pods of a run take together.
const WATCH_SECONDS: u32 = 290;
const LABEL: &str = "figure=pods";

/// Must be called before any thread is started: see [`Lab::enter`].
pub fn quorate(count: usize) -> Result<Value> {
    let tools = Tools::prepare()?;
    let lab = Lab::enter(std::env::var_os("QUORATE_KEEP").is_some())?;
    let (runtime, reason) = Runtime::available(&tools);
    ensure!(runtime == Runtime::Containerd, "pods need real containers: {}", reason.unwrap_or_default());
    let mut cluster = Cluster::start(tools, lab, runtime, 1)?;
    cluster.add_nodes(1)?;
    let kubectl = cluster.kubectl.clone();
    let times = tokio::runtime::Runtime::new()?.block_on(run_pods(&kubectl, count))?;
    await_true("the pods to be gone", GONE_DEADLINE, || Ok(kubectl.items(&["pods", "-l", LABEL])?.is_empty()))?;
    cluster.stop()?;
    report(&format!("pod create to Running, {count} one after another, image present"), times)
}

async fn run_pods(kubectl: &Kubectl, count: usize) -> Result<Vec<Duration>> {
    let client = client(&kubectl.kubeconfig).await?;
    await_account(&client).await?;
    let api: Api<Pod> = Api::default_namespaced(client);
    let start = api.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let parameters = WatchParams::default().labels(LABEL).timeout(WATCH_SECONDS);
    let mut events = Box::pin(api.watch(&parameters, &start).await?);
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        let name = format!("pod-{number}");
        let created = Instant::now();
        api.create(&PostParams::default(), &pod(&name)?).await.with_context(|| format!("create {name}"))?;
        let running = tokio::time::timeout(RUNNING_DEADLINE, await_running(&mut events, &name));
        running.await.with_context(|| format!("{name} is not Running within {RUNNING_DEADLINE:?}"))??;
        times.push(created.elapsed());
    }
    api.delete_collection(&DeleteParams::default(), &ListParams::default().labels(LABEL)).await?;
    Ok(times)
}

/// The account that pods run as, which a controller makes.
async fn await_account(client: &kube::Client) -> Result<()> {
    let api: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    let account =
        kube::runtime::wait::await_condition(api, "default", |account: Option<&ServiceAccount>| account.is_some());
    tokio::time::timeout(ACCOUNT_DEADLINE, account).await.context("no default service account")??;
    Ok(())
}

async fn await_running(
    events: &mut (impl Stream<Item = kube::Result<WatchEvent<Pod>>> + Unpin),
    name: &str,
) -> Result<()> {
    while let Some(event) = events.try_next().await? {
        let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if pod.metadata.name.as_deref() == Some(name) && phase == Some("Running") {
            return Ok(());
        }
    }
    bail!("the watch ended")
}

fn pod(name: &str) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"figure": "pods"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [
            {"name": "pause", "image": "quorate/probe:1", "args": ["pause"]}]},
    }))?)
}
