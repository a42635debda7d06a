//! `quorate up` in a namespace of its own: a whole cluster in one process, with real containers. What ends with it, what
//! outlives it, and what is taken over by the next one.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::workload::{self, PODS_DEADLINE, await_running};
use crate::await_until::{await_true, await_until};
use crate::cluster::{Cluster, is_ready, path_text};
use crate::kubectl::{Kubectl, text};
use crate::lab::{cgroups, leftovers};
use crate::process::{Process, run};
use crate::tools::Tools;

/// Far behind the nodes of the cluster that the lab is shared with.
const FIRST_PLACE: usize = 20;
const START_DEADLINE: Duration = Duration::from_secs(120);
const DNS_ADDRESS: &str = "10.96.0.10";

/// One `quorate up` and the place it runs in.
struct Solo {
    name: &'static str,
    dir: PathBuf,
    data: PathBuf,
    prefix: Vec<String>,
    words: Vec<String>,
    kubectl: Kubectl,
    manager: UnixDatagram,
    process: Option<Process>,
}

impl Solo {
    fn place(cluster: &mut Cluster, name: &'static str, index: usize) -> Result<Self> {
        let (address, prefix) = cluster.lab.add_node(FIRST_PLACE + index)?;
        let dir = cluster.lab.dir.join(name);
        std::fs::create_dir_all(&dir)?;
        let data = dir.join("data");
        let manager = UnixDatagram::bind(dir.join("notify"))?;
        manager.set_read_timeout(Some(START_DEADLINE))?;
        let mut words: Vec<String> = prefix.clone();
        words.extend([path_text(&cluster.tools.quorate)?, "up", "--name", name, "--data-dir"].map(str::to_owned));
        words.push(path_text(&data)?.to_owned());
        words.extend(["--node-address".to_owned(), address.to_string()]);
        words.extend(["--cgroup-root".to_owned(), cluster.lab.cgroup_root(name), "--image-archives".to_owned()]);
        words.push(image_list(&cluster.tools)?);
        let kubectl = Kubectl {
            kubeconfig: data.join("kubeconfig"),
            cache: dir.join("cache"),
            prefix: prefix.clone(),
            ..cluster.kubectl.clone()
        };
        Ok(Self { name, dir, data, prefix, words, kubectl, manager, process: None })
    }

