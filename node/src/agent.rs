//! Starts the parts of the agent, in order, and ends them in the opposite one.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use quorate_env::{Env, Scope};
use tokio::sync::watch;

use crate::cgroup::Cgroups;
use crate::config::{Config, RuntimeChoice};
use crate::containerd::{self, Containerd, ContainerdError};
use crate::events::Recorder;
use crate::images::Images;
use crate::logs;
use crate::machine::Capacity;
use crate::network::{self, Network};
use crate::objects::Objects;
use crate::pod::fields::Allocatable;
use crate::pod::manager;
use crate::pod::run::{HostParts, Runner};
use crate::registration::Registration;
use crate::runtime::{CriRuntime, PodObservation, Runtime, RuntimeError, SimulatedRuntime};
use crate::server::{self, ServeError};
use crate::volumes::Volumes;

/// Given to the tasks of each part to end.
const PART_LIMIT: Duration = Duration::from_secs(5);
/// Given to containers of a private runtime when the agent ends.
const LAST_GRACE: Duration = Duration::from_secs(2);
/// Given to all pods of a private runtime together to be gone.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
const POD_CIDR_POLL: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the node's directory {path} cannot be made")]
    Directory {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Containerd(#[from] ContainerdError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("the node's network")]
    Network(#[from] network::StartError),
    #[error("the node's server")]
    Serve(#[from] ServeError),
}

/// The scopes of the parts. They are not children of the caller's scope: they end one after the other, since the
/// network must still answer while pods are taken down.
struct Scopes {
    runtime: Scope,
    network: Scope,
    node: Scope,
    pods: Scope,
}

impl Scopes {
    fn new(node: &str) -> Self {
        let part = |name: &str| Scope::root(&format!("node/{node}/{name}"));
        Self { runtime: part("runtime"), network: part("network"), node: part("node"), pods: part("pods") }
    }

    fn all(&self) -> [&Scope; 4] {
        [&self.pods, &self.node, &self.network, &self.runtime]
    }
}

/// Run the agent until `scope` is cancelled. Returns once everything it started is stopped; to be awaited to its end.
pub async fn run(config: Config, env: Env, scope: Scope, client: kube::Client) -> Result<(), AgentError> {
    std::fs::create_dir_all(&config.root_dir)
        .map_err(|source| AgentError::Directory { path: config.root_dir.display().to_string(), source })?;
    let scopes = Scopes::new(&config.name);
    let mut private = None;
    let started = tokio::select! {
        started = start(Arc::new(config), env, &scopes, client, &mut private) => started.map(Some),
        () = scope.cancelled() => Ok(None),
    };
    match started {
        Ok(running) => {
            scope.cancelled().await;
            Box::pin(stop(&scopes, running, private)).await;
            Ok(())
        }
        Err(error) => {
            Box::pin(stop(&scopes, None, private)).await;
            Err(error)
        }
    }
}

async fn start(
    config: Arc<Config>,
    env: Env,
    scopes: &Scopes,
    client: kube::Client,
    private: &mut Option<Containerd>,
) -> Result<Runner, AgentError> {
    let (network_ready_in, network_ready) = watch::channel(false);
    let events = Recorder::start(&config.name, client.clone(), &env, &scopes.node);
    let objects = Objects::start(client.clone(), &scopes.node);
    let runtime = start_runtime(&config, &env, scopes, &client, private).await?;
    let registration =
        Registration::new(config.clone(), env.clone(), client.clone(), runtime.clone(), events.clone(), network_ready);
    registration.register().await;
    registration.start(&scopes.node);
    let simulated = matches!(config.runtime, RuntimeChoice::Simulated);
    if !simulated {
        let handle = Network::start(network::Config::of(&config), &env, &scopes.network, client.clone()).await?;
        if let Err(error) = handle.loaded().await {
            tracing::debug!(%error, "the network has stopped while it was loading");
        }
        logs::rotate::start(runtime.clone(), config.pod_logs_dir(), env.clone(), &scopes.node);
    }
    let node = allocatable(&config);
    let host = (!simulated).then(|| HostParts {
        volumes: Volumes::new(config.pods_dir(), objects.clone(), env.clone(), node.clone()),
        cgroups: Cgroups::find(&config.cgroup_root),
    });
    objects.wait_for_services().await;
    let runner = Runner {
        images: Images::new(runtime.clone(), objects.clone(), events.clone(), env.clone()),
        config: config.clone(),
        env: env.clone(),
        client: client.clone(),
        runtime: runtime.clone(),
        objects,
        events,
        host,
        node,
    };
    let pods = manager::start(runner.clone(), &scopes.pods);
    server::start(server::Node { config, env, scope: scopes.node.clone(), client, runtime, pods }).await?;
    network_ready_in.send_replace(true);
    tracing::info!(node = %runner.config.name, "node agent started");
    // The channel's end lives as long as the node reports.
    scopes.node.spawn_until_cancelled("network-ready", async move { network_ready_in.closed().await });
    Ok(runner)
}

async fn start_runtime(
    config: &Config,
    env: &Env,
    scopes: &Scopes,
    client: &kube::Client,
    private: &mut Option<Containerd>,
) -> Result<Runtime, AgentError> {
    match &config.runtime {
        RuntimeChoice::Simulated => {
            let cidr = match config.network.pod_cidr {
                Some(cidr) => cidr,
                None => pod_cidr(config, env, client).await,
            };
            Ok(Runtime::Simulated(SimulatedRuntime::new(env.clone(), cidr)))
        }
        RuntimeChoice::External { address } => {
            Ok(Runtime::Cri(Box::new(CriRuntime::connect(address, env.clock.clone(), &scopes.runtime)?)))
        }
        RuntimeChoice::Private => {
            let containerd = Containerd::start(config, &env.clock, &scopes.runtime).await?;
            let containerd = private.insert(containerd);
            let runtime = CriRuntime::connect(&containerd::socket(config), env.clock.clone(), &scopes.runtime)?;
            containerd.load_images(config, &runtime).await?;
            Ok(Runtime::Cri(Box::new(runtime)))
        }
    }
}

/// The range the cluster gives this node, once it has.
async fn pod_cidr(config: &Config, env: &Env, client: &kube::Client) -> IpNet {
    let api: Api<Node> = Api::all(client.clone());
    loop {
        let node = api.get(&config.name).await.ok();
        let cidr = node.and_then(|node| node.spec?.pod_cidr?.parse().ok());
        if let Some(cidr) = cidr {
            return cidr;
        }
        env.clock.sleep(POD_CIDR_POLL).await;
    }
}

fn allocatable(config: &Config) -> Allocatable {
    let capacity = Capacity::of_machine(&config.root_dir).allocatable();
    Allocatable { cpu_milli: capacity.cpu_milli, memory_bytes: capacity.memory_bytes }
}

/// Pods of a private runtime end with it; those of somebody else's go on without the agent.
async fn stop(scopes: &Scopes, running: Option<Runner>, private: Option<Containerd>) {
    close(&scopes.pods).await;
    close(&scopes.node).await;
    if let Some(runner) = running.as_ref().filter(|_| private.is_some())
        && runner.env.clock.timeout(DRAIN_LIMIT, Box::pin(remove_pods(runner))).await.is_err()
    {
        tracing::warn!("not all pods could be removed in time");
    }
    close(&scopes.network).await;
    close(&scopes.runtime).await;
    if let Some(containerd) = private {
        containerd.stop().await;
    }
    if let Some(host) = running.as_ref().and_then(|runner| runner.host.as_ref())
        && matches!(running.as_ref().map(|runner| &runner.config.runtime), Some(RuntimeChoice::Private))
    {
        host.cgroups.remove_all();
    }
    for scope in scopes.all() {
        scope.cancel();
    }
}

async fn close(scope: &Scope) {
    for name in scope.close(PART_LIMIT).await {
        tracing::warn!(%name, "task did not end in time");
    }
}

async fn remove_pods(runner: &Runner) {
    let observed = match runner.runtime.observe().await {
        Ok(observed) => observed,
        Err(error) => {
            tracing::warn!(%error, "the runtime does not tell which pods are left");
            return;
        }
    };
    join_all(observed.iter().map(|(uid, pod)| remove_pod(runner, uid, pod))).await;
}

async fn remove_pod(runner: &Runner, uid: &str, pod: &PodObservation) {
    let live = pod.containers.iter().filter(|container| crate::pod::step::is_live_container(container));
    for outcome in join_all(live.map(|container| runner.runtime.stop_container(&container.id, LAST_GRACE))).await {
        if let Err(error) = outcome {
            tracing::warn!(%error, "container not stopped");
        }
    }
    for sandbox in &pod.sandboxes {
        let stopped = runner.runtime.stop_sandbox(&sandbox.id).await;
        let removed = match stopped {
            Ok(()) => runner.runtime.remove_sandbox(&sandbox.id).await,
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "sandbox not removed");
        }
    }
    if let Some(host) = &runner.host
        && let Err(error) = host.volumes.tear_down(uid).await
    {
        tracing::warn!(%error, "volumes not removed");
    }
}
