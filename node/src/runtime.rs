//! What the agent asks of a container runtime, and the two it knows: a real one through the CRI, and one in memory.
//!
//! Both keep to one contract suite (`runtime::contract`), so the pod machinery cannot tell them apart.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;

pub mod cri;
pub mod proto;
pub mod simulated;

pub use cri::CriRuntime;
pub use simulated::SimulatedRuntime;

/// Labels by which everything in the runtime is found again after a restart of the agent.
pub const LABEL_POD_NAME: &str = "io.kubernetes.pod.name";
pub const LABEL_POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const LABEL_POD_UID: &str = "io.kubernetes.pod.uid";
pub const LABEL_CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// The node whose agent made a sandbox: others may use the same runtime.
pub const LABEL_NODE: &str = "quorate.io/node";
/// The image as the pod's specification names it: when it changes, the container is replaced.
pub const ANNOTATION_IMAGE: &str = "node.quorate.io/image";
/// The file on the host that is mounted at the container's `terminationMessagePath`.
pub const ANNOTATION_MESSAGE_FILE: &str = "node.quorate.io/termination-message-file";
/// Seconds the container was promised for its end, for a pod whose object is gone.
pub const ANNOTATION_GRACE: &str = "node.quorate.io/grace-period-seconds";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    pub id: String,
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub attempt: u32,
    /// The node that made it; empty when it does not say.
    pub node: String,
    pub ready: bool,
    pub created_at: Timestamp,
    /// Empty for a pod on the host's network.
    pub ips: Vec<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerState {
    Created,
    Running,
    Exited,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub id: String,
    pub sandbox_id: String,
    pub pod_uid: String,
    pub name: String,
    /// How many containers of this name the pod had before.
    pub attempt: u32,
    pub state: ContainerState,
    /// As the specification named it when the container was made.
    pub image: String,
    pub image_ref: String,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub exit_code: i32,
    /// Meaningful only when the container has exited: an out-of-memory kill of a child leaves it set while running.
    pub reason: String,
    pub message: String,
    pub message_file: Option<String>,
    pub log_path: String,
}

/// All that the runtime holds of one pod, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodObservation {
    pub sandboxes: Vec<Sandbox>,
    pub containers: Vec<Container>,
}

impl PodObservation {
    pub fn sort(&mut self) {
        self.sandboxes.sort_by_key(|sandbox| std::cmp::Reverse((sandbox.attempt, sandbox.created_at)));
        self.containers.sort_by(|a, b| (&a.name, b.attempt, b.created_at).cmp(&(&b.name, a.attempt, a.created_at)));
    }

    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    pub id: String,
    pub tags: Vec<String>,
    pub digests: Vec<String>,
    pub size: u64,
    pub uid: Option<i64>,
    pub username: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit_code: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeStatus {
    /// Why the runtime cannot run containers; none when it can.
    pub not_ready: Option<String>,
    pub network_not_ready: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeVersion {
    pub name: String,
    pub version: String,
}

/// Which of a container's streams a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error("the container runtime cannot be reached: {0}")]
    Unavailable(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    DeadlineExceeded(String),
    #[error("rpc error: code = {code} desc = {message}")]
    Failed { code: String, message: String },
    #[error("the simulated runtime has no {0}")]
    NotSimulated(&'static str),
}

impl RuntimeError {
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }
}

/// A container runtime. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub enum Runtime {
    Cri(Box<CriRuntime>),
    Simulated(SimulatedRuntime),
}

macro_rules! delegate {
    ($self:ident, $runtime:ident => $call:expr) => {
        match $self {
            Self::Cri($runtime) => $call,
            Self::Simulated($runtime) => $call,
        }
    };
}

impl Runtime {
    pub async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        delegate!(self, runtime => runtime.version().await)
    }

