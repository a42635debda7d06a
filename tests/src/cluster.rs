//! A running cluster: members, nodes, the balancer that clients use, and their ends.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::await_until::{await_true, await_until};
use crate::interrupt;
use crate::kubectl::{Kubectl, text};
use crate::lab::Lab;
use crate::process::{Process, run};
use crate::tools::Tools;

/// From the start of the processes to an answer from the API.
const READY_DEADLINE: Duration = Duration::from_secs(60);
/// From the start of a node to its Ready condition; the first start unpacks images.
const NODE_DEADLINE: Duration = Duration::from_secs(120);
const API_PORT: u16 = 6443;
const PEER_PORT: u16 = 2380;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    Containerd,
    Simulated,
}

impl Runtime {
    /// Real containers if this machine can have them, else why not.
    pub fn available(tools: &Tools) -> (Self, Option<String>) {
        match &tools.images {
            Ok(_) => (Self::Containerd, None),
            Err(reason) => (Self::Simulated, Some(reason.clone())),
        }
    }

    pub fn flag(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Simulated => "simulated",
        }
    }
}

#[derive(Debug)]
pub struct Member {
    pub name: String,
    pub address: String,
    pub process: Process,
}

impl Member {
    pub fn api(&self) -> String {
        format!("{}:{API_PORT}", self.address)
    }
}

#[derive(Debug)]
pub struct NodeProcess {
    pub name: String,
    pub address: String,
    pub process: Process,
}

#[derive(Debug)]
pub struct Cluster {
    // Ended in this order: nodes remove their pods through the API, so they go before the members.
    pub nodes: Vec<NodeProcess>,
    balancer: Option<Process>,
    pub members: Vec<Member>,
    pub kubectl: Kubectl,
    pub runtime: Runtime,
    pub tools: Tools,
    pub lab: Lab,
}

impl Cluster {
    /// Members that agree on each other, ready to answer, and a kubeconfig that goes through the balancer.
    pub fn start(tools: Tools, lab: Lab, runtime: Runtime, members: usize) -> Result<Self> {
        let kubectl = Kubectl {
            program: tools.kubectl.clone(),
            kubeconfig: lab.dir.join("kubeconfig"),
            cache: lab.dir.join("cache"),
            prefix: Vec::new(),
        };
        let mut cluster = Self { nodes: Vec::new(), balancer: None, members: Vec::new(), kubectl, runtime, tools, lab };
        cluster.quorate(&["pki", "create", "--dir", path_text(&cluster.pki())?])?;
        let addresses: Vec<String> =
            (0..members).map(|index| Ok(cluster.lab.member_address(index)?.to_string())).collect::<Result<_>>()?;
        for (index, address) in addresses.iter().enumerate() {
            let name = member_name(index);
            let process = cluster.spawn_member(&name, address, &addresses)?;
            cluster.members.push(Member { name, address: address.clone(), process });
        }
        cluster.start_balancer()?;
        cluster.await_ready()?;
        Ok(cluster)
    }

    fn pki(&self) -> PathBuf {
        self.lab.dir.join("pki")
    }

