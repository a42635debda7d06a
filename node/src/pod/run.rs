//! Carrying out one action of a pod. Whatever fails becomes an [`Outcome`]; nothing is retried here.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as ContainerSpec, Pod};
use kube::api::{Api, DeleteParams, Preconditions};
use quorate_env::Env;
use tokio_util::sync::CancellationToken;

use super::config::{self, ContainerContext, SandboxContext};
use super::dns::{ClusterDns, dns_config};
use super::environment::{Sources, environment};
use super::fields::{Addresses, Allocatable};
use super::memory::Cause;
use super::step::{Action, KillReason};
use super::{ContainerKind, PodKey, field_path, host_network, qos};
use crate::cgroup::Cgroups;
use crate::config::Config;
use crate::events::{Level, Recorder};
use crate::images::Images;
use crate::objects::Objects;
use crate::runtime::proto::{self, PodSandboxConfig};
use crate::runtime::{PodObservation, Runtime};
use crate::volumes::Volumes;

mod files;
mod hooks;

/// Pause after work that failed and has no back-off of its own, before the next step may ask for it again.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);
/// A postStart hook may take as long as it likes; beyond a day nobody waits for it any more.
const POST_START_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// A container gets at least this long after its preStop hook.
const GRACE_MIN: Duration = Duration::from_secs(2);

/// What all pods of a node share.
#[derive(Clone)]
pub struct Runner {
    pub config: Arc<Config>,
    pub env: Env,
    pub client: kube::Client,
    pub runtime: Runtime,
    pub images: Images,
    pub objects: Objects,
    pub events: Recorder,
    /// None where pods have no files: the simulated runtime.
    pub host: Option<HostParts>,
    pub node: Allocatable,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("node", &self.config.name).finish_non_exhaustive()
    }
}

/// What touches the machine itself.
#[derive(Clone, Debug)]
pub struct HostParts {
    pub volumes: Volumes,
    pub cgroups: Cgroups,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Started,
    StartFailed {
        cause: Cause,
        message: String,
    },
    /// The pod ends: the start was given up on the way.
    StartAbandoned,
    SandboxFailed {
        message: String,
    },
    SandboxStopped {
        id: String,
    },
    VolumesMounted,
    VolumesFailed {
        message: String,
    },
    VolumesUnmounted,
    Failed {
        message: String,
    },
    Deleted,
    DeleteFailed {
        message: String,
    },
}

/// Which container is to be started, and where.
#[derive(Clone, Copy, Debug)]
struct Start<'a> {
    name: &'a str,
    kind: ContainerKind,
    sandbox_id: &'a str,
    attempt: u32,
}

/// One pod at the moment an action is begun.
#[derive(Clone, Debug)]
pub struct Situation {
    pub pod: Arc<Pod>,
    pub observed: PodObservation,
    /// Cancelled when the pod begins to end.
    pub ending: CancellationToken,
}

impl Situation {
    fn key(&self) -> PodKey {
        PodKey::of(&self.pod)
    }

    /// The container an ephemeral one asks to look into.
    fn target(&self, name: &str) -> Option<String> {
        let ephemeral = self.pod.spec.as_ref()?.ephemeral_containers.as_ref()?;
        let target = ephemeral.iter().find(|container| container.name == name)?.target_container_name.as_deref()?;
        let found = self.observed.containers.iter().find(|container| container.name == target)?;
        Some(found.id.clone())
    }

    fn sandbox_attempt(&self, id: &str) -> u32 {
        self.observed.sandboxes.iter().find(|sandbox| sandbox.id == id).map_or(0, |sandbox| sandbox.attempt)
    }
}

