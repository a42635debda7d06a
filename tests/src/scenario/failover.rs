//! Steps 3 and 5: the leader dies under load and comes back.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::await_until::{await_true, await_until};
use crate::cluster::Cluster;
use crate::history::{History, Recorder};
use crate::kubectl::text;
use crate::process::Process;

/// A new leader must have served within this.
const SERVE_AGAIN: Duration = Duration::from_secs(1);
const WARM_WRITES: usize = 50;
const LOAD_DEADLINE: Duration = Duration::from_secs(30);
const CATCH_UP_DEADLINE: Duration = Duration::from_secs(30);

pub fn kill_leader(cluster: &mut Cluster) -> Result<()> {
    let leader = cluster.leader()?;
    let history = runtime()?.block_on(under_load(cluster, leader, "failover", Process::kill))?;
    let violations = history.violations();
    ensure!(violations.is_empty(), "broken promises:\n{}", violations.join("\n"));
    let gap = history.longest_gap();
    println!("       {} writes acknowledged, longest gap {} ms", history.acknowledged().count(), gap.as_millis());
    ensure!(gap < SERVE_AGAIN, "writes stood still for {gap:?}");
    cluster.kubectl.run(&["get", "nodes"])?;
    cluster.kubectl.run(&["delete", "configmaps", "-l", "history=failover", "--wait=false"])?;
    Ok(())
}

/// Writes and watches through the other members while `end` ends the leader.
pub(super) async fn under_load(
    cluster: &mut Cluster,
    leader: usize,
    run: &str,
    end: impl FnOnce(&mut Process) -> Result<()>,
) -> Result<History> {
    let balanced = client(&cluster.kubectl.kubeconfig).await?;
    let mut recorder = Recorder::new(run, balanced.clone());
    let mut survivors = Vec::new();
    for index in (0..cluster.members.len()).filter(|index| *index != leader) {
        let member = &cluster.members[index];
        let direct = client(&cluster.kubectl_of(member)?.kubeconfig).await?;
        recorder.watch_through(&member.name, direct.clone()).await?;
        survivors.push((member.name.clone(), direct));
    }
    // Every watcher is open before the first write, so that each must see all of them.
    for (name, direct) in survivors {
        recorder.write_through(&name, direct);
    }
    recorder.write_through("balanced", balanced);
    await_writes(&recorder, WARM_WRITES)?;
    tokio::task::block_in_place(|| end(&mut cluster.members[leader].process))?;
    let before = recorder.acknowledged();
    await_writes(&recorder, before + WARM_WRITES)?;
    recorder.finish(CATCH_UP_DEADLINE).await
}

fn await_writes(recorder: &Recorder, count: usize) -> Result<()> {
    tokio::task::block_in_place(|| {
        await_true(&format!("{count} acknowledged writes"), LOAD_DEADLINE, || Ok(recorder.acknowledged() >= count))
    })
}

pub fn restart_stopped(cluster: &mut Cluster) -> Result<()> {
    let killed = (0..cluster.members.len()).find(|index| !cluster.members[*index].process.is_running());
    let killed = killed.context("every member runs")?;
    cluster.restart_member(killed)?;
    let alone = cluster.kubectl_of(&cluster.members[killed])?;
    await_until("the restarted member to be ready", CATCH_UP_DEADLINE, || {
        Ok((alone.run(&["get", "--raw", "/readyz"])? == "ok").then_some(()))
    })?;
    for kind in ["pods,deployments,replicasets,services", "configmaps,serviceaccounts,secrets,nodes"] {
        // Something may change between the two looks; then they are compared again.
        await_until(&format!("the restarted member to show the same {kind}"), CATCH_UP_DEADLINE, || {
            let ours = sorted(&alone.items(&["-A", kind])?);
            let theirs = sorted(&cluster.kubectl.items(&["-A", kind])?);
            let differing = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
            ensure!(ours == theirs, "{} and {} objects, among them {differing:?}", ours.len(), theirs.len());
            Ok(Some(()))
        })?;
    }
    Ok(())
}

/// Whole objects, with the revision of their last change, in an order of their own.
fn sorted(items: &[serde_json::Value]) -> Vec<String> {
    let mut objects: Vec<(&str, String)> =
        items.iter().map(|item| (text(item, "/metadata/uid"), item.to_string())).collect();
    objects.sort();
    objects.into_iter().map(|(_uid, object)| object).collect()
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

pub async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}
