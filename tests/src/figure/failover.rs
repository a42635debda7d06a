//! Three members, the leader killed by SIGKILL under an open loop of writes: from the kill until a write that was sent
//! after it is acknowledged. Writers speak to the survivors.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::report;
use crate::await_until::{await_true, await_until};
use crate::cluster::{self, Cluster};
use crate::kubectl::text;
use crate::lab::Lab;
use crate::process::Process;
use crate::scenario::failover::client;
use crate::tools::Tools;

const MEMBERS: usize = 3;
/// Between two writes of one writer.
const INTERVAL: Duration = Duration::from_millis(5);
/// Writes of each writer before the kill, so that connections are open and the log moves.
const WARM_WRITES: u64 = 100;
/// Writes that do not resume by then are an error; it also bounds how many are under way.
const RESUME_DEADLINE: Duration = Duration::from_secs(10);
/// For a member to be back, and all to agree on a leader.
const BACK_DEADLINE: Duration = Duration::from_secs(60);
const ETCD_CLIENT_PORT: u16 = 2379;
const ETCD_PEER_PORT: u16 = 2380;

/// Write number N through one member.
type Write = Arc<dyn Fn(u64) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// Members whose leader can be killed, again and again.
trait Group {
    fn leader(&self, runtime: &Runtime) -> Result<usize>;
    /// Writes through every member but `leader`; `round` tells their names from others'.
    fn writers(&self, runtime: &Runtime, leader: usize, round: usize) -> Result<Vec<Write>>;
    fn process(&mut self, index: usize) -> &mut Process;
    /// Starts a dead member again and waits until it serves.
    fn restart(&mut self, runtime: &Runtime, index: usize) -> Result<()>;
}

/// Must be called before any thread is started: see [`Lab::enter`].
pub fn quorate(kills: usize) -> Result<Value> {
    let tools = Tools::prepare()?;
    let lab = Lab::enter(std::env::var_os("QUORATE_KEEP").is_some())?;
    let mut cluster = Cluster::start(tools, lab, cluster::Runtime::Simulated, MEMBERS)?;
    let times = resume_times(&mut cluster, kills)?;
    cluster.stop()?;
    report(&title(kills), times)
}

/// The same of etcd, at its default timers.
pub fn etcd(program: PathBuf, kills: usize) -> Result<Value> {
    let lab = Lab::enter(std::env::var_os("QUORATE_KEEP").is_some())?;
    let mut members = Etcd::start(program, lab)?;
    let times = resume_times(&mut members, kills)?;
    for process in &mut members.processes {
        process.stop()?;
    }
    report(&title(kills), times)
}

fn title(kills: usize) -> String {
    format!("writes resume after the leader's SIGKILL, {MEMBERS} members, {kills} kills")
}

fn resume_times(group: &mut impl Group, kills: usize) -> Result<Vec<Duration>> {
    let runtime = Runtime::new()?;
    let mut times = Vec::with_capacity(kills);
    for round in 0..kills {
        let leader = group.leader(&runtime)?;
        let writers = group.writers(&runtime, leader, round)?;
        let process = group.process(leader);
        times.push(runtime.block_on(resume(&writers, process)).with_context(|| format!("kill {}", round + 1))?);
        process.kill()?;
        group.restart(&runtime, leader)?;
    }
    Ok(times)
}

async fn resume(writers: &[Write], leader: &Process) -> Result<Duration> {
    let mut interval = tokio::time::interval(INTERVAL);
    let mut before = JoinSet::new();
    for number in 0..WARM_WRITES {
        interval.tick().await;
        for write in writers {
            before.spawn(write(number));
        }
    }
    // The last ones are still under way; at least one must have been answered, or there was nothing to interrupt.
    let mut acknowledged = 0;
    while let Some(done) = before.try_join_next() {
        acknowledged += usize::from(done?.is_ok());
    }
    ensure!(acknowledged > 0, "no write succeeded before the kill");
    let killed = Instant::now();
    leader.signal(Signal::SIGKILL)?;
    let mut after = JoinSet::new();
    let mut last = None;
    for number in WARM_WRITES.. {
        for write in writers {
            after.spawn(write(number));
        }
        while let Some(done) = after.try_join_next() {
            match done? {
                Ok(()) => return Ok(killed.elapsed()),
                Err(error) => last = Some(error),
            }
        }
        ensure!(killed.elapsed() < RESUME_DEADLINE, "no write within {RESUME_DEADLINE:?}: {last:?}");
        tokio::select! {
            _ = interval.tick() => {}
            Some(done) = after.join_next() => match done? {
                Ok(()) => return Ok(killed.elapsed()),
                Err(error) => last = Some(error),
            }
        }
    }
    anyhow::bail!("the numbers ended")
}

impl Group for Cluster {
    fn leader(&self, _runtime: &Runtime) -> Result<usize> {
        Cluster::leader(self)
    }

