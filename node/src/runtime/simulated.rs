//! Containers in memory: they become running at once, and end when told to or when their time has come.
//!
//! Gives many nodes in one process, and pods where containers cannot be had. What a container does is read from its
//! pod's annotations: [`ANNOTATION_RUN_SECONDS`] and [`ANNOTATION_EXIT_CODE`].
#![expect(clippy::unused_async, reason = "the same face as the real runtime's")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use quorate_env::Env;

use super::{
    ANNOTATION_IMAGE, Container, ContainerState, ExecOutput, Image, LABEL_CONTAINER_NAME, LABEL_NODE, LABEL_POD_UID,
    PodObservation, RuntimeError, RuntimeStatus, RuntimeVersion, Sandbox, proto,
};

/// A container of a pod with this annotation ends by itself after so many seconds.
pub const ANNOTATION_RUN_SECONDS: &str = "simulated.quorate.io/run-seconds";
/// The exit code it then has (0 when absent).
pub const ANNOTATION_EXIT_CODE: &str = "simulated.quorate.io/exit-code";

/// An image of this name cannot be pulled.
pub const MISSING_IMAGE: &str = "missing";
/// The exit code of a process ended by SIGTERM.
const EXIT_TERMINATED: i32 = 143;
/// The first addresses of a pod network are the network's own and the gateway's.
const FIRST_POD_ADDRESS: usize = 2;

#[derive(Clone)]
pub struct SimulatedRuntime {
    state: Arc<Mutex<State>>,
    changed: Arc<tokio::sync::Notify>,
    env: Env,
}

impl std::fmt::Debug for SimulatedRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimulatedRuntime")
    }
}

#[derive(Debug)]
struct State {
    pod_cidr: IpNet,
    sandboxes: BTreeMap<String, (Sandbox, BTreeMap<String, String>)>,
    containers: BTreeMap<String, (Container, Option<Plan>)>,
    images: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
}

/// When and how a container ends by itself.
#[derive(Clone, Copy, Debug)]
struct Plan {
    at: Timestamp,
    exit_code: i32,
}

