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
use crate::runtime::{Runtime, RuntimeError, RuntimeVersion};

/// How often the node looks at itself.
const STATUS_PERIOD: Duration = Duration::from_secs(10);
/// An unchanged status is written this often.
const REPORT_PERIOD: SignedDuration = SignedDuration::from_mins(5);
const LEASE_PERIOD: Duration = Duration::from_secs(10);
const LEASE_SECONDS: i32 = 40;
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The largest images are reported, this many.
const IMAGES_MAX: usize = 50;
/// The keys of the labels that the node was told to have, so that those it is no longer told of can be taken away.
const ANNOTATION_LABELS: &str = "quorate.io/labels";
/// A node that was ready before its agent started again stays so in the API until its parts run, but no longer.
const READY_CREDIT: Duration = Duration::from_secs(30);
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
                let known = api.get(&self.config.name).await?;
                let mut labels = serde_json::json!(wanted.metadata.labels);
                for key in dropped_labels(&known, &wanted) {
                    labels[key] = serde_json::Value::Null;
                }
                let annotations = &wanted.metadata.annotations;
                let patch = serde_json::json!({"metadata": {"labels": labels, "annotations": annotations}});
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
        let told: Vec<&str> = self.config.labels.keys().map(String::as_str).collect();
        let annotations = BTreeMap::from([(ANNOTATION_LABELS.to_owned(), told.join(","))]);
        let cidr = self.config.network.pod_cidr.map(|cidr| cidr.to_string());
        Node {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(labels),
                annotations: Some(annotations),
                ..Default::default()
            },
            spec: Some(NodeSpec {
                pod_cidrs: cidr.clone().map(|cidr| vec![cidr]),
                pod_cidr: cidr,
                ..Default::default()
            }),
            status: None,
        }
    }

    /// Report and renew until the scope ends. `known` is what the API shows of the node so far.
    pub fn start(self, known: Option<NodeStatus>, scope: &Scope) {
        let this = Arc::new(self);
        let reporter = this.clone();
        scope.spawn_until_cancelled("node-status", async move { reporter.report_loop(known).await });
        scope.spawn_until_cancelled("node-lease", async move { this.lease_loop().await });
    }

    async fn report_loop(&self, known: Option<NodeStatus>) {
        let mut network_ready = self.network_ready.clone();
        if known.as_ref().is_some_and(is_ready) {
            // Services would lose the endpoints of pods that run on as if nothing had happened.
            let started = network_ready.wait_for(|ready| *ready);
            if self.env.clock.timeout(READY_CREDIT, started).await.is_err() {
                tracing::warn!("the node was ready, and its parts do not start");
            }
        }
        // As old as can be: it is written at once.
        let mut reported = known.map(|status| Reported { status, at: Timestamp::UNIX_EPOCH });
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
        let node_info = self.runtime.version().await.map(|version| machine::system_info(&version));
        let node_info = or_last(node_info, last.and_then(|last| last.node_info.clone()));
        let images = or_last(self.images().await, last.and_then(|last| last.images.clone()));
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
            images,
            node_info: Some(node_info.unwrap_or_else(|| machine::system_info(&RuntimeVersion::default()))),
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

    async fn images(&self) -> Result<Vec<ContainerImage>, RuntimeError> {
        let mut images = self.runtime.images().await?;
        images.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
        let images = images
            .into_iter()
            .take(IMAGES_MAX)
            .map(|image| ContainerImage {
                names: Some(image.digests.into_iter().chain(image.tags).collect()),
                size_bytes: i64::try_from(image.size).ok(),
            })
            .collect();
        Ok(images)
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

/// Labels that an earlier start put on the node because it was told to, and that this one would not.
fn dropped_labels(known: &Node, wanted: &Node) -> Vec<String> {
    let told = known.metadata.annotations.as_ref().and_then(|annotations| annotations.get(ANNOTATION_LABELS));
    let stays = |key: &str| wanted.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key));
    let keys = told.into_iter().flat_map(|told| told.split(','));
    keys.filter(|key| !key.is_empty() && !stays(key)).map(str::to_owned).collect()
}

/// What the runtime does not tell at the moment is as it was.
fn or_last<T>(now: Result<T, RuntimeError>, last: Option<T>) -> Option<T> {
    now.map_or_else(
        |error| {
            tracing::debug!(%error, "the node reports what it knew");
            last
        },
        Some,
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_runtime_does_not_tell_is_reported_as_it_was() {
        let silent = || Err::<u8, _>(RuntimeError::Unavailable("restarting".into()));
        assert_eq!(
            [or_last(silent(), Some(1)), or_last(Ok(2), Some(1)), or_last(silent(), None)],
            [Some(1), Some(2), None]
        );
    }

    #[test]
    fn only_labels_that_the_node_was_told_to_have_are_taken_away() {
        let node = |labels: &[&str], told: &str| Node {
            metadata: ObjectMeta {
                labels: Some(labels.iter().map(|key| ((*key).to_owned(), String::new())).collect()),
                annotations: Some(BTreeMap::from([(ANNOTATION_LABELS.to_owned(), told.to_owned())])),
                ..Default::default()
            },
            ..Default::default()
        };
        let known = node(&["pool", "gpu", "kubernetes.io/os", "of-an-admin"], "pool,gpu");
        assert_eq!(dropped_labels(&known, &node(&["gpu", "kubernetes.io/os"], "gpu")), ["pool"]);
        let of_old =
            Node { metadata: ObjectMeta { annotations: None, ..known.metadata.clone() }, ..Default::default() };
        assert_eq!(dropped_labels(&of_old, &node(&[], "")), Vec::<String>::new());
    }
}