impl Runner {
    pub async fn run(&self, action: Action, at: Situation) -> Outcome {
        let outcome = match action {
            Action::MountVolumes => self.mount_volumes(&at).await,
            Action::UnmountVolumes => self.unmount_volumes(&at).await,
            Action::CreateSandbox { attempt } => self.create_sandbox(&at, attempt).await,
            Action::StopSandbox { id } => match self.runtime.stop_sandbox(&id).await {
                Ok(()) => Outcome::SandboxStopped { id },
                Err(error) => Outcome::Failed { message: error.to_string() },
            },
            Action::RemoveSandbox { id } => done(self.runtime.remove_sandbox(&id).await),
            Action::RemoveContainer { id } => done(self.runtime.remove_container(&id).await),
            Action::StartContainer { name, kind, sandbox_id, attempt } => {
                let start = Start { name: &name, kind, sandbox_id: &sandbox_id, attempt };
                Box::pin(self.start_container(&at, &start)).await
            }
            Action::KillContainer { id, name, grace, reason } => {
                Box::pin(self.kill(&at, &id, &name, grace, &reason)).await
            }
            Action::Delete => self.delete(&at).await,
            Action::Forget => self.forget(&at).await,
        };
        if let Outcome::Failed { message } = &outcome {
            tracing::warn!(pod = %at.key().described(), %message, "work on a pod failed");
            self.env.clock.sleep(FAILURE_PAUSE).await;
        }
        outcome
    }

    pub fn addresses(&self, at: &Situation) -> Addresses {
        let host: Vec<String> = self.config.addresses.iter().map(ToString::to_string).collect();
        let sandbox = at.observed.sandboxes.iter().find(|sandbox| sandbox.ready);
        let pod = if host_network(&at.pod) {
            host.clone()
        } else {
            sandbox.map(|sandbox| sandbox.ips.iter().map(ToString::to_string).collect()).unwrap_or_default()
        };
        Addresses { pod, host }
    }

    fn pod_address(&self, at: &Situation) -> Option<IpAddr> {
        self.addresses(at).pod.first().and_then(|text| text.parse().ok())
    }

    async fn mount_volumes(&self, at: &Situation) -> Outcome {
        let Some(host) = &self.host else { return Outcome::VolumesMounted };
        if let Err(error) = host.cgroups.make(&at.pod) {
            let message =
                format!("{error}: {}", std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default());
            self.events.pod(&at.pod, Level::Warning, "FailedCreatePodContainer", message.clone());
            return Outcome::VolumesFailed { message };
        }
        match host.volumes.set_up(&at.pod, &self.addresses(at)).await {
            Ok(()) => Outcome::VolumesMounted,
            Err(error) => {
                let message = error.to_string();
                self.events.pod(&at.pod, Level::Warning, "FailedMount", message.clone());
                Outcome::VolumesFailed { message }
            }
        }
    }

    async fn unmount_volumes(&self, at: &Situation) -> Outcome {
        let Some(host) = &self.host else { return Outcome::VolumesUnmounted };
        match host.volumes.tear_down(&at.key().uid).await {
            Ok(()) => {
                host.cgroups.remove(&at.pod);
                Outcome::VolumesUnmounted
            }
            Err(error) => Outcome::Failed { message: error.to_string() },
        }
    }

    fn sandbox_config(&self, pod: &Pod, attempt: u32) -> Result<PodSandboxConfig, config::ConfigError> {
        let cluster = ClusterDns { server: self.config.network.dns, domain: self.config.network.domain.clone() };
        let resolv_conf = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let parent = self.host.as_ref().map(|host| host.cgroups.pod_path(pod).display().to_string());
        let context = SandboxContext {
            node: &self.config.name,
            log_root: &self.config.pod_logs_dir(),
            dns: dns_config(pod, &cluster, &resolv_conf),
            cgroup_parent: parent.unwrap_or_default(),
            domain: &self.config.network.domain,
        };
        config::sandbox_config(pod, attempt, &context)
    }

