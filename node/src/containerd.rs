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

mod import;
mod pause;

pub use import::import_archives;
pub use pause::IMAGE as PAUSE_IMAGE;

/// From the start of the process to its first answer.
const READY_LIMIT: Duration = Duration::from_secs(60);
const READY_POLL: Duration = Duration::from_millis(50);
/// Given to the process between SIGTERM and SIGKILL.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// The longest that [`Containerd::stop`] takes.
pub const END_LIMIT: Duration = STOP_LIMIT.saturating_mul(2);
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
#[derive(Clone, Debug)]
pub struct Containerd {
    directory: PathBuf,
    socket: PathBuf,
    snapshotter: &'static str,
    child: std::sync::Arc<Mutex<Option<Child>>>,
    clock: Clock,
}

pub fn socket(config: &Config) -> PathBuf {
    config.containerd_dir().join("c.sock")
}

impl Containerd {
    /// Its files are written; nothing runs yet. Whoever has the value can stop what [`Containerd::launch`] starts, also
    /// when that is cut off.
    pub fn prepare(config: &Config, clock: &Clock) -> Result<Self, ContainerdError> {
        let socket = socket(config);
        if socket.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(ContainerdError::SocketPath(socket.display().to_string()));
        }
        let snapshotter = write_files(config)?;
        let directory = config.containerd_dir();
        Ok(Self { directory, socket, snapshotter, child: std::sync::Arc::default(), clock: clock.clone() })
    }

    /// Start it, or take over the one that runs, and keep it running until [`Containerd::stop`].
    pub async fn launch(&self, scope: &Scope) -> Result<(), ContainerdError> {
        // One that an agent before us started may be just starting, or hang.
        if self.is_running() && self.wait_until_ready().await.is_ok() {
            tracing::info!("taking over the containerd that runs");
        } else {
            self.end_process().await;
            // Left by one that was killed; a client must not take it for a live one.
            remove_if_there(&self.socket)?;
            self.spawn()?;
            self.wait_until_ready().await?;
        }
        self.supervise(scope);
        Ok(())
    }

    fn spawn(&self) -> Result<(), ContainerdError> {
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
            .arg(self.configuration_path())
            // It would tell the service manager of itself in our name.
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // Signals to the agent's terminal are not for it: pods are ended first.
            .process_group(0)
            .spawn()
            .map_err(|source| ContainerdError::Spawn { program: "containerd", source });
        give_back(without);
        let child = child?;
        let pid = child.id();
        *self.child.lock() = Some(child);
        if let Some(pid) = pid {
            let path = self.directory.join("pid");
            std::fs::write(&path, pid.to_string())
                .map_err(|source| ContainerdError::File { path: path.display().to_string(), source })?;
        }
        Ok(())
    }

    async fn wait_until_ready(&self) -> Result<(), ContainerdError> {
        let ready = async {
            while !answers(&self.socket).await {
                self.clock.sleep(READY_POLL).await;
            }
        };
        self.clock.timeout(READY_LIMIT, ready).await.map_err(|elapsed| {
            ContainerdError::NotReady(elapsed.0, self.directory.join("containerd.log").display().to_string())
        })
    }

    /// Start it again when it ends by itself.
    fn supervise(&self, scope: &Scope) {
        let this = self.clone();
        scope.spawn_until_cancelled("containerd", async move {
            loop {
                this.clock.sleep(RESTART_PAUSE).await;
                if this.is_running() {
                    continue;
                }
                tracing::error!("containerd has ended; starting it again");
                if let Err(error) = remove_if_there(&this.socket).and_then(|()| this.spawn()) {
                    tracing::error!(%error, "containerd not started");
                }
            }
        });
    }

    /// Load image archives, and the sandbox image if it is not there.
    pub async fn load_images(&self, config: &Config, runtime: &CriRuntime) -> Result<(), ContainerdError> {
        import_archives(&self.socket, Some(self.snapshotter), &config.image_archives).await?;
        if matches!(runtime.image_status(PAUSE_IMAGE).await, Ok(Some(_))) {
            return Ok(());
        }
        let archive = self.directory.join("pause.tar");
        let file = |source| ContainerdError::File { path: archive.display().to_string(), source };
        std::fs::write(&archive, pause::archive()).map_err(file)?;
        import_archives(&self.socket, Some(self.snapshotter), std::slice::from_ref(&archive)).await?;
        std::fs::remove_file(&archive).map_err(file)
    }

    fn is_running(&self) -> bool {
        let mut child = self.child.lock();
        match child.as_mut() {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => self.recorded_pid().is_some(),
        }
    }

    fn pid(&self) -> Option<Pid> {
        let child = self.child.lock().as_ref().map(Child::id);
        match child {
            Some(id) => i32::try_from(id?).ok().map(Pid::from_raw),
            None => self.recorded_pid(),
        }
    }

    /// The process of an agent before us, if it lives. The number alone proves nothing: it may belong to another program by
    /// now.
    fn recorded_pid(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.directory.join("pid")).ok()?;
        let pid: i32 = text.trim().parse().ok()?;
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let ours = self.configuration_path();
        let is_ours = command.split(|byte| *byte == 0).any(|word| word == ours.as_os_str().as_encoded_bytes());
        is_ours.then_some(Pid::from_raw(pid))
    }

    fn configuration_path(&self) -> PathBuf {
        self.directory.join("config.toml")
    }

    /// End the process. To be called when nothing supervises it any more and no pod is left.
    pub async fn stop(self) {
        self.end_process().await;
        for name in ["pid", "c.sock", "c.sock.ttrpc"] {
            if let Err(error) = remove_if_there(&self.directory.join(name)) {
                tracing::debug!(%error, "file of containerd not removed");
            }
        }
    }

    async fn end_process(&self) {
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
