//! The loop: one closed list of causes, one owner of view and queue, bindings in flight beside it.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use quorate_env::clock::Instant;
use quorate_env::{Env, Scope};
use tokio::sync::mpsc;

use crate::metrics::Metrics;
use crate::node::NodeInfo;
use crate::pod::{PodInfo, PodKey};
use crate::queue::Queue;
use crate::schedule::{Decision, Diagnosis, schedule};
use crate::view::View;

mod observe;
mod report;

pub use report::Reporter;

/// Bindings that may be on their way at once; more wait in the queue.
pub const BINDINGS_IN_FLIGHT: usize = 64;
/// Pods assumed to stand on a node before the watch has confirmed it.
pub const ASSUMED_LIMIT: usize = 4096;
/// Changes that wait for the loop; the watches wait when it is full.
const CAUSES: usize = 1024;
/// How long a binding may take before its outcome counts as unknown.
const BIND_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the queue is looked at when nothing happens.
const IDLE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub struct Config {
    /// Acts as `system:kube-scheduler`.
    pub client: kube::Client,
    /// Whose pods are scheduled: `spec.schedulerName`.
    pub scheduler_name: String,
    pub metrics: Metrics,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("scheduler_name", &self.scheduler_name).finish_non_exhaustive()
    }
}

/// Everything that makes the loop turn.
#[derive(Debug)]
pub enum Cause {
    Node(Box<NodeInfo>),
    NodeGone(String),
    Pod(Box<PodInfo>),
    PodGone(PodKey),
    /// A list of all nodes or all pods has been read to its end: what it did not name is gone.
    NodesListed(Vec<String>),
    PodsListed(Vec<PodKey>),
}

/// How a binding ended.
struct Bound {
    pod: PodInfo,
    attempts: u32,
    node: String,
    outcome: Result<(), kube::Error>,
}

/// Schedules until the scope is cancelled.
pub async fn run(config: Config, env: Env, scope: Scope) {
    let (causes, mut inbox) = mpsc::channel(CAUSES);
    observe::start(&config.client, &causes, &env, &scope);
    let mut scheduler = Scheduler::new(config, env.clone());
    let mut bindings = FuturesUnordered::new();
    loop {
        let next_release = scheduler.queue.release(env.clock.now());
        if scheduler.synced() {
            while bindings.len() < BINDINGS_IN_FLIGHT && scheduler.assumed.len() < ASSUMED_LIMIT {
                let Some(binding) = scheduler.next_binding().await else { break };
                bindings.push(binding);
            }
        }
        let wake = next_release.unwrap_or_else(|| env.clock.now() + IDLE);
        tokio::select! {
            () = scope.cancelled() => return,
            Some(cause) = inbox.recv() => scheduler.learn(cause),
            Some(bound) = bindings.next(), if !bindings.is_empty() => scheduler.settle(bound).await,
            () = env.clock.sleep_until(wake) => {}
        }
    }
}

struct Scheduler {
    config: Config,
    env: Env,
    reporter: Reporter,
    view: View,
    queue: Queue,
    /// Pending pods of ours, as last seen.
    pending: BTreeMap<PodKey, PodInfo>,
    /// Placed in the view ahead of the watch.
    assumed: BTreeMap<PodKey, Instant>,
    nodes_listed: bool,
    pods_listed: bool,
    sequence: u64,
}

impl Scheduler {
    fn new(config: Config, env: Env) -> Self {
        Self {
            reporter: Reporter::new(&config.client, &config.scheduler_name, env.clone()),
            config,
            env,
            view: View::default(),
            queue: Queue::default(),
            pending: BTreeMap::new(),
            assumed: BTreeMap::new(),
            nodes_listed: false,
            pods_listed: false,
            sequence: 0,
        }
    }

    /// Deciding on half a picture would send every pod to the first node seen.
    fn synced(&self) -> bool {
        self.nodes_listed && self.pods_listed
    }

    fn learn(&mut self, cause: Cause) {
        match cause {
            Cause::Node(node) => {
                let known = self.view.node(&node.name).is_some_and(|state| state.node == *node);
                self.view.put_node(*node);
                if !known {
                    self.queue.wake_unschedulable(self.env.clock.now());
                }
            }
            Cause::NodeGone(name) => self.view.remove_node(&name),
            Cause::Pod(pod) => self.learn_pod(*pod),
            Cause::PodGone(key) => self.forget_pod(&key),
            Cause::NodesListed(names) => {
                let gone: Vec<String> =
                    self.view.nodes().map(|s| s.node.name.clone()).filter(|n| !names.contains(n)).collect();
                for name in &gone {
                    self.view.remove_node(name);
                }
                self.nodes_listed = true;
            }
            Cause::PodsListed(keys) => {
                let listed: std::collections::BTreeSet<PodKey> = keys.into_iter().collect();
                let placed = self.view.nodes().flat_map(|state| state.pods.keys());
                let gone: Vec<PodKey> =
                    placed.chain(self.pending.keys()).filter(|key| !listed.contains(*key)).cloned().collect();
                for key in &gone {
                    self.forget_pod(key);
                }
                self.pods_listed = true;
            }
        }
        self.count_queue();
    }