    async fn create_sandbox(&self, at: &Situation, attempt: u32) -> Outcome {
        let failed = |message: String| {
            let text = format!("Failed to create pod sandbox: {message}");
            self.events.pod(&at.pod, Level::Warning, "FailedCreatePodSandBox", text);
            Outcome::SandboxFailed { message }
        };
        if !at.observed.sandboxes.is_empty() {
            let text = "Pod sandbox changed, it will be killed and re-created.";
            self.events.pod(&at.pod, Level::Normal, "SandboxChanged", text);
        }
        let sandbox = match self.sandbox_config(&at.pod, attempt) {
            Ok(sandbox) => sandbox,
            Err(error) => return failed(error.to_string()),
        };
        if self.host.is_some()
            && let Err(error) = std::fs::create_dir_all(&sandbox.log_directory)
        {
            return failed(format!("{}: {error}", sandbox.log_directory));
        }
        match self.runtime.run_sandbox(sandbox).await {
            Ok(_id) => Outcome::Done,
            Err(error) => failed(error.to_string()),
        }
    }

    async fn start_container(&self, at: &Situation, start: &Start<'_>) -> Outcome {
        let name = start.name;
        let Some((_, spec)) = super::container(&at.pod, name) else { return Outcome::StartAbandoned };
        let field = field_path(&at.pod, name);
        let image = tokio::select! {
            () = at.ending.cancelled() => return Outcome::StartAbandoned,
            image = self.images.ensure(&at.pod, &spec, &field) => image,
        };
        let image = match image {
            Ok(image) => image,
            Err(error) => {
                let text = format!("Error: {}", error.cause.as_str());
                self.events.container(&at.pod, &field, Level::Warning, "Failed", text);
                return Outcome::StartFailed { cause: error.cause, message: error.message };
            }
        };
        let failed = |cause: Cause, message: String| {
            self.events.container(&at.pod, &field, Level::Warning, "Failed", format!("Error: {message}"));
            Outcome::StartFailed { cause, message }
        };
        let prepared = self.prepare(at, &spec, start, &image).await;
        let (container, sandbox) = match prepared {
            Ok(prepared) => prepared,
            Err(message) => return failed(Cause::CreateContainerConfigError, message),
        };
        if at.ending.is_cancelled() {
            return Outcome::StartAbandoned;
        }
        let id = match Box::pin(self.runtime.create_container(start.sandbox_id, container, sandbox)).await {
            Ok(id) => id,
            Err(error) => return failed(Cause::CreateContainerError, error.to_string()),
        };
        self.events.container(&at.pod, &field, Level::Normal, "Created", format!("Created container: {name}"));
        if let Err(error) = self.runtime.start_container(&id).await {
            return failed(Cause::RunContainerError, error.to_string());
        }
        self.events.container(&at.pod, &field, Level::Normal, "Started", format!("Started container {name}"));
        self.after_start(at, &spec, &id, &field).await
    }

