//! The Node object and its Lease: made at the start, kept up to date while the agent runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use quorate_env::{Backoff, Env, Scope};

use crate::config::{Config, RuntimeChoice};
use crate::events::{Level, Recorder, node_reference};
use crate::machine::{self, Capacity, Pressure};
use crate::runtime::Runtime;

/// How often the node looks at itself.
const STATUS_PERIOD: Duration = Duration::from_secs(10);
/// An unchanged status is written this often.
const REPORT_PERIOD: SignedDuration = SignedDuration::from_mins(5);
const LEASE_PERIOD: Duration = Duration::from_secs(10);
const LEASE_SECONDS: i32 = 40;
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The largest images are reported, this many.
const IMAGES_MAX: usize = 50;
const RETRY_INITIAL: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(7);

pub struct Registration {
    config: Arc<Config>,
    env: Env,
    client: kube::Client,
    runtime: Runtime,
    events: Recorder,
    capacity: Capacity,
    /// Parts of the agent that say why the node cannot run pods yet.
    network_ready: tokio::sync::watch::Receiver<bool>,
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("node", &self.config.name).finish_non_exhaustive()
    }
}

/// The last status the node has reported.
struct Reported {
    status: NodeStatus,
    at: Timestamp,
}

impl Registration {
    pub fn new(
        config: Arc<Config>,
        env: Env,
        client: kube::Client,
        runtime: Runtime,
        events: Recorder,
        network_ready: tokio::sync::watch::Receiver<bool>,
    ) -> Self {
        let capacity = match config.runtime {
            RuntimeChoice::Simulated => Capacity { cpu_milli: 64_000, memory_bytes: 256 << 30, disk_bytes: 1 << 40 },
            RuntimeChoice::External { .. } | RuntimeChoice::Private => Capacity::of_machine(&config.root_dir),
        };
        Self { config, env, client, runtime, events, capacity, network_ready }
    }

    /// Make sure the Node object exists; returns it. Tries until the API answers.
    pub async fn register(&self) -> Node {
        let mut backoff = Backoff::new(RETRY_INITIAL, RETRY_MAX, self.env.random.clone());
        loop {
            match self.try_register().await {
                Ok(node) => return node,
                Err(error) => tracing::info!(%error, "the node is not registered yet"),
            }
            self.env.clock.sleep(backoff.next_delay()).await;
        }
    }