impl SimulatedRuntime {
    pub fn new(env: Env, pod_cidr: IpNet) -> Self {
        let state = State {
            pod_cidr,
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            images: BTreeSet::new(),
            addresses: BTreeSet::new(),
        };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::default(), env }
    }

    /// End a running container, as a crash would.
    pub fn exit(&self, id: &str, exit_code: i32) {
        let now = self.env.clock.wall();
        if let Some((container, _)) = self.state.lock().containers.get_mut(id) {
            end(container, now, exit_code);
        }
        self.changed.notify_one();
    }

    /// Make a sandbox unready, as the death of its holder process would.
    pub fn lose_sandbox(&self, id: &str) {
        if let Some((sandbox, _)) = self.state.lock().sandboxes.get_mut(id) {
            sandbox.ready = false;
        }
        self.changed.notify_one();
    }

    pub async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        Ok(RuntimeVersion { name: "simulated".into(), version: env!("CARGO_PKG_VERSION").into() })
    }

    pub async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        Ok(RuntimeStatus::default())
    }

    pub async fn observe(&self, uid: Option<&str>) -> Result<BTreeMap<String, PodObservation>, RuntimeError> {
        let now = self.env.clock.wall();
        let mut state = self.state.lock();
        state.advance(now);
        let mut pods: BTreeMap<String, PodObservation> = BTreeMap::new();
        for (sandbox, _) in state.sandboxes.values() {
            if uid.is_none_or(|uid| uid == sandbox.uid) {
                pods.entry(sandbox.uid.clone()).or_default().sandboxes.push(sandbox.clone());
            }
        }
        for (container, _) in state.containers.values() {
            if uid.is_none_or(|uid| uid == container.pod_uid) {
                pods.entry(container.pod_uid.clone()).or_default().containers.push(container.clone());
            }
        }
        for pod in pods.values_mut() {
            pod.sort();
        }
        Ok(pods)
    }

    pub async fn run_sandbox(&self, config: proto::PodSandboxConfig) -> Result<String, RuntimeError> {
        let metadata = config.metadata.unwrap_or_default();
        let host_network = config
            .linux
            .and_then(|linux| linux.security_context)
            .and_then(|context| context.namespace_options)
            .is_some_and(|options| options.network() == proto::NamespaceMode::Node);
        let id = self.new_id();
        let mut state = self.state.lock();
        let ips = if host_network { Vec::new() } else { vec![state.allocate()?] };
        let sandbox = Sandbox {
            id: id.clone(),
            uid: metadata.uid,
            namespace: metadata.namespace,
            name: metadata.name,
            attempt: metadata.attempt,
            node: config.labels.get(LABEL_NODE).cloned().unwrap_or_default(),
            ready: true,
            created_at: self.env.clock.wall(),
            ips,
        };
        state.sandboxes.insert(id.clone(), (sandbox, config.annotations));
        Ok(id)
    }

    pub async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let now = self.env.clock.wall();
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some((sandbox, _)) = state.sandboxes.get_mut(id) {
            sandbox.ready = false;
            for ip in &sandbox.ips {
                state.addresses.remove(ip);
            }
        }
        for (container, _) in state.containers.values_mut().filter(|(container, _)| container.sandbox_id == id) {
            end(container, now, EXIT_TERMINATED);
        }
        Ok(())
    }

    pub async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.stop_sandbox(id).await?;
        let mut state = self.state.lock();
        state.sandboxes.remove(id);
        state.containers.retain(|_, (container, _)| container.sandbox_id != id);
        Ok(())
    }

    pub async fn create_container(
        &self,
        sandbox_id: &str,
        config: proto::ContainerConfig,
        _sandbox_config: proto::PodSandboxConfig,
    ) -> Result<String, RuntimeError> {
        let id = self.new_id();
        let mut state = self.state.lock();
        if !state.sandboxes.get(sandbox_id).is_some_and(|(sandbox, _)| sandbox.ready) {
            return Err(RuntimeError::NotFound(format!("sandbox {sandbox_id} is not running")));
        }
        let metadata = config.metadata.unwrap_or_default();
        let image = config.image.map(|image| image.image).unwrap_or_default();
        let container = Container {
            id: id.clone(),
            sandbox_id: sandbox_id.to_owned(),
            pod_uid: config.labels.get(LABEL_POD_UID).cloned().unwrap_or_default(),
            name: config.labels.get(LABEL_CONTAINER_NAME).cloned().unwrap_or(metadata.name),
            attempt: metadata.attempt,
            state: ContainerState::Created,
            image: config.annotations.get(ANNOTATION_IMAGE).cloned().unwrap_or_else(|| image.clone()),
            image_ref: image,
            created_at: self.env.clock.wall(),
            started_at: None,
            finished_at: None,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            message_file: None,
            log_path: String::new(),
        };
        state.containers.insert(id.clone(), (container, None));
        Ok(id)
    }

    pub async fn start_container(&self, id: &str) -> Result<(), RuntimeError> {
        let now = self.env.clock.wall();
        let mut state = self.state.lock();
        let state = &mut *state;
        let (container, plan) = state.containers.get_mut(id).ok_or_else(|| no_container(id))?;
        let annotations = state.sandboxes.get(&container.sandbox_id).map(|(_, annotations)| annotations);
        let number = |key: &str| annotations.and_then(|all| all.get(key)).and_then(|text| text.parse::<i32>().ok());
        container.state = ContainerState::Running;
        container.started_at = Some(now);
        *plan = number(ANNOTATION_RUN_SECONDS).map(|seconds| Plan {
            at: now.saturating_add(SignedDuration::from_secs(i64::from(seconds))).unwrap_or(Timestamp::MAX),
            exit_code: number(ANNOTATION_EXIT_CODE).unwrap_or(0),
        });
        Ok(())
    }

    pub async fn stop_container(&self, id: &str, _grace: Duration) -> Result<(), RuntimeError> {
        let now = self.env.clock.wall();
        if let Some((container, _)) = self.state.lock().containers.get_mut(id) {
            end(container, now, EXIT_TERMINATED);
        }
        Ok(())
    }

    pub async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        self.state.lock().containers.remove(id);
        Ok(())
    }

    pub async fn exec_sync(
        &self,
        id: &str,
        _command: Vec<String>,
        _timeout: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        match self.state.lock().containers.get(id) {
            Some((container, _)) if container.state == ContainerState::Running => Ok(ExecOutput::default()),
            Some(_) | None => Err(no_container(id)),
        }
    }

    pub async fn reopen_log(&self, _id: &str) -> Result<(), RuntimeError> {
        Ok(())
    }

    pub async fn images(&self) -> Result<Vec<Image>, RuntimeError> {
        Ok(self.state.lock().images.iter().map(|name| image(name)).collect())
    }

    pub async fn image_status(&self, name: &str) -> Result<Option<Image>, RuntimeError> {
        Ok(self.state.lock().images.get(name).map(|name| image(name)))
    }

    pub async fn pull_image(&self, name: &str, _auth: Option<proto::AuthConfig>) -> Result<String, RuntimeError> {
        if name.contains(MISSING_IMAGE) {
            return Err(RuntimeError::NotFound(format!("failed to resolve reference \"{name}\": not found")));
        }
        self.state.lock().images.insert(name.to_owned());
        Ok(name.to_owned())
    }

    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    fn new_id(&self) -> String {
        let mut bytes = [0; 32];
        self.env.random.fill(&mut bytes);
        crate::machine::hex(&bytes)
    }
}

impl State {
    fn advance(&mut self, now: Timestamp) {
        for (container, plan) in self.containers.values_mut() {
            if let Some(plan) = plan
                && plan.at <= now
            {
                end(container, plan.at, plan.exit_code);
            }
        }
    }

    fn allocate(&mut self) -> Result<IpAddr, RuntimeError> {
        let free = |ip: &IpAddr| !self.addresses.contains(ip) && *ip != IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let found = self.pod_cidr.hosts().skip(FIRST_POD_ADDRESS - 1).find(free);
        let ip = found.ok_or_else(|| RuntimeError::Failed {
            code: "ResourceExhausted".into(),
            message: format!("no address left in {}", self.pod_cidr),
        })?;
        self.addresses.insert(ip);
        Ok(ip)
    }
}

fn end(container: &mut Container, at: Timestamp, exit_code: i32) {
    if container.state == ContainerState::Running {
        container.state = ContainerState::Exited;
        container.finished_at = Some(at);
        container.exit_code = exit_code;
        container.reason = if exit_code == 0 { "Completed".into() } else { "Error".into() };
    }
}

fn no_container(id: &str) -> RuntimeError {
    RuntimeError::NotFound(format!("container {id} is not running"))
}

fn image(name: &str) -> Image {
    Image { id: name.to_owned(), tags: vec![name.to_owned()], ..Default::default() }
}
