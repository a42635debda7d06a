//! Addresses for a cluster: network namespaces of our own as root, loopback addresses otherwise.
//!
//! As root the calling process moves into a new, unnamed network namespace (the "fabric": a bridge with the members'
//! addresses), which vanishes with it; each node gets a named one, `quorate-PID-NODE`, joined to the bridge by a veth.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::await_until::await_uninterrupted;
use crate::interrupt;
use crate::process::run_words;

const NAMESPACE_PREFIX: &str = "quorate-";
const FABRIC: &str = "fabric0";
/// For killed processes to leave their cgroups.
const SWEEP_DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Lab {
    /// Everything the run writes; removed at the end unless it is kept.
    pub dir: PathBuf,
    kind: Kind,
    node_namespaces: Vec<String>,
    keep: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Namespaces,
    Loopback { net: u8 },
}

impl Lab {
    /// Must be called before any thread is started: it moves the calling process into the fabric.
    pub fn enter(keep: bool) -> Result<Self> {
        let id = std::process::id();
        let dir = std::env::temp_dir().join(format!("quorate-lab-{id}"));
        std::fs::create_dir_all(&dir).with_context(|| format!("{}", dir.display()))?;
        let kind = if nix::unistd::geteuid().is_root() {
            sweep_stale_namespaces()?;
            enter_fabric()?;
            Kind::Namespaces
        } else {
            Kind::Loopback { net: u8::try_from(id % 250)? + 2 }
        };
        Ok(Self { dir, kind, node_namespaces: Vec::new(), keep })
    }

    pub fn has_namespaces(&self) -> bool {
        self.kind == Kind::Namespaces
    }

    /// The address of member `index`, ready to be bound.
    pub fn member_address(&self, index: usize) -> Result<Ipv4Addr> {
        let host = 11 + u8::try_from(index)?;
        match self.kind {
            Kind::Loopback { net } => Ok(Ipv4Addr::new(127, net, 0, host)),
            Kind::Namespaces => {
                let address = Ipv4Addr::new(172, 31, 0, host);
                run_words(&["ip", "address", "replace", &format!("{address}/24"), "dev", FABRIC])?;
                Ok(address)
            }
        }
    }

    /// The cgroup of a node's pods, which no other run has.
    pub fn cgroup_root(&self, node: &str) -> String {
        format!("{}-{node}", own_cgroups())
    }

    /// A node's place: its address and the words that go before a command that runs there.
    pub fn add_node(&mut self, index: usize) -> Result<(Ipv4Addr, Vec<String>)> {
        let host = 101 + u8::try_from(index)?;
        match self.kind {
            Kind::Loopback { net } => Ok((Ipv4Addr::new(127, net, 0, host), Vec::new())),
            Kind::Namespaces => {
                let address = Ipv4Addr::new(172, 31, 0, host);
                let namespace = format!("{NAMESPACE_PREFIX}{}-{index}", std::process::id());
                self.node_namespaces.push(namespace.clone());
                join_to_fabric(&namespace, index, address)?;
                Ok((address, vec!["nsenter".to_owned(), format!("--net=/run/netns/{namespace}")]))
            }
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if interrupt::has_failed() {
            sweep(&self.dir);
        }
        for namespace in &self.node_namespaces {
            delete_namespace(namespace);
        }
        if self.keep || interrupt::has_failed() {
            println!("kept: {}", self.dir.display());
        } else if let Err(error) = std::fs::remove_dir_all(&self.dir) {
            println!("cannot remove {}: {error}", self.dir.display());
        }
    }
}

fn own_cgroups() -> String {
    format!("quorate-lab-{}", std::process::id())
}

/// Directories of this run's cgroups, in each hierarchy, whose name continues with `rest`.
pub fn cgroups(rest: &str) -> Result<Vec<PathBuf>> {
    let (top, wanted) = (Path::new("/sys/fs/cgroup"), format!("{}{rest}", own_cgroups()));
    let below = |folder: &Path| -> Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
        Ok(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
    };
    let mut candidates = below(top)?;
    // Version 1 has a directory for each hierarchy; in version 2 the first level holds cgroups already.
    for hierarchy in candidates.clone() {
        candidates.extend(below(&hierarchy)?);
    }
    let is_wanted = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&wanted));
    Ok(candidates.into_iter().filter(is_wanted).collect())
}