    async fn try_register(&self) -> Result<Node, kube::Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        let wanted = self.node();
        match api.create(&PostParams::default(), &wanted).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let patch = serde_json::json!({"metadata": {
                    "labels": wanted.metadata.labels, "annotations": wanted.metadata.annotations,
                }});
                api.patch(&self.config.name, &PatchParams::default(), &Patch::Merge(patch)).await
            }
            other => other,
        }
    }

    fn node(&self) -> Node {
        let name = &self.config.name;
        let arch = machine::architecture();
        let mut labels = BTreeMap::from([
            ("kubernetes.io/hostname".to_owned(), name.clone()),
            ("kubernetes.io/os".to_owned(), "linux".to_owned()),
            ("kubernetes.io/arch".to_owned(), arch.to_owned()),
            ("beta.kubernetes.io/os".to_owned(), "linux".to_owned()),
            ("beta.kubernetes.io/arch".to_owned(), arch.to_owned()),
        ]);
        labels.extend(self.config.zone.iter().map(|zone| ("topology.kubernetes.io/zone".to_owned(), zone.clone())));
        labels.extend(self.config.labels.clone());
        let cidr = self.config.network.pod_cidr.map(|cidr| cidr.to_string());
        Node {
            metadata: ObjectMeta { name: Some(name.clone()), labels: Some(labels), ..Default::default() },
            spec: Some(NodeSpec {
                pod_cidrs: cidr.clone().map(|cidr| vec![cidr]),
                pod_cidr: cidr,
                ..Default::default()
            }),
            status: None,
        }
    }

    /// Report and renew until the scope ends.
    pub fn start(self, scope: &Scope) {
        let this = Arc::new(self);
        let reporter = this.clone();
        scope.spawn_until_cancelled("node-status", async move { reporter.report_loop().await });
        scope.spawn_until_cancelled("node-lease", async move { this.lease_loop().await });
    }

    async fn report_loop(&self) {
        let mut reported: Option<Reported> = None;
        let mut network_ready = self.network_ready.clone();
        let mut interval = self.env.clock.interval(STATUS_PERIOD);
        self.events.record(node_reference(&self.config.name), Level::Normal, "Starting", "Starting kubelet.".into());
        loop {
            if let Err(error) = self.report(&mut reported).await {
                tracing::warn!(%error, "the node's status is not written");
            }
            let ready_changes = async {
                if network_ready.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                _ = interval.tick() => {}
                () = ready_changes => {}
            }
        }
    }

    async fn report(&self, reported: &mut Option<Reported>) -> Result<(), kube::Error> {
        let now = self.env.clock.wall();
        let status = self.status(now, reported.as_ref().map(|reported| &reported.status)).await;
        if let Some(last) = reported
            && now.duration_since(last.at) < REPORT_PERIOD
            && same_but_heartbeat(&last.status, &status)
        {
            return Ok(());
        }
        let api: Api<Node> = Api::all(self.client.clone());
        let patch = serde_json::json!({"status": status});
        match api.patch_status(&self.config.name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(_) => {}
            // Somebody has deleted the Node object while its agent runs: it comes back.
            Err(kube::Error::Api(answer)) if answer.code == 404 => {
                self.try_register().await?;
                *reported = None;
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let was_ready = reported.as_ref().map(|reported| is_ready(&reported.status));
        if was_ready != Some(is_ready(&status)) {
            let (reason, text) =
                if is_ready(&status) { ("NodeReady", "NodeReady") } else { ("NodeNotReady", "NodeNotReady") };
            let message = format!("Node {} status is now: {text}", self.config.name);
            self.events.record(node_reference(&self.config.name), Level::Normal, reason, message);
        }
        *reported = Some(Reported { status, at: now });
        Ok(())
    }

    async fn status(&self, now: Timestamp, last: Option<&NodeStatus>) -> NodeStatus {
        let version = self.runtime.version().await.unwrap_or_default();
        let mut addresses: Vec<NodeAddress> = self
            .config
            .addresses
            .iter()
            .map(|ip| NodeAddress { type_: "InternalIP".into(), address: ip.to_string() })
            .collect();
        addresses.push(NodeAddress { type_: "Hostname".into(), address: self.config.name.clone() });
        let port = self.config.server.listen.map_or(crate::config::SERVER_PORT, |listen| listen.port());
        NodeStatus {
            addresses: Some(addresses),
            capacity: Some(self.quantities(&self.capacity)),
            allocatable: Some(self.quantities(&self.capacity.allocatable())),
            conditions: Some(self.conditions(now, last).await),
            daemon_endpoints: Some(NodeDaemonEndpoints {
                kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(port) }),
            }),
            images: Some(self.images().await),
            node_info: Some(machine::system_info(&version)),
            ..Default::default()
        }
    }

    fn quantities(&self, capacity: &Capacity) -> BTreeMap<String, Quantity> {
        let cpu = if capacity.cpu_milli % 1000 == 0 {
            (capacity.cpu_milli / 1000).to_string()
        } else {
            format!("{}m", capacity.cpu_milli)
        };
        BTreeMap::from([
            ("cpu".to_owned(), Quantity(cpu)),
            ("memory".to_owned(), Quantity(format!("{}Ki", capacity.memory_bytes / 1024))),
            ("ephemeral-storage".to_owned(), Quantity(format!("{}Ki", capacity.disk_bytes / 1024))),
            ("pods".to_owned(), Quantity(self.config.max_pods.to_string())),
        ])
    }

    async fn images(&self) -> Vec<ContainerImage> {
        let mut images = self.runtime.images().await.unwrap_or_default();
        images.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
        images
            .into_iter()
            .take(IMAGES_MAX)
            .map(|image| ContainerImage {
                names: Some(image.digests.into_iter().chain(image.tags).collect()),
                size_bytes: i64::try_from(image.size).ok(),
            })
            .collect()
    }

    async fn conditions(&self, now: Timestamp, last: Option<&NodeStatus>) -> Vec<NodeCondition> {
        let pressure = match self.config.runtime {
            RuntimeChoice::Simulated => Pressure::default(),
            RuntimeChoice::External { .. } | RuntimeChoice::Private => Pressure::of_machine(&self.config.root_dir),
        };
        let not_ready = match self.runtime.status().await {
            Ok(status) => {
                status.not_ready.or(status.network_not_ready).map(|why| format!("container runtime is down: {why}"))
            }
            Err(error) => Some(error.to_string()),
        };
        let not_ready = not_ready.or_else(|| {
            (!*self.network_ready.borrow())
                .then(|| "container runtime network not ready: the agent's network is starting".to_owned())
        });
        let pressed = |kind: &str, holds: bool, yes: (&str, &str), no: (&str, &str)| {
            let (reason, message) = if holds { yes } else { no };
            condition(now, last, kind, holds, reason, message.to_owned())
        };
        vec![
            pressed(
                "MemoryPressure",
                pressure.memory,
                ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
                ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            ),
            pressed(
                "DiskPressure",
                pressure.disk,
                ("KubeletHasDiskPressure", "kubelet has disk pressure"),
                ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ),
            pressed(
                "PIDPressure",
                pressure.pids,
                ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
                ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ),
            match not_ready {
                None => condition(now, last, "Ready", true, "KubeletReady", "kubelet is posting ready status".into()),
                Some(why) => condition(now, last, "Ready", false, "KubeletNotReady", why),
            },
        ]
    }

    async fn lease_loop(&self) {
        let mut interval = self.env.clock.interval(LEASE_PERIOD);
        let mut backoff = Backoff::new(RETRY_INITIAL, RETRY_MAX, self.env.random.clone());
        loop {
            if let Err(error) = self.renew().await {
                tracing::debug!(%error, "the node's lease is not renewed");
                self.env.clock.sleep(backoff.next_delay()).await;
                continue;
            }
            backoff.reset();
            interval.tick().await;
        }
    }

    async fn renew(&self) -> Result<(), kube::Error> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), LEASE_NAMESPACE);
        let name = &self.config.name;
        let renew_time = MicroTime(self.env.clock.wall());
        let patch = serde_json::json!({"spec": {
            "holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renew_time,
        }});
        match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let node = Api::<Node>::all(self.client.clone()).get(name).await?;
                let owner = OwnerReference {
                    api_version: "v1".into(),
                    kind: "Node".into(),
                    name: name.clone(),
                    uid: node.metadata.uid.unwrap_or_default(),
                    ..Default::default()
                };
                let lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(name.clone()),
                        namespace: Some(LEASE_NAMESPACE.into()),
                        owner_references: Some(vec![owner]),
                        ..Default::default()
                    },
                    spec: Some(LeaseSpec {
                        holder_identity: Some(name.clone()),
                        lease_duration_seconds: Some(LEASE_SECONDS),
                        renew_time: Some(renew_time),
                        ..Default::default()
                    }),
                };
                api.create(&PostParams::default(), &lease).await.map(|_| ())
            }
            Err(error) => Err(error),
        }
    }
}

fn condition(
    now: Timestamp,
    last: Option<&NodeStatus>,
    kind: &str,
    holds: bool,
    reason: &str,
    message: String,
) -> NodeCondition {
    let status = if holds { "True" } else { "False" };
    let before = last.and_then(|last| last.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind));
    let transition =
        before.filter(|before| before.status == status).and_then(|before| before.last_transition_time.clone());
    NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(transition.unwrap_or(Time(now))),
    }
}

fn is_ready(status: &NodeStatus) -> bool {
    status.conditions.iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn same_but_heartbeat(a: &NodeStatus, b: &NodeStatus) -> bool {
    let still = |status: &NodeStatus| {
        let mut status = status.clone();
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_heartbeat_time = None;
        }
        status
    };
    still(a) == still(b)
}