    async fn after_start(&self, at: &Situation, spec: &ContainerSpec, id: &str, field: &str) -> Outcome {
        let Some(hook) = spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref()) else {
            return Outcome::Started;
        };
        let Err(why) = hooks::run(self, spec, id, hook, self.pod_address(at), POST_START_LIMIT).await else {
            return Outcome::Started;
        };
        let message = format!("PostStartHook failed: {why}");
        self.events.container(&at.pod, field, Level::Warning, "FailedPostStartHook", "PostStartHook failed");
        let text = format!("FailedPostStartHook: container {} will be killed", spec.name);
        self.events.container(&at.pod, field, Level::Normal, "Killing", text);
        if let Err(error) = self.runtime.stop_container(id, super::spec_grace(&at.pod)).await {
            tracing::warn!(%error, "a container whose postStart hook failed is not stopped");
        }
        Outcome::StartFailed { cause: Cause::PostStartHookError, message }
    }

    /// Everything a container needs before it is made; the error is the text of its waiting state.
    async fn prepare(
        &self,
        at: &Situation,
        spec: &ContainerSpec,
        start: &Start<'_>,
        image: &crate::runtime::Image,
    ) -> Result<(proto::ContainerConfig, PodSandboxConfig), String> {
        let sources = Sources { objects: &self.objects, addresses: self.addresses(at), node: self.node.clone() };
        let environment = match &self.host {
            Some(_) => environment(&at.pod, spec, &sources).await.map_err(|error| described(&error))?,
            None => Vec::new(),
        };
        let mut mounts = Vec::new();
        let mut message_file: Option<PathBuf> = None;
        if let Some(host) = &self.host {
            mounts = host.volumes.mounts(&at.pod, spec, &environment).map_err(|error| described(&error))?;
            let files = files::make(self, at, spec, start.attempt, &mut mounts).map_err(|error| described(&error))?;
            message_file = Some(files);
        }
        let sandbox =
            self.sandbox_config(&at.pod, at.sandbox_attempt(start.sandbox_id)).map_err(|error| error.to_string())?;
        let context = ContainerContext {
            kind: start.kind,
            attempt: start.attempt,
            image,
            environment,
            mounts,
            message_file: message_file.as_deref(),
            qos: qos(&at.pod),
            node_memory_bytes: self.node.memory_bytes,
            target_id: at.target(&spec.name),
        };
        let container = config::container_config(&at.pod, spec, &context).map_err(|error| error.to_string())?;
        Ok((container, sandbox))
    }

    async fn kill(&self, at: &Situation, id: &str, name: &str, grace: Duration, reason: &KillReason) -> Outcome {
        let field = field_path(&at.pod, name);
        let text = match reason {
            KillReason::PodEnds => format!("Stopping container {name}"),
            KillReason::Probe(probe) => format!("Container {name} failed {probe} probe, will be restarted"),
            KillReason::DefinitionChanged => format!("Container {name} definition changed, will be restarted"),
            KillReason::SandboxLost => format!("Stopping container {name}: its sandbox is gone"),
            KillReason::StateUnknown => format!("Container {name} is in unknown state, try killing it before restart"),
        };
        self.events.container(&at.pod, &field, Level::Normal, "Killing", text);
        let began = self.env.clock.now();
        let spec = super::container(&at.pod, name);
        let hook = spec.as_ref().and_then(|(_, spec)| spec.lifecycle.as_ref()?.pre_stop.as_ref());
        if let (Some(hook), Some((_, spec))) = (hook, &spec)
            && let Err(why) = hooks::run(self, spec, id, hook, self.pod_address(at), grace).await
        {
            tracing::debug!(%why, "preStop hook");
            self.events.container(&at.pod, &field, Level::Warning, "FailedPreStopHook", "PreStopHook failed");
        }
        let rest =
            if hook.is_some() { grace.saturating_sub(self.env.clock.now() - began).max(GRACE_MIN) } else { grace };
        done(self.runtime.stop_container(id, rest).await)
    }

    async fn delete(&self, at: &Situation) -> Outcome {
        let key = at.key();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: Some(key.uid.clone()), ..Default::default() }),
            ..Default::default()
        };
        match api.delete(&key.name, &parameters).await {
            Ok(_) => Outcome::Deleted,
            // It is gone, or another pod has its name by now.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Outcome::Deleted,
            Err(error) => Outcome::DeleteFailed { message: error.to_string() },
        }
    }

    async fn forget(&self, at: &Situation) -> Outcome {
        let key = at.key();
        if let Some(host) = &self.host {
            host.cgroups.remove(&at.pod);
            if let Err(error) = host.volumes.remove_pod_dir(&key.uid).await {
                return Outcome::Failed { message: error.to_string() };
            }
            let logs = config::log_directory(&self.config.pod_logs_dir(), &key);
            if let Err(error) = std::fs::remove_dir_all(&logs)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                return Outcome::Failed { message: format!("{}: {error}", logs.display()) };
            }
        }
        Outcome::Done
    }
}

fn done(result: Result<(), crate::runtime::RuntimeError>) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        Err(error) => Outcome::Failed { message: error.to_string() },
    }
}

/// An error with its causes, in one line.
fn described(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