    /// Starts it and waits until its API is ready by its own word.
    fn spawn(&mut self) -> Result<()> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).env("NOTIFY_SOCKET", self.dir.join("notify"));
        self.process = Some(Process::spawn(self.name, &self.dir, command)?);
        self.await_notice("READY=1")
    }

    /// [`Solo::spawn`], and its node is Ready.
    fn start(&mut self) -> Result<()> {
        self.spawn()?;
        ensure!(self.kubectl.run(&["get", "--raw", "/readyz"])? == "ok", "ready, and yet not");
        let outcome = await_true("the node to be Ready", START_DEADLINE, || {
            ensure!(self.process()?.is_running(), "it has ended");
            Ok(self.kubectl.items(&["nodes"])?.iter().any(is_ready))
        });
        let log = self.process()?.log_tail();
        outcome.with_context(|| log)
    }

    fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("it was not started")
    }

    fn await_notice(&self, wanted: &str) -> Result<()> {
        let mut buffer = [0; 64];
        let length = self.manager.recv(&mut buffer).with_context(|| format!("no {wanted}"))?;
        let told = String::from_utf8_lossy(&buffer[..length]).into_owned();
        ensure!(told == wanted, "the service manager was told {told:?}, not {wanted:?}");
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.process()?.ask_to_end()?;
        self.await_notice("STOPPING=1")?;
        self.process()?.stop_well()
    }

    /// Runs a command where the node is.
    fn here(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.prefix[0]);
        command.args(&self.prefix[1..]).args(words);
        run(command)
    }

    /// A web server with a readiness probe, and a Service before it.
    fn deploy(&self) -> Result<()> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1.7.9", "ports": [{"containerPort": 80}],
                "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1}}]},
        });
        workload::create(&self.kubectl, &self.dir, &pod)?;
        await_running(&self.kubectl, "app=web", 1)?;
        self.kubectl.run(&["expose", "pod", "web", "--port", "80"]).map(drop)
    }

    /// Names, service rules, logs and exec work.
    fn check(&self, pod: &str) -> Result<()> {
        let page = workload::probe(&self.kubectl, &self.dir, pod, self.name, &["fetch", "http://web/"])?;
        ensure!(page.contains("Welcome to nginx"), "the page is {page:?}");
        ensure!(self.kubectl.run(&["exec", "web", "--", "cat", "/etc/hostname"])? == "web\n");
        let logs = self.kubectl.run(&["logs", "web"])?;
        ensure!(logs.contains("start worker process"), "{logs}");
        Ok(())
    }

    /// Which container runs, how often it was started again, and since when pod and node are ready.
    fn standing(&self) -> Result<Vec<String>> {
        let pod = self.kubectl.get(&["pod", "web"])?;
        let node = self.kubectl.get(&["node", self.name])?;
        let container = text(&pod, "/status/containerStatuses/0/containerID").to_owned();
        let restarts = pod.pointer("/status/containerStatuses/0/restartCount").cloned().unwrap_or_default();
        Ok(vec![container, restarts.to_string(), ready_since(&pod), ready_since(&node)])
    }

    /// Whether the pod's port answers, without any help of the API.
    fn answers(&self, address: &str) -> bool {
        self.here(&["bash", "-c", &format!("exec 3<>/dev/tcp/{address}/80")]).is_ok()
    }

    /// What there is of the node's network.
    fn network(&self) -> Result<Vec<String>> {
        let mut found: Vec<String> = Vec::new();
        let mut look = |words: &[&str], mark: &str| -> Result<()> {
            let text = self.here(words)?;
            found.extend(text.lines().filter(|line| line.contains(mark)).map(str::to_owned));
            Ok(())
        };
        look(&["nft", "list", "tables"], "quorate")?;
        look(&["ip", "-o", "address", "show", "dev", "lo"], DNS_ADDRESS)?;
        look(&["ip", "-o", "link"], "qpod")?;
        look(&["ip", "route"], "10.244.")?;
        Ok(found)
    }

    fn ensure_gone(&self) -> Result<()> {
        let mut left = self.network()?;
        left.extend(cgroups(&format!("-{}", self.name))?.iter().map(|path| path.display().to_string()));
        left.extend(
            leftovers(&self.data)?.into_iter().filter(|line| line.contains(path_text(&self.data).unwrap_or("/"))),
        );
        ensure!(left.is_empty(), "left behind:\n{}", left.join("\n"));
        Ok(())
    }
}

fn image_list(tools: &Tools) -> Result<String> {
    let archives = tools.images.as_ref().map_err(|reason| anyhow::anyhow!("{reason}"))?;
    let paths: Vec<&str> = archives.iter().map(|path| path_text(path)).collect::<Result<_>>()?;
    Ok(paths.join(","))
}

fn ready_since(object: &Value) -> String {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.and_then(|all| all.iter().find(|condition| text(condition, "/type") == "Ready"));
    ready.map(|c| format!("Ready={} since {}", text(c, "/status"), text(c, "/lastTransitionTime"))).unwrap_or_default()
}

/// The containerd it starts is its own: a kill takes nothing from the pods, an orderly end takes all.
pub fn with_own_containerd(cluster: &mut Cluster) -> Result<()> {
    let mut solo = Solo::place(cluster, "solo", 0)?;
    end_early(&mut solo)?;
    solo.start()?;
    solo.deploy()?;
    refuse_another(&solo)?;
    solo.check("ask")?;
    let before = solo.standing()?;
    let address = text(&solo.kubectl.get(&["pod", "web"])?, "/status/podIP").to_owned();
    solo.process()?.kill()?;
    ensure!(solo.answers(&address), "the pod does not answer without its agent");
    solo.start()?;
    solo.check("ask-after-kill")?;
    ensure!(solo.standing()? == before, "after a kill of the agent: {:?}, before: {before:?}", solo.standing()?);
    kill_containerd(&solo)?;
    solo.check("ask-after-containerd")?;
    ensure!(solo.standing()? == before, "after a kill of containerd: {:?}, before: {before:?}", solo.standing()?);
    solo.stop()?;
    solo.ensure_gone()?;
    solo.start()?;
    // Until its agent looks, the API shows the pod as it was.
    await_true("another container of the pod", PODS_DEADLINE, || Ok(solo.standing()?[..1] != before[..1]))?;
    await_running(&solo.kubectl, "app=web", 1)?;
    solo.check("ask-again")?;
    solo.stop()?;
    solo.ensure_gone()
}