fn enter_fabric() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNET).context("a new network namespace")?;
    for words in [
        &["ip", "link", "set", "lo", "up"][..],
        &["ip", "link", "add", FABRIC, "type", "bridge"],
        &["ip", "address", "add", "172.31.0.1/24", "dev", FABRIC],
        &["ip", "link", "set", FABRIC, "up"],
    ] {
        run_words(words)?;
    }
    Ok(())
}

fn join_to_fabric(namespace: &str, index: usize, address: Ipv4Addr) -> Result<()> {
    let (outside, cidr) = (format!("node{index}"), format!("{address}/24"));
    for words in [
        &["ip", "netns", "add", namespace][..],
        &["ip", "link", "add", &outside, "type", "veth", "peer", "name", "eth0", "netns", namespace],
        &["ip", "link", "set", &outside, "master", FABRIC, "up"],
        &["ip", "-n", namespace, "link", "set", "lo", "up"],
        &["ip", "-n", namespace, "address", "add", &cidr, "dev", "eth0"],
        &["ip", "-n", namespace, "link", "set", "eth0", "up"],
        &["ip", "-n", namespace, "route", "add", "default", "via", "172.31.0.1"],
    ] {
        run_words(words)?;
    }
    Ok(())
}

/// Ends by force what processes of the run have left when they could not end in order.
fn sweep(dir: &Path) {
    let text = dir.to_string_lossy().into_owned();
    kill_all(&run_words(&["pgrep", "-f", &text]).unwrap_or_default());
    let cgroups = cgroups("-").unwrap_or_default();
    for cgroup in &cgroups {
        // Containers do not end with what watches them.
        let words = ["find", &cgroup.to_string_lossy(), "-name", "cgroup.procs", "-exec", "cat", "{}", "+"];
        kill_all(&run_words(&words).unwrap_or_default());
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let below = mounts.lines().rev().filter_map(|line| line.split(' ').nth(1)).filter(|path| path.starts_with(&text));
    for path in below {
        tell(run_words(&["umount", "--lazy", path]));
    }
    for cgroup in &cgroups {
        let folder = cgroup.to_string_lossy();
        tell(await_uninterrupted("an empty cgroup", SWEEP_DEADLINE, || {
            run_words(&["find", &folder, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"]).map(Some)
        }));
    }
}

fn kill_all(processes: &str) {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    for process in processes.split_whitespace().filter_map(|text| text.parse().ok()).filter(|process| *process != own) {
        // Many have ended by themselves by now.
        let _gone = kill(Pid::from_raw(process), Signal::SIGKILL);
    }
}

fn tell<T>(outcome: Result<T>) {
    if let Err(error) = outcome {
        println!("sweeping up: {error:#}");
    }
}

fn delete_namespace(namespace: &str) {
    if let Err(error) = run_words(&["ip", "netns", "delete", namespace]) {
        println!("cannot delete {namespace}: {error:#}");
    }
}

fn namespaces() -> Result<Vec<String>> {
    let listed = run_words(&["ip", "netns", "list"])?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| name.starts_with(NAMESPACE_PREFIX)).map(str::to_owned).collect())
}

/// Deletes the namespaces of runs whose process is gone.
fn sweep_stale_namespaces() -> Result<()> {
    for namespace in namespaces()? {
        let owner = namespace.trim_start_matches(NAMESPACE_PREFIX).split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(owner).exists() {
            delete_namespace(&namespace);
        }
    }
    Ok(())
}

/// What a run left on the machine: mounts, cgroups, processes and namespaces below or named after `dir`.
pub fn leftovers(dir: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let text = dir.to_string_lossy().into_owned();
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    found.extend(mounts.lines().filter(|line| line.contains(&text)).map(|line| format!("mount {line}")));
    let own = format!("{NAMESPACE_PREFIX}{}-", std::process::id());
    found.extend(
        namespaces().unwrap_or_default().into_iter().filter(|n| n.starts_with(&own)).map(|n| format!("namespace {n}")),
    );
    let mut command = Command::new("pgrep");
    command.args(["-af", &text]);
    let processes = String::from_utf8_lossy(&command.output()?.stdout).into_owned();
    let own = format!("{} ", std::process::id());
    found.extend(processes.lines().filter(|line| !line.starts_with(&own)).map(|line| format!("process {line}")));
    found.extend(cgroups("-")?.into_iter().map(|path| format!("cgroup {}", path.display())));
    Ok(found)
}
