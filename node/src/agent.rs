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
use crate::containerd::{self, Containerd, ContainerdError, import_archives};
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
const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// The longest that an agent takes to end: its four parts, the removal of its network, its pods, its containerd.
pub const STOP_LIMIT: Duration =
    PART_LIMIT.saturating_mul(6).saturating_add(DRAIN_LIMIT).saturating_add(containerd::END_LIMIT);
const POD_CIDR_POLL: Duration = Duration::from_millis(200);
/// Somebody else's runtime may start after the agent; it is asked again after this.
const RUNTIME_POLL: Duration = Duration::from_secs(1);

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

/// What there is to take down again. Each piece is noted as soon as it exists: a start may fail or be cut off anywhere,
/// and may have found pods that an agent before it had left.
#[derive(Default)]
struct Held {
    private: Option<Containerd>,
    machine: Option<Machine>,
}

/// What pods have on a real machine.
struct Machine {
    config: Arc<Config>,
    env: Env,
    runtime: Runtime,
    host: HostParts,
}

/// Run the agent until `scope` is cancelled. Returns once everything it started is stopped, within [`STOP_LIMIT`]; to be
/// awaited to its end.
pub async fn run(config: Config, env: Env, scope: Scope, client: kube::Client) -> Result<(), AgentError> {
    std::fs::create_dir_all(&config.root_dir)
        .map_err(|source| AgentError::Directory { path: config.root_dir.display().to_string(), source })?;
    let scopes = Scopes::new(&config.name);
    let mut held = Held::default();
    let started = tokio::select! {
        started = start(Arc::new(config), env, &scopes, client, &mut held) => started,
        () = scope.cancelled() => Ok(()),
    };
    if started.is_ok() {
        scope.cancelled().await;
    }
    Box::pin(stop(&scopes, held)).await;
    started
}

async fn start(
    config: Arc<Config>,
    env: Env,
    scopes: &Scopes,
    client: kube::Client,
    held: &mut Held,
) -> Result<(), AgentError> {
    let (network_ready_in, network_ready) = watch::channel(false);
    let listener = server::listen(&config.server, &scopes.node).await?;
    let events = Recorder::start(&config.name, client.clone(), &env, &scopes.node);
    let objects = Objects::start(client.clone(), &scopes.node);
    let node = allocatable(&config);
    let simulated = matches!(config.runtime, RuntimeChoice::Simulated);
    let host = (!simulated).then(|| HostParts {
        volumes: Volumes::new(config.pods_dir(), objects.clone(), env.clone(), node.clone()),
        cgroups: Cgroups::find(&config.cgroup_root),
    });
    let runtime = connect_runtime(&config, &env, scopes, &client, held).await?;
    held.machine =
        host.clone().map(|host| Machine { config: config.clone(), env: env.clone(), runtime: runtime.clone(), host });
    launch_runtime(&config, &runtime, scopes, held).await?;
    let registration =
        Registration::new(config.clone(), env.clone(), client.clone(), runtime.clone(), events.clone(), network_ready);
    let registered = registration.register().await;
    registration.start(registered.status, &scopes.node);
    if !simulated {
        let network = network_config(&config, &runtime, &env).await?;
        let handle = Network::start(network, &env, &scopes.network, client.clone()).await?;
        if let Err(error) = handle.loaded().await {
            tracing::debug!(%error, "the network has stopped while it was loading");
        }
        logs::rotate::start(runtime.clone(), config.pod_logs_dir(), env.clone(), &scopes.node);
    }
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
    let pods = manager::start(runner, &scopes.pods);
    tracing::info!(node = %config.name, "node agent started");
    if let Some(listener) = listener {
        server::start(server::Node { config, env, scope: scopes.node.clone(), client, runtime, pods }, listener);
    }
    network_ready_in.send_replace(true);
    // The channel's end lives as long as the node reports.
    scopes.node.spawn_until_cancelled("network-ready", async move { network_ready_in.closed().await });
    Ok(())
}

/// A handle to the runtime. A private one need not run yet.
async fn connect_runtime(
    config: &Config,
    env: &Env,
    scopes: &Scopes,
    client: &kube::Client,
    held: &mut Held,
) -> Result<Runtime, AgentError> {
    let address = match &config.runtime {
        RuntimeChoice::Simulated => {
            let cidr = match config.network.pod_cidr {
                Some(cidr) => cidr,
                None => pod_cidr(config, env, client).await,
            };
            return Ok(Runtime::Simulated(SimulatedRuntime::new(env.clone(), cidr)));
        }
        RuntimeChoice::External { address } => address.clone(),
        RuntimeChoice::Private => {
            held.private = Some(Containerd::prepare(config, &env.clock)?);
            containerd::socket(config)
        }
    };
    Ok(Runtime::Cri(Box::new(CriRuntime::connect(&address, env.clock.clone(), &scopes.runtime)?)))
}

