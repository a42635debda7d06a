//! Upstream's own programs, built by `tests/peers/build`, and the two servers that stand side by side: kube-apiserver on
//! etcd, and `quorate up`, each on loopback with a directory of its own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::await_until::await_until;
use crate::cluster::Runtime;
use crate::kubectl::Kubectl;
use crate::process::{Process, run};
use crate::tools;

/// kube-apiserver takes four seconds on an idle machine.
const READY_DEADLINE: Duration = Duration::from_secs(120);

/// The folder of the programs named, which are built where they are missing.
pub fn programs(names: &[&str]) -> Result<PathBuf> {
    let mut command = Command::new(tools::repository().join("tests/peers/build"));
    command.args(names);
    let folder = run(command).context("upstream's programs cannot be built")?;
    Ok(PathBuf::from(folder.trim()))
}

/// A server of one process group that writes its kubeconfig into its directory.
#[derive(Debug)]
pub struct Server {
    pub process: Process,
    pub kubeconfig: PathBuf,
}

impl Server {
    /// kube-apiserver on etcd.
    pub fn kube_apiserver(programs: &Path, directory: &Path) -> Result<Self> {
        let mut command = Command::new(tools::repository().join("tests/peers/serve"));
        command.arg(directory).env("PEERS_BIN", programs);
        Self::start("kube-apiserver", directory, command)
    }

    /// `quorate up`; `runtime` is none where there is to be no node.
    pub fn quorate(directory: &Path, runtime: Option<Runtime>, flags: &[&str]) -> Result<Self> {
        let mut command = Command::new(tools::quorate_binary()?);
        command.args(["up", "--name", "alone", "--log-level", "warn", "--node-address", "127.0.0.1"]);
        command.arg("--data-dir").arg(directory.join("data")).arg("--kubeconfig").arg(directory.join("kubeconfig"));
        command.args(["--listen", &format!("127.0.0.1:{}", free_port()?), "--node-port", &free_port()?.to_string()]);
        command.args(["--runtime", runtime.map_or("none", Runtime::flag)]).args(flags);
        Self::start("quorate", directory, command)
    }

    fn start(name: &str, directory: &Path, command: Command) -> Result<Self> {
        std::fs::create_dir_all(directory).with_context(|| format!("{}", directory.display()))?;
        let process = Process::spawn(name, directory, command)?;
        Ok(Self { process, kubeconfig: directory.join("kubeconfig") })
    }

    pub fn kubectl(&self, programs: &Path) -> Kubectl {
        let cache = self.kubeconfig.with_file_name("cache");
        Kubectl { program: programs.join("kubectl"), kubeconfig: self.kubeconfig.clone(), cache, prefix: Vec::new() }
    }

    /// Waits until `/readyz` answers ok.
    pub fn await_ready(&mut self, kubectl: &Kubectl) -> Result<()> {
        let what = format!("{} to be ready", self.process.name);
        let process = &mut self.process;
        let ready = await_until(&what, READY_DEADLINE, || {
            if !process.is_running() {
                return Ok(Some(false));
            }
            Ok((kubectl.run(&["get", "--raw", "/readyz"])? == "ok").then_some(true))
        });
        match ready {
            Ok(true) => Ok(()),
            Ok(false) => bail!("{} ended at once:\n{}", self.process.name, self.process.log_tail()),
            Err(error) => Err(error).with_context(|| self.process.log_tail()),
        }
    }
}

/// A port that was free just now.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