/// Told to end while its containerd is starting, it leaves none behind.
fn end_early(solo: &mut Solo) -> Result<()> {
    solo.spawn()?;
    let pid = solo.data.join("node/containerd/pid");
    await_true("a containerd", START_DEADLINE, || Ok(pid.exists()))?;
    solo.stop()?;
    solo.ensure_gone()
}

/// A second node on the same machine finds the port taken, says so, and takes nothing from the first.
fn refuse_another(solo: &Solo) -> Result<()> {
    let before = solo.network()?;
    let mut words = solo.words.clone();
    let own_data = words.iter().position(|word| word == "--data-dir").context("its data directory")? + 1;
    path_text(&solo.dir.join("another"))?.clone_into(&mut words[own_data]);
    words.extend(["--listen", "127.0.0.1:7443"].map(str::to_owned));
    let output = Command::new(&words[0]).args(&words[1..]).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && errors.contains("is another node running here?"), "{errors}");
    ensure!(solo.network()? == before, "{:?}, before: {before:?}", solo.network()?);
    Ok(())
}

fn kill_containerd(solo: &Solo) -> Result<()> {
    let file = solo.data.join("node/containerd/pid");
    let old: i32 = std::fs::read_to_string(&file)?.trim().parse()?;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(old), Signal::SIGKILL)?;
    await_until("another containerd", START_DEADLINE, || {
        let new: i32 = std::fs::read_to_string(&file)?.trim().parse()?;
        Ok((new != old && Path::new(&format!("/proc/{new}")).exists()).then_some(()))
    })
}

/// Somebody else's containerd goes on with the pods when `up` ends, and the next `up` finds them.
pub fn with_a_running_containerd(cluster: &mut Cluster) -> Result<()> {
    let mut solo = Solo::place(cluster, "guest", 1)?;
    let mut host = start_containerd(&solo)?;
    let socket = path_text(&solo.dir.join("host/c.sock"))?.to_owned();
    solo.words.extend(["--containerd-address".to_owned(), socket.clone()]);
    solo.start()?;
    solo.deploy()?;
    solo.check("ask")?;
    let before = solo.standing()?;
    let address = text(&solo.kubectl.get(&["pod", "web"])?, "/status/podIP").to_owned();
    solo.stop()?;
    ensure!(solo.answers(&address), "the pod has ended with the agent");
    ensure!(solo.network()?.iter().any(|line| line.contains("table ip quorate")), "{:?}", solo.network()?);
    solo.start()?;
    solo.check("ask-again")?;
    ensure!(solo.standing()? == before, "after a restart of the agent: {:?}, before: {before:?}", solo.standing()?);
    solo.kubectl.run(&["delete", "pods", "--all", "--grace-period=1", "--timeout=60s"])?;
    await_true("the runtime to hold no pod", PODS_DEADLINE, || {
        Ok(solo.here(&["ctr", "-a", &socket, "-n", "k8s.io", "containers", "list", "-q"])?.is_empty())
    })?;
    solo.stop()?;
    // Nothing is left that would need it.
    host.stop()?;
    solo.ensure_gone()
}

/// As a machine's own containerd is: with directories of its own for CNI, and a sandbox image that must be there.
fn start_containerd(solo: &Solo) -> Result<Process> {
    let dir = solo.dir.join("host");
    std::fs::create_dir_all(&dir)?;
    let at = |name: &str| dir.join(name).display().to_string();
    let config = format!(
        "version = 2\nroot = {root:?}\nstate = {state:?}\n[grpc]\naddress = {socket:?}\n\
         [plugins.\"io.containerd.internal.v1.opt\"]\npath = {opt:?}\n\
         [plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"docker.io/quorate/pause:1\"\n\
         restrict_oom_score_adj = true\nstream_server_address = \"127.0.0.1\"\n\
         [plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = {bin:?}\nconf_dir = {conf:?}\n",
        root = at("root"),
        state = at("state"),
        socket = at("c.sock"),
        opt = at("opt"),
        bin = at("cni/bin"),
        conf = at("cni/net.d"),
    );
    std::fs::write(dir.join("config.toml"), config)?;
    let mut command = Command::new(&solo.prefix[0]);
    command.args(&solo.prefix[1..]).arg("containerd").arg("--config").arg(dir.join("config.toml"));
    let process = Process::spawn("host-containerd", &solo.dir, command)?;
    await_true("the containerd of the machine", START_DEADLINE, || {
        Ok(solo.here(&["ctr", "-a", &at("c.sock"), "version"]).is_ok())
    })?;
    Ok(process)
}
