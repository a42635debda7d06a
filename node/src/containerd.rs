//! A containerd of the agent's own: its configuration, its process, the images it is given.
//!
//! It outlives a crash of the agent, so that pods go on; the next agent finds it by its socket and takes it over. It
//! ends with the agent when that ends in order, after the pods are gone.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;
use quorate_env::{Clock, Scope};
use tokio::process::{Child, Command};

use crate::config::Config;
use crate::runtime::CriRuntime;

mod pause;

pub use pause::IMAGE as PAUSE_IMAGE;

/// From the start of the process to its first answer.
const READY_LIMIT: Duration = Duration::from_secs(60);
const READY_POLL: Duration = Duration::from_millis(50);
/// Given to the process between SIGTERM and SIGKILL.
const STOP_LIMIT: Duration = Duration::from_secs(10);
const STOP_POLL: Duration = Duration::from_millis(50);
/// Started again no sooner after it has ended by itself.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// The kernel's limit for the path of a socket; containerd appends `.ttrpc` to its own.
const SOCKET_PATH_MAX: usize = 100;
/// The registry mirrors and their settings are read from below this directory.
const CERTS_DIR: &str = "certs.d";

#[derive(Debug, thiserror::Error)]
pub enum ContainerdError {
    #[error("{path}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the socket path {0} is too long; choose a shorter data directory")]
    SocketPath(String),
    #[error("{program} cannot be run; is the package containerd installed?")]
    Spawn {
        program: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("containerd did not answer within {0:?}; see {1}")]
    NotReady(Duration, String),
    #[error("image archive {archive} cannot be loaded: {output}")]
    Import { archive: String, output: String },
}

/// The running process, ours to stop.
#[derive(Debug)]
pub struct Containerd {
    directory: PathBuf,
    snapshotter: &'static str,
    child: std::sync::Arc<Mutex<Option<Child>>>,
    clock: Clock,
}

pub fn socket(config: &Config) -> PathBuf {
    config.containerd_dir().join("c.sock")
}

impl Containerd {
    /// Start it, or take over the one that runs, and keep it running until [`Containerd::stop`].
    pub async fn start(config: &Config, clock: &Clock, scope: &Scope) -> Result<Self, ContainerdError> {
        let directory = config.containerd_dir();
        let socket = socket(config);
        if socket.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(ContainerdError::SocketPath(socket.display().to_string()));
        }
        let snapshotter = write_files(config)?;
        let this = Self { directory, snapshotter, child: std::sync::Arc::default(), clock: clock.clone() };
        if answers(&socket).await {
            tracing::info!("taking over the containerd that runs");
        } else {
            // Left by one that was killed; a client must not take it for a live one.
            remove_if_there(&socket)?;
            *this.child.lock() = Some(this.spawn()?);
            this.wait_until_ready(&socket).await?;
        }
        this.supervise(&socket, scope);
        Ok(this)
    }

    fn spawn(&self) -> Result<Child, ContainerdError> {
        let log_path = self.directory.join("containerd.log");
        let file = |source| ContainerdError::File { path: log_path.display().to_string(), source };
        let log = std::fs::File::options().create(true).append(true).open(&log_path).map_err(file)?;
        let errors = log.try_clone().map_err(file)?;
        // Containers have their machine's huge pages, whatever this process does without; children inherit it.
        let without = nix::sys::prctl::get_thp_disable().unwrap_or(false);
        let give_back = |disabled: bool| nix::sys::prctl::set_thp_disable(disabled).ok();
        give_back(false);
        let child = Command::new("containerd")
            .arg("--config")
            .arg(self.directory.join("config.toml"))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // Signals to the agent's terminal are not for it: pods are ended first.
            .process_group(0)
            .spawn()
            .map_err(|source| ContainerdError::Spawn { program: "containerd", source });
        give_back(without);
        let child = child?;
        if let Some(pid) = child.id() {
            let path = self.directory.join("pid");
            std::fs::write(&path, pid.to_string())
                .map_err(|source| ContainerdError::File { path: path.display().to_string(), source })?;
        }
        Ok(child)
    }

    async fn wait_until_ready(&self, socket: &Path) -> Result<(), ContainerdError> {
        let ready = async {
            while !answers(socket).await {
                self.clock.sleep(READY_POLL).await;
            }
        };
        self.clock.timeout(READY_LIMIT, ready).await.map_err(|elapsed| {
            ContainerdError::NotReady(elapsed.0, self.directory.join("containerd.log").display().to_string())
        })
    }

    /// Start it again when it ends by itself.
    fn supervise(&self, socket: &Path, scope: &Scope) {
        let this = Self {
            directory: self.directory.clone(),
            snapshotter: self.snapshotter,
            child: self.child.clone(),
            clock: self.clock.clone(),
        };
        let socket = socket.to_owned();
        scope.spawn_until_cancelled("containerd", async move {
            loop {
                this.clock.sleep(RESTART_PAUSE).await;
                if this.is_running() {
                    continue;
                }
                tracing::error!("containerd has ended; starting it again");
                let started = remove_if_there(&socket).and_then(|()| this.spawn());
                match started {
                    Ok(child) => *this.child.lock() = Some(child),
                    Err(error) => tracing::error!(%error, "containerd not started"),
                }
            }
        });
    }

    /// Load image archives, and the sandbox image if it is not there.
    pub async fn load_images(&self, config: &Config, runtime: &CriRuntime) -> Result<(), ContainerdError> {
        for archive in &config.image_archives {
            self.import(archive).await?;
        }
        if matches!(runtime.image_status(PAUSE_IMAGE).await, Ok(Some(_))) {
            return Ok(());
        }
        let archive = self.directory.join("pause.tar");
        let file = |source| ContainerdError::File { path: archive.display().to_string(), source };
        std::fs::write(&archive, pause::archive()).map_err(file)?;
        self.import(&archive).await?;
        std::fs::remove_file(&archive).map_err(file)
    }

    async fn import(&self, archive: &Path) -> Result<(), ContainerdError> {
        let output = Command::new("ctr")
            .arg("--address")
            .arg(self.directory.join("c.sock"))
            .args(["--namespace", "k8s.io", "images", "import", "--snapshotter", self.snapshotter])
            .arg(archive)
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|source| ContainerdError::Spawn { program: "ctr", source })?;
        if output.status.success() {
            return Ok(());
        }
        let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(ContainerdError::Import { archive: archive.display().to_string(), output })
    }

    fn is_running(&self) -> bool {
        let mut child = self.child.lock();
        if let Some(child) = child.as_mut() {
            return matches!(child.try_wait(), Ok(None));
        }
        self.pid().is_some_and(|pid| kill(pid, None).is_ok())
    }

    fn pid(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.directory.join("pid")).ok()?;
        text.trim().parse().ok().map(Pid::from_raw)
    }

    /// End the process. To be called when nothing supervises it any more and no pod is left.
    pub async fn stop(self) {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let Some(pid) = self.pid().filter(|_| self.is_running()) else { break };
            if let Err(error) = kill(pid, signal) {
                tracing::debug!(%error, "containerd is gone");
                break;
            }
            let ended = async {
                while self.is_running() {
                    self.clock.sleep(STOP_POLL).await;
                }
            };
            if self.clock.timeout(STOP_LIMIT, ended).await.is_ok() {
                break;
            }
        }
        for name in ["pid", "c.sock", "c.sock.ttrpc"] {
            if let Err(error) = remove_if_there(&self.directory.join(name)) {
                tracing::debug!(%error, "file of containerd not removed");
            }
        }
    }
}