    fn writers(&self, runtime: &Runtime, leader: usize, round: usize) -> Result<Vec<Write>> {
        let survivors = self.members.iter().enumerate().filter(|(index, _)| *index != leader);
        let mut writers: Vec<Write> = Vec::new();
        for (_, member) in survivors {
            let kubectl = self.kubectl_of(member)?;
            let api: Api<ConfigMap> = Api::default_namespaced(runtime.block_on(client(&kubectl.kubeconfig))?);
            let name = format!("kill-{round}-{}", member.name);
            writers.push(Arc::new(move |number| {
                let (api, name) = (api.clone(), format!("{name}-{number}"));
                Box::pin(async move {
                    let mut object = ConfigMap::default();
                    object.metadata.name = Some(name);
                    api.create(&PostParams::default(), &object).await?;
                    Ok(())
                })
            }));
        }
        Ok(writers)
    }

    fn process(&mut self, index: usize) -> &mut Process {
        &mut self.members[index].process
    }

    fn restart(&mut self, _runtime: &Runtime, index: usize) -> Result<()> {
        self.restart_member(index)?;
        let alone = self.kubectl_of(&self.members[index])?;
        await_true("the restarted member to be ready", BACK_DEADLINE, || {
            Ok(alone.run(&["get", "--raw", "/readyz"])? == "ok")
        })
    }
}

/// Members of etcd, spoken to by the JSON form of its API.
struct Etcd {
    // Dropped before the lab, whose directory they write to.
    processes: Vec<Process>,
    addresses: Vec<String>,
    program: PathBuf,
    lab: Lab,
}

impl Etcd {
    fn start(program: PathBuf, lab: Lab) -> Result<Self> {
        let addresses =
            (0..MEMBERS).map(|index| Ok(lab.member_address(index)?.to_string())).collect::<Result<Vec<_>>>()?;
        let mut members = Self { processes: Vec::new(), addresses, program, lab };
        for index in 0..MEMBERS {
            let process = members.spawn(index)?;
            members.processes.push(process);
        }
        let runtime = Runtime::new()?;
        for index in 0..MEMBERS {
            members.await_serving(&runtime, index)?;
        }
        Ok(members)
    }

    fn spawn(&self, index: usize) -> Result<Process> {
        let peer = |index: usize| format!("http://{}:{ETCD_PEER_PORT}", self.addresses[index]);
        let all: Vec<String> = (0..MEMBERS).map(|index| format!("m{index}={}", peer(index))).collect();
        let clients = format!("http://{}:{ETCD_CLIENT_PORT}", self.addresses[index]);
        let name = format!("m{index}");
        let directory: &Path = &self.lab.dir;
        let mut command = Command::new(&self.program);
        command.args(["--name", &name, "--log-level", "warn"]).arg("--data-dir").arg(directory.join(&name));
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peer(index), "--initial-advertise-peer-urls", &peer(index)]);
        command.args(["--initial-cluster", &all.join(",")]);
        Process::spawn(&name, directory, command)
    }

    fn client(&self, index: usize) -> Result<kube::Client> {
        let url = format!("http://{}:{ETCD_CLIENT_PORT}", self.addresses[index]);
        Ok(kube::Client::try_from(kube::Config::new(url.parse()?))?)
    }

    fn status(&self, runtime: &Runtime, index: usize) -> Result<Value> {
        let _context = runtime.enter();
        let client = self.client(index)?;
        runtime.block_on(post(client, "/v3/maintenance/status", json!({})))
    }

    fn await_serving(&self, runtime: &Runtime, index: usize) -> Result<()> {
        await_true("the member of etcd to follow a leader", BACK_DEADLINE, || {
            let status = self.status(runtime, index)?;
            // The JSON form leaves out a zero, which stands for none.
            Ok(!text(&status, "/leader").is_empty() && !text(&status, "/raftAppliedIndex").is_empty())
        })
    }
}

async fn post(client: kube::Client, path: &str, body: Value) -> Result<Value> {
    let request =
        http::Request::post(path).header("content-type", "application/json").body(body.to_string().into_bytes())?;
    Ok(client.request(request).await?)
}

impl Group for Etcd {
    fn leader(&self, runtime: &Runtime) -> Result<usize> {
        await_until("a leader of etcd", BACK_DEADLINE, || {
            for index in 0..MEMBERS {
                let status = self.status(runtime, index)?;
                if text(&status, "/leader") == text(&status, "/header/member_id") {
                    return Ok(Some(index));
                }
            }
            Ok(None)
        })
    }

    fn writers(&self, runtime: &Runtime, leader: usize, round: usize) -> Result<Vec<Write>> {
        let _context = runtime.enter();
        let mut writers: Vec<Write> = Vec::new();
        for index in (0..MEMBERS).filter(|index| *index != leader) {
            let client = self.client(index)?;
            writers.push(Arc::new(move |number| {
                // Keys are base64: digits and letters, in fours, are.
                let key = format!("{:04}{index:04}{number:08}", round % 10_000);
                let client = client.clone();
                Box::pin(async move {
                    post(client, "/v3/kv/put", json!({"key": key, "value": "dmFsdWUx"})).await?;
                    Ok(())
                })
            }));
        }
        Ok(writers)
    }

    fn process(&mut self, index: usize) -> &mut Process {
        &mut self.processes[index]
    }

    fn restart(&mut self, runtime: &Runtime, index: usize) -> Result<()> {
        self.processes[index] = self.spawn(index)?;
        self.await_serving(runtime, index)
    }
}