    pub async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        delegate!(self, runtime => runtime.status().await)
    }

    /// Everything of every pod, by pod uid.
    pub async fn observe(&self) -> Result<BTreeMap<String, PodObservation>, RuntimeError> {
        delegate!(self, runtime => runtime.observe(None).await)
    }

    pub async fn observe_pod(&self, uid: &str) -> Result<PodObservation, RuntimeError> {
        let mut all = delegate!(self, runtime => runtime.observe(Some(uid)).await)?;
        Ok(all.remove(uid).unwrap_or_default())
    }

    pub async fn run_sandbox(&self, config: proto::PodSandboxConfig) -> Result<String, RuntimeError> {
        delegate!(self, runtime => runtime.run_sandbox(config).await)
    }

    pub async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        delegate!(self, runtime => runtime.stop_sandbox(id).await)
    }

    pub async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        delegate!(self, runtime => runtime.remove_sandbox(id).await)
    }

    pub async fn create_container(
        &self,
        sandbox_id: &str,
        config: proto::ContainerConfig,
        sandbox_config: proto::PodSandboxConfig,
    ) -> Result<String, RuntimeError> {
        delegate!(self, runtime => Box::pin(runtime.create_container(sandbox_id, config, sandbox_config)).await)
    }

    pub async fn start_container(&self, id: &str) -> Result<(), RuntimeError> {
        delegate!(self, runtime => runtime.start_container(id).await)
    }

    /// Returns once the container has ended: by itself within `grace`, else killed.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        delegate!(self, runtime => runtime.stop_container(id, grace).await)
    }

    pub async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        delegate!(self, runtime => runtime.remove_container(id).await)
    }

    pub async fn exec_sync(
        &self,
        id: &str,
        command: Vec<String>,
        timeout: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        delegate!(self, runtime => runtime.exec_sync(id, command, timeout).await)
    }

    pub async fn reopen_log(&self, id: &str) -> Result<(), RuntimeError> {
        delegate!(self, runtime => runtime.reopen_log(id).await)
    }

    pub async fn images(&self) -> Result<Vec<Image>, RuntimeError> {
        delegate!(self, runtime => runtime.images().await)
    }

    pub async fn image_status(&self, image: &str) -> Result<Option<Image>, RuntimeError> {
        delegate!(self, runtime => runtime.image_status(image).await)
    }

    /// Returns the reference under which the image is to be used.
    pub async fn pull_image(&self, image: &str, auth: Option<proto::AuthConfig>) -> Result<String, RuntimeError> {
        delegate!(self, runtime => runtime.pull_image(image, auth).await)
    }

    /// The URL at which the runtime serves one interactive command.
    pub async fn exec_url(&self, id: &str, command: Vec<String>, streams: Streams) -> Result<String, RuntimeError> {
        match self {
            Self::Cri(runtime) => runtime.exec_url(id, command, streams).await,
            Self::Simulated(_) => Err(RuntimeError::NotSimulated("exec")),
        }
    }

    pub async fn attach_url(&self, id: &str, streams: Streams) -> Result<String, RuntimeError> {
        match self {
            Self::Cri(runtime) => runtime.attach_url(id, streams).await,
            Self::Simulated(_) => Err(RuntimeError::NotSimulated("attach")),
        }
    }

    pub async fn port_forward_url(&self, sandbox_id: &str, ports: Vec<i32>) -> Result<String, RuntimeError> {
        match self {
            Self::Cri(runtime) => runtime.port_forward_url(sandbox_id, ports).await,
            Self::Simulated(_) => Err(RuntimeError::NotSimulated("port-forward")),
        }
    }

    /// Resolves when something may have changed sooner than the next look; never resolves where that is not known.
    pub async fn changed(&self) {
        delegate!(self, runtime => runtime.changed().await);
    }
}

pub(crate) fn nanos(value: i64) -> Option<Timestamp> {
    if value <= 0 { None } else { Timestamp::from_nanosecond(i128::from(value)).ok() }
}