async fn launch_runtime(config: &Config, runtime: &Runtime, scopes: &Scopes, held: &Held) -> Result<(), AgentError> {
    if let (Some(containerd), Runtime::Cri(runtime)) = (&held.private, runtime) {
        containerd.launch(&scopes.runtime).await?;
        containerd.load_images(config, runtime).await?;
    }
    Ok(())
}

/// The network of the node. Somebody else's runtime looks for CNI plugins in places of its own, and is given the images
/// here, now that it answers.
async fn network_config(config: &Config, runtime: &Runtime, env: &Env) -> Result<network::Config, AgentError> {
    let mut network = network::Config::of(config);
    if let (RuntimeChoice::External { address }, Runtime::Cri(runtime)) = (&config.runtime, runtime) {
        let places = loop {
            match runtime.cni_places().await {
                Ok(places) => break places,
                Err(error) => tracing::warn!(%error, address = %address.display(), "waiting for the container runtime"),
            }
            env.clock.sleep(RUNTIME_POLL).await;
        };
        if let Some(places) = places {
            (network.cni.bin_dir, network.cni.conf_dir) = (places.bin_dir, places.conf_dir);
        }
        import_archives(address, None, &config.image_archives).await?;
    }
    Ok(network)
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

/// Pods of a private runtime end with it. Those of somebody else's go on without the agent, and keep what they need of the
/// node: cgroups, addresses, routes and rules.
async fn stop(scopes: &Scopes, held: Held) {
    close(&scopes.pods).await;
    close(&scopes.node).await;
    let is_private = held.private.is_some();
    if let Some(machine) = held.machine.as_ref().filter(|_| is_private)
        && machine.env.clock.timeout(DRAIN_LIMIT, Box::pin(remove_pods(machine))).await.is_err()
    {
        tracing::warn!("not all pods could be removed in time");
    }
    let unneeded = match &held.machine {
        Some(machine) if is_private || Box::pin(has_no_pods(machine)).await => Some(machine),
        Some(_) | None => None,
    };
    close(&scopes.network).await;
    if let Some(machine) = unneeded {
        remove_network(machine).await;
    }
    close(&scopes.runtime).await;
    if let Some(containerd) = held.private {
        containerd.stop().await;
    }
    if let Some(machine) = unneeded {
        machine.host.cgroups.remove_all();
    }
    for scope in scopes.all() {
        scope.cancel();
    }
}

async fn has_no_pods(machine: &Machine) -> bool {
    let look = machine.env.clock.timeout(PART_LIMIT, Box::pin(machine.runtime.observe())).await;
    let ours = |pod: &PodObservation| manager::is_ours(pod, &machine.config.name, true);
    look.is_ok_and(|looked| looked.is_ok_and(|pods| !pods.values().any(ours)))
}

async fn remove_network(machine: &Machine) {
    let scope = Scope::root("network-removal");
    let config = network::Config::of(&machine.config);
    let removal = Network::remove(&config, &machine.env, &scope);
    match machine.env.clock.timeout(PART_LIMIT, removal).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the node's rules and routes are not removed"),
        Err(elapsed) => tracing::warn!(error = %elapsed, "the node's rules and routes are not removed"),
    }
    scope.cancel();
}

async fn close(scope: &Scope) {
    for name in scope.close(PART_LIMIT).await {
        tracing::warn!(%name, "task did not end in time");
    }
}

async fn remove_pods(machine: &Machine) {
    let observed = match machine.runtime.observe().await {
        Ok(observed) => observed,
        Err(error) => {
            tracing::warn!(%error, "the runtime does not tell which pods are left");
            return;
        }
    };
    join_all(observed.iter().map(|(uid, pod)| remove_pod(machine, uid, pod))).await;
}

async fn remove_pod(machine: &Machine, uid: &str, pod: &PodObservation) {
    let live = pod.containers.iter().filter(|container| crate::pod::step::is_live_container(container));
    for outcome in join_all(live.map(|container| machine.runtime.stop_container(&container.id, LAST_GRACE))).await {
        if let Err(error) = outcome {
            tracing::warn!(%error, "container not stopped");
        }
    }
    for sandbox in &pod.sandboxes {
        let stopped = machine.runtime.stop_sandbox(&sandbox.id).await;
        let removed = match stopped {
            Ok(()) => machine.runtime.remove_sandbox(&sandbox.id).await,
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "sandbox not removed");
        }
    }
    if let Err(error) = machine.host.volumes.tear_down(uid).await {
        tracing::warn!(%error, "volumes not removed");
    }
}
