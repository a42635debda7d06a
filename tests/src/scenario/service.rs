//! Step 2: a Service, reached by name from another node.

use anyhow::{Context, Result, ensure};

use super::workload::{await_running, probe_on};
use crate::cluster::Cluster;
use crate::kubectl::text;

pub fn fetch_by_name(cluster: &mut Cluster) -> Result<()> {
    cluster.kubectl.run(&["expose", "deployment", "nginx-deployment", "--name", "web", "--port", "80"])?;
    let service = cluster.kubectl.get(&["service", "web"])?;
    ensure!(text(&service, "/spec/clusterIP").starts_with("10.96."), "no cluster IP: {service}");
    let pods = await_running(&cluster.kubectl, "app=nginx", 3)?;
    let server = text(&pods[0], "/spec/nodeName").to_owned();
    let other = cluster.nodes.iter().find(|node| node.name != server).context("a second node")?.name.clone();
    for (number, node) in [&other, &server].into_iter().enumerate() {
        let page =
            probe_on(cluster, &format!("fetch-{number}"), node, &["fetch", "http://web.default.svc.cluster.local/"])?;
        ensure!(page.contains("Welcome to nginx"), "the page from {node} is {page:?}");
    }
    fetch_across(cluster, text(&pods[0], "/metadata/name"), &other)?;
    let short = probe_on(cluster, "fetch-short", &other, &["fetch", "http://web/"])?;
    ensure!(short.contains("Welcome to nginx"), "the page by its short name is {short:?}");
    Ok(())
}

/// A Service with one endpoint, which stands on another node than the one that asks.
fn fetch_across(cluster: &Cluster, pod: &str, other: &str) -> Result<()> {
    cluster.kubectl.run(&["label", "pod", pod, "spot=far"])?;
    let selector = ["--selector", "app=nginx,spot=far"];
    let expose = ["expose", "deployment", "nginx-deployment", "--name", "far", "--port", "80"];
    cluster.kubectl.run(&[&expose[..], &selector[..]].concat())?;
    let page = probe_on(cluster, "fetch-across", other, &["fetch", "http://far/"])?;
    ensure!(page.contains("Welcome to nginx"), "the page from the other node is {page:?}");
    cluster.kubectl.run(&["label", "pod", pod, "spot-"])?;
    cluster.kubectl.run(&["delete", "service", "far"]).map(drop)
}
