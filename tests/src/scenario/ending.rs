//! The leader ends in order: unready first, then drained, then its leadership handed over.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::failover::{client, restart_stopped, runtime, under_load};
use crate::cluster::Cluster;
use crate::kubectl::text;

/// Writes must be acknowledged again within this.
const SERVE_AGAIN: Duration = Duration::from_secs(1);

pub fn stop_leader(cluster: &mut Cluster) -> Result<()> {
    let leader = cluster.leader()?;
    let name = cluster.members[leader].name.clone();
    let before = term(cluster)?;
    let kubeconfig = cluster.kubectl_of(&cluster.members[leader])?.kubeconfig;
    let (history, codes) = runtime()?.block_on(async {
        let direct = client(&kubeconfig).await?;
        let readiness = tokio::spawn(follow_readiness(direct));
        let history = under_load(cluster, leader, "ending", |process| process.stop_well()).await?;
        Ok::<_, anyhow::Error>((history, readiness.await?))
    })?;
    ensure!(codes == [200, 500], "the ending leader's /readyz answered {codes:?} before it was gone");
    let violations = history.violations();
    ensure!(violations.is_empty(), "broken promises:\n{}", violations.join("\n"));
    let gap = history.longest_gap();
    println!("       {} writes acknowledged, longest gap {} ms", history.acknowledged().count(), gap.as_millis());
    ensure!(gap < SERVE_AGAIN, "writes stood still for {gap:?}");
    // It was there to see its successor: nobody had to wait for its absence to be noticed.
    let log = std::fs::read_to_string(&cluster.members[leader].process.log)?;
    let ending = log.rsplit_once("shutting down").map_or("", |(_, ending)| ending);
    let successor = ending.lines().find(|line| line.contains("the leader is known") && line.contains("is_self=false"));
    ensure!(successor.is_some(), "leadership was not handed over:\n{ending}");
    ensure!(cluster.members[cluster.leader()?].name != name, "{name} still leads");
    ensure!(term(cluster)? == before + 1, "it took more than one election: term {} after {before}", term(cluster)?);
    cluster.kubectl.run(&["delete", "configmaps", "-l", "history=ending", "--wait=false"])?;
    restart_stopped(cluster)
}

fn term(cluster: &Cluster) -> Result<u64> {
    let status: serde_json::Value = serde_json::from_str(&cluster.quorate(&["status", "--output", "json"])?)?;
    status["term"].as_u64().with_context(|| format!("no term in the status of {}", text(&status, "/member")))
}

/// What `/readyz` answers, each change once, until nobody answers any more.
async fn follow_readiness(client: kube::Client) -> Vec<u16> {
    let mut codes = Vec::new();
    loop {
        let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return codes };
        let code = match client.request_text(request).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(_gone) => return codes,
        };
        if codes.last() != Some(&code) {
            codes.push(code);
        }
    }
}