    fn learn_pod(&mut self, pod: PodInfo) {
        if !pod.node_name.is_empty() {
            self.assumed.remove(&pod.key);
            self.pending.remove(&pod.key);
            self.queue.forget(&pod.key);
            let freed = pod.finished && self.view.is_placed(&pod.key);
            self.view.put_pod(pod);
            if freed {
                self.queue.wake_unschedulable(self.env.clock.now());
            }
            return;
        }
        let ours = pod.scheduler_name == self.config.scheduler_name && !pod.gated && !pod.finished && !pod.deleting;
        if !ours {
            self.pending.remove(&pod.key);
            self.queue.forget(&pod.key);
        } else if !self.assumed.contains_key(&pod.key) {
            let changed = self
                .pending
                .insert(pod.key.clone(), pod.clone())
                .is_none_or(|old| old.spec != pod.spec || old.labels != pod.labels);
            // Our own status patches come back as changes: they must not wake the pod.
            if changed {
                self.queue.put(pod.key.clone(), pod.priority);
            }
        }
    }

    fn forget_pod(&mut self, key: &PodKey) {
        self.pending.remove(key);
        self.assumed.remove(key);
        self.queue.forget(key);
        if self.view.remove_pod(key).is_some() {
            self.queue.wake_unschedulable(self.env.clock.now());
        }
    }

    /// Decides on queued pods until one gets a node; its binding is the result.
    async fn next_binding(&mut self) -> Option<impl Future<Output = Bound> + use<>> {
        while let Some((key, attempts)) = self.queue.pop() {
            let Some(pod) = self.pending.get(&key).cloned() else { continue };
            self.sequence += 1;
            let started = self.env.clock.now();
            let decision = schedule(&self.view, &pod, self.sequence);
            self.config.metrics.duration.observe((self.env.clock.now() - started).as_secs_f64());
            match decision {
                Decision::Bind { node } => return Some(self.assume(pod, attempts, node)),
                Decision::Unschedulable(diagnosis) => self.refuse(pod, attempts, &diagnosis).await,
            }
        }
        None
    }

    fn assume(&mut self, pod: PodInfo, attempts: u32, node: String) -> impl Future<Output = Bound> + use<> {
        self.assumed.insert(pod.key.clone(), self.env.clock.now());
        self.view.put_pod(PodInfo { node_name: node.clone(), ..pod.clone() });
        let (client, clock) = (self.config.client.clone(), self.env.clock.clone());
        async move {
            let bound = clock.timeout(BIND_TIMEOUT, report::bind(&client, &pod, &node)).await;
            let outcome = bound.unwrap_or_else(|elapsed| Err(kube::Error::Service(Box::new(elapsed))));
            Bound { pod, attempts, node, outcome }
        }
    }

    async fn refuse(&mut self, pod: PodInfo, attempts: u32, diagnosis: &Diagnosis) {
        self.config.metrics.attempts.with_label_values(&["unschedulable"]).inc();
        self.queue.put_unschedulable(pod.key.clone(), pod.priority, attempts, self.env.clock.now());
        self.reporter.unschedulable(&pod, &diagnosis.to_string()).await;
    }

    async fn settle(&mut self, bound: Bound) {
        let Bound { pod, attempts, node, outcome } = bound;
        match outcome {
            Ok(()) => {
                self.config.metrics.attempts.with_label_values(&["scheduled"]).inc();
                self.pending.remove(&pod.key);
                self.assumed.remove(&pod.key);
                self.reporter.scheduled(&pod, &node).await;
            }
            // The watch tells of a pod that is gone, or bound by somebody else.
            Err(error) if report::is_gone(&error) => {
                self.assumed.remove(&pod.key);
                self.view.remove_pod(&pod.key);
            }
            Err(error) => {
                self.config.metrics.attempts.with_label_values(&["error"]).inc();
                tracing::info!(pod = %pod.key.1, namespace = %pod.key.0, node, %error, "binding refused, trying again");
                self.assumed.remove(&pod.key);
                self.view.remove_pod(&pod.key);
                self.queue.put_backoff(pod.key.clone(), pod.priority, attempts, self.env.clock.now());
            }
        }
        self.count_queue();
    }

    fn count_queue(&self) {
        let (active, backoff, unschedulable) = self.queue.lengths();
        for (queue, length) in [("active", active), ("backoff", backoff), ("unschedulable", unschedulable)] {
            self.config.metrics.pending.with_label_values(&[queue]).set(i64::try_from(length).unwrap_or(i64::MAX));
        }
    }
}