async fn answers(socket: &Path) -> bool {
    tokio::net::UnixStream::connect(socket).await.is_ok()
}

fn remove_if_there(path: &Path) -> Result<(), ContainerdError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(ContainerdError::File { path: path.display().to_string(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the snapshotter that was chosen.
fn write_files(config: &Config) -> Result<&'static str, ContainerdError> {
    let directory = config.containerd_dir();
    let registry = directory.join(CERTS_DIR).join("docker.io");
    let file = |path: &Path, source| ContainerdError::File { path: path.display().to_string(), source };
    for path in [&directory, &registry, &config.cni_bin_dir(), &config.cni_conf_dir()] {
        std::fs::create_dir_all(path).map_err(|source| file(path, source))?;
    }
    let hosts = registry.join("hosts.toml");
    // What a user has written there stays.
    if !hosts.exists() {
        std::fs::write(&hosts, "server = \"https://registry-1.docker.io\"\n").map_err(|source| file(&hosts, source))?;
    }
    let path = directory.join("config.toml");
    let snapshotter = snapshotter(&directory);
    std::fs::write(&path, configuration(config, snapshotter)).map_err(|source| file(&path, source))?;
    Ok(snapshotter)
}

/// The file system layers are kept in: overlay where the data directory can carry it.
fn snapshotter(directory: &Path) -> &'static str {
    let trial = directory.join("overlay-trial");
    let parts = ["lower", "upper", "work", "merged"].map(|name| trial.join(name));
    let made = parts.iter().all(|part| std::fs::create_dir_all(part).is_ok());
    let [lower, upper, work, merged] = &parts;
    let options = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    let mounted = made
        && nix::mount::mount(
            Some("overlay"),
            merged,
            Some("overlay"),
            nix::mount::MsFlags::empty(),
            Some(options.as_str()),
        )
        .is_ok();
    if mounted && let Err(error) = nix::mount::umount(merged) {
        tracing::debug!(%error, "trial of overlay not unmounted");
    }
    if let Err(error) = std::fs::remove_dir_all(&trial) {
        tracing::debug!(%error, "trial of overlay not removed");
    }
    if mounted { "overlayfs" } else { "native" }
}

fn configuration(config: &Config, snapshotter: &str) -> String {
    let directory = config.containerd_dir();
    let below = |name: &str| format!("{:?}", directory.join(name).display().to_string());
    let quoted = |path: PathBuf| format!("{:?}", path.display().to_string());
    format!(
        r#"version = 2
root = {root}
state = {state}
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]

[grpc]
  address = {address}

[plugins."io.containerd.internal.v1.opt"]
  path = {opt}

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without the right to lower it, a process may only keep or raise its score.
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  max_container_log_line_size = 16384

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {bin_dir}
    conf_dir = {conf_dir}

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = {certs}
"#,
        root = below("root"),
        state = below("state"),
        address = quoted(socket(config)),
        opt = below("opt"),
        bin_dir = quoted(config.cni_bin_dir()),
        conf_dir = quoted(config.cni_conf_dir()),
        certs = below(CERTS_DIR),
    )
}