    pub fn quorate(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.tools.quorate);
        command.args(words).env("KUBECONFIG", &self.kubectl.kubeconfig);
        run(command)
    }

    fn spawn_member(&self, name: &str, address: &str, all: &[String]) -> Result<Process> {
        let initial: Vec<String> = all
            .iter()
            .enumerate()
            .map(|(index, address)| format!("{}={address}:{PEER_PORT}", member_name(index)))
            .collect();
        let mut command = Command::new(&self.tools.quorate);
        command.args(["server", "--name", name, "--zone", &format!("zone-{name}")]);
        command.arg("--data-dir").arg(self.lab.dir.join(name)).arg("--pki-dir").arg(self.pki());
        command.args(["--listen", &format!("{address}:{API_PORT}")]);
        command.args(["--listen-peer", &format!("{address}:{PEER_PORT}")]);
        command.args(["--initial-members", &initial.join(",")]);
        Process::spawn(name, &self.lab.dir, command)
    }

    fn start_balancer(&mut self) -> Result<()> {
        let members: Vec<String> = self.members.iter().map(Member::api).collect();
        // An address that every member's certificate names. Without namespaces it is shared with all other runs.
        let port = if self.lab.has_namespaces() { API_PORT } else { free_port()? };
        let listen = format!("127.0.0.1:{port}");
        let mut command = Command::new(&self.tools.quorate);
        command.args(["balancer", "--members", &members.join(","), "--listen", &listen]);
        self.balancer = Some(Process::spawn("balancer", &self.lab.dir, command)?);
        self.write_kubeconfig(&format!("https://{listen}"), &self.kubectl.kubeconfig)
    }

    fn write_kubeconfig(&self, server: &str, path: &Path) -> Result<()> {
        self.quorate(&[
            "kubeconfig",
            "--pki-dir",
            path_text(&self.pki())?,
            "--server",
            server,
            "--out",
            path_text(path)?,
        ])?;
        Ok(())
    }

    /// A kubectl that speaks to one member only.
    pub fn kubectl_of(&self, member: &Member) -> Result<Kubectl> {
        let kubeconfig = self.lab.dir.join(format!("kubeconfig-{}", member.name));
        self.write_kubeconfig(&format!("https://{}", member.api()), &kubeconfig)?;
        Ok(Kubectl { kubeconfig, ..self.kubectl.clone() })
    }

    fn await_ready(&mut self) -> Result<()> {
        let mut ways = self.members.iter().map(|member| self.kubectl_of(member)).collect::<Result<Vec<_>>>()?;
        ways.push(self.kubectl.clone());
        let ready = await_until("readiness of every member", READY_DEADLINE, || {
            if let Some(dead) = self.members.iter_mut().find_map(|m| (!m.process.is_running()).then_some(&m.process)) {
                return Ok(Some(Err(anyhow!("{} ended at once:\n{}", dead.name, dead.log_tail()))));
            }
            // Each by itself: the balancer may not have found out yet that one is still starting.
            for kubectl in &ways {
                let answer = kubectl.run(&["get", "--raw", "/readyz"])?;
                ensure!(answer == "ok", "{answer}");
            }
            Ok(Some(Ok(())))
        });
        ready.with_context(|| self.members[0].process.log_tail())?
    }

    /// Starts `count` nodes side by side and waits until all are Ready.
    pub fn add_nodes(&mut self, count: usize) -> Result<()> {
        let token = self.quorate(&["token", "create"])?;
        let archives = self.tools.images.clone().unwrap_or_default();
        for _ in 0..count {
            let index = self.nodes.len();
            let node = self.spawn_node(index, token.trim(), &archives)?;
            self.nodes.push(node);
        }
        self.await_nodes_ready()
    }

    fn spawn_node(&mut self, index: usize, token: &str, archives: &[PathBuf]) -> Result<NodeProcess> {
        let (address, prefix) = self.lab.add_node(index)?;
        let name = format!("node-{}", index + 1);
        let members: Vec<String> = self.members.iter().map(Member::api).collect();
        let mut words: Vec<String> = prefix;
        words.push(path_text(&self.tools.quorate)?.to_owned());
        words.extend(["node", "--name", &name, "--zone"].map(str::to_owned));
        words.push(format!("zone-{}", member_name(index % self.members.len())));
        words.extend(["--join".to_owned(), members.join(",")]);
        words.extend(["--data-dir".to_owned(), path_text(&self.lab.dir.join(&name))?.to_owned()]);
        words.extend(["--runtime", self.runtime.flag(), "--node-address", &address.to_string()].map(str::to_owned));
        words.extend(["--cgroup-root".to_owned(), self.lab.cgroup_root(&name)]);
        if !self.lab.has_namespaces() {
            // Any free port: nodes share the address.
            words.extend(["--balancer-listen", "127.0.0.1:0"].map(str::to_owned));
        }
        if !archives.is_empty() {
            let list: Vec<&str> = archives.iter().map(|path| path_text(path)).collect::<Result<_>>()?;
            words.extend(["--image-archives".to_owned(), list.join(",")]);
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("QUORATE_TOKEN", token);
        let process = Process::spawn(&name, &self.lab.dir, command)?;
        Ok(NodeProcess { name, address: address.to_string(), process })
    }

    pub fn await_nodes_ready(&mut self) -> Result<()> {
        let wanted = self.nodes.len();
        let kubectl = self.kubectl.clone();
        let outcome = await_true("all nodes Ready", NODE_DEADLINE, || {
            if let Some(dead) = self.nodes.iter_mut().find_map(|n| (!n.process.is_running()).then_some(&n.process)) {
                bail!("{} ended", dead.name);
            }
            let nodes = kubectl.items(&["nodes"])?;
            Ok(nodes.iter().filter(|node| is_ready(node)).count() == wanted)
        });
        outcome.with_context(|| self.nodes.iter().map(|n| n.process.log_tail()).collect::<Vec<_>>().join("\n---\n"))
    }

    /// The index of the member that leads, as all running members say.
    pub fn leader(&self) -> Result<usize> {
        await_until("a leader", READY_DEADLINE, || {
            let status: serde_json::Value = serde_json::from_str(&self.quorate(&["status", "--output", "json"])?)?;
            let leader = text(&status, "/leader").to_owned();
            Ok(self.members.iter().position(|member| member.name == leader))
        })
    }

    /// Starts a member again on its old directory.
    pub fn restart_member(&mut self, index: usize) -> Result<()> {
        let addresses: Vec<String> = self.members.iter().map(|member| member.address.clone()).collect();
        let process = self.spawn_member(&self.members[index].name, &self.members[index].address, &addresses)?;
        self.members[index].process = process;
        Ok(())
    }

    /// Ends everything in order; tells what did not end well.
    pub fn stop(mut self) -> Result<()> {
        let outcome = self.end();
        if outcome.is_err() {
            interrupt::note_failure();
        }
        outcome
    }

    fn end(&mut self) -> Result<()> {
        for node in self.nodes.iter_mut().filter(|node| !node.process.was_killed()) {
            node.process.ask_to_end()?;
        }
        for process in self.nodes.iter_mut().map(|node| &mut node.process) {
            process.stop_well()?;
        }
        for process in self.members.iter_mut().map(|member| &mut member.process).chain(self.balancer.as_mut()) {
            process.stop_well()?;
        }
        Ok(())
    }
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn member_name(index: usize) -> String {
    ["a", "b", "c", "d", "e"].get(index).map_or_else(|| format!("m{index}"), |name| (*name).to_owned())
}

pub(crate) fn path_text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Whether an object's Ready condition holds.
pub fn is_ready(node: &serde_json::Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(serde_json::Value::as_array);
    conditions.is_some_and(|all| all.iter().any(|c| text(c, "/type") == "Ready" && text(c, "/status") == "True"))
}
