//! The loop: one closed list of causes, one owner of view and queue, bindings in flight beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use quorate_env::{Env, Scope};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::filter::{Rule, RuleSet};
use crate::metrics::Metrics;
use crate::node::NodeInfo;
use crate::pod::{PodInfo, PodKey};
use crate::queue::Queue;
use crate::schedule::{Decision, Diagnosis, schedule};
use crate::view::{Claim, OwnerKind, Source, View};

mod bind;
mod observe;
pub mod report;
#[cfg(test)]
mod tests;

use bind::Outcome;
use report::Reporter;

/// Bindings that may be on their way at once; more wait in the queue.
pub const BINDINGS_IN_FLIGHT: usize = 64;
/// Pods assumed to stand on a node before the watch has confirmed it.
pub const ASSUMED_LIMIT: usize = 4096;
/// Changes that wait for the loop; the watches wait when it is full.
const CAUSES: usize = 1024;
/// Decisions before the loop looks at what has changed meanwhile.
const DECISIONS_PER_TURN: usize = 64;
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
    Pod(Box<PodInfo>),
    Namespace(String, BTreeMap<String, String>),
    /// With its selector.
    Service(PodKey, Option<Value>),
    Owner(OwnerKind, PodKey, Option<Value>),
    Claim(PodKey, Claim),
    /// A storage class, and whether its claims wait for their first pod.
    Class(String, bool),
    Gone(Source, PodKey),
    /// A source has been read to its end: what the list did not name is gone.
    Listed(Source, Vec<PodKey>),
}

/// How a binding ended.
struct Bound {
    pod: PodInfo,
    attempts: u32,
    node: String,
    outcome: Outcome,
}

/// Schedules until the scope is cancelled.
pub async fn run(config: Config, env: Env, scope: Scope) {
    let (causes, mut inbox) = mpsc::channel(CAUSES);
    observe::start(&config.client, &causes, &env, &scope);
    let reporter = Reporter::start(&config.client, &config.scheduler_name, &env, &scope);
    let mut scheduler = Scheduler::new(config, reporter, env.clone());
    let mut bindings = FuturesUnordered::new();
    loop {
        let next_release = scheduler.queue.release(env.clock.now());
        let mut decisions = 0;
        while decisions < DECISIONS_PER_TURN && scheduler.may_decide(bindings.len()) {
            bindings.extend(scheduler.decide());
            decisions += 1;
        }
        scheduler.count_queue();
        let wake = next_release.unwrap_or_else(|| env.clock.now() + IDLE);
        let more = scheduler.may_decide(bindings.len());
        tokio::select! {
            () = scope.cancelled() => return,
            Some(cause) = inbox.recv() => {
                scheduler.learn(cause);
                for _ in 0..CAUSES {
                    let Ok(cause) = inbox.try_recv() else { break };
                    scheduler.learn(cause);
                }
            }
            Some(bound) = bindings.next(), if !bindings.is_empty() => scheduler.settle(bound),
            () = tokio::task::yield_now(), if more => {}
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
    /// Placed in the view ahead of the watch: key → uid. Such a placement stands until the watch shows the pod with a
    /// node, or gone, or the API has said that the binding was not carried out.
    assumed: BTreeMap<PodKey, String>,
    /// Sources that have been read to their end once.
    listed: BTreeSet<Source>,
    sequence: u64,
}

impl Scheduler {
    fn new(config: Config, reporter: Reporter, env: Env) -> Self {
        Self {
            reporter,
            config,
            env,
            view: View::default(),
            queue: Queue::default(),
            pending: BTreeMap::new(),
            assumed: BTreeMap::new(),
            listed: BTreeSet::new(),
            sequence: 0,
        }
    }

    /// Deciding on half a picture would send every pod to the first node seen.
    fn may_decide(&self, in_flight: usize) -> bool {
        self.queue.has_active()
            && in_flight < BINDINGS_IN_FLIGHT
            && self.assumed.len() < ASSUMED_LIMIT
            && self.listed.len() == Source::ALL.len()
    }

    fn wake(&mut self, rules: RuleSet) {
        self.queue.wake(rules, self.env.clock.now());
    }

    fn learn(&mut self, cause: Cause) {
        match cause {
            Cause::Node(node) => {
                let offers = self.view.node(&node.name).is_some_and(|state| state.node.offers_as(&node));
                self.view.put_node(*node);
                if !offers {
                    self.wake(RuleSet::ALL);
                }
            }
            Cause::Pod(pod) => self.learn_pod(*pod),
            Cause::Namespace(name, labels) => {
                if self.view.put_namespace(&name, labels) {
                    self.wake(RuleSet::of(&[Rule::InterPod]));
                }
            }
            Cause::Service(key, selector) => self.view.put_service(key, selector.as_ref()),
            Cause::Owner(kind, key, selector) => self.view.put_owner(kind, key, selector.as_ref()),
            Cause::Claim(key, claim) => {
                if self.view.put_claim(key, claim) {
                    self.wake(RuleSet::of(&[Rule::Volumes]));
                }
            }
            Cause::Class(name, waits) => {
                if self.view.put_class(&name, waits) {
                    self.wake(RuleSet::of(&[Rule::Volumes]));
                }
            }
            Cause::Gone(source, key) => self.forget(source, &key),
            Cause::Listed(source, keys) => {
                let listed: BTreeSet<PodKey> = keys.into_iter().collect();
                let mut known = self.view.keys(source);
                if source == Source::Pods {
                    known.extend(self.pending.keys().cloned());
                }
                for key in known.iter().filter(|key| !listed.contains(*key)) {
                    self.forget(source, key);
                }
                self.listed.insert(source);
            }
        }
    }

    fn forget(&mut self, source: Source, key: &PodKey) {
        match source {
            Source::Nodes => {
                self.view.remove_node(&key.1);
                // The emptiest domain may have gone with it.
                self.wake(RuleSet::NEIGHBOURS);
            }
            Source::Pods => self.forget_pod(key),
            Source::Namespaces => self.view.remove_namespace(&key.1),
            Source::Services => self.view.remove_service(key),
            Source::Claims => self.view.remove_claim(key),
            Source::Classes => {
                self.view.put_class(&key.1, false);
            }
            Source::Owners(kind) => self.view.remove_owner(kind, key),
        }
    }

    fn learn_pod(&mut self, pod: PodInfo) {
        let known = self.view.placed(&pod.key).or_else(|| self.pending.get(&pod.key));
        // Another pod of the same name: what the old one held is free.
        if known.is_some_and(|known| known.uid != pod.uid) {
            self.forget_pod(&pod.key);
        }
        if !pod.node_name.is_empty() {
            return self.learn_placed(pod);
        }
        let ours = pod.scheduler_name == self.config.scheduler_name && !pod.gated && !pod.finished && !pod.deleting;
        let assumed = self.assumed.contains_key(&pod.key);
        // No pod loses its node: this was told before the binding.
        if self.view.placed(&pod.key).is_some() && !assumed {
            return;
        }
        if !ours {
            self.pending.remove(&pod.key);
            self.queue.forget(&pod.key);
            return;
        }
        let (key, priority) = (pod.key.clone(), pod.priority);
        let old = self.pending.insert(key.clone(), pod);
        // Our own status patches come back as changes: they must not wake the pod.
        let changed = old.is_none_or(|old| !self.pending[&key].asks_as(&old));
        if changed && !assumed {
            self.queue.put(key, priority);
        }
    }

    fn learn_placed(&mut self, pod: PodInfo) {
        let confirmed = self.assumed.remove(&pod.key).is_some();
        self.pending.remove(&pod.key);
        self.queue.forget(&pod.key);
        let turned = match self.view.placed(&pod.key) {
            Some(_) if pod.finished => RuleSet::FREED,
            Some(old) if !confirmed => turned_by(old, &pod),
            Some(_) => RuleSet::NEIGHBOURS,
            None if pod.finished => RuleSet::default(),
            None => RuleSet::NEIGHBOURS,
        };
        self.view.put_pod(pod);
        self.wake(turned);
    }

    fn forget_pod(&mut self, key: &PodKey) {
        self.pending.remove(key);
        self.assumed.remove(key);
        self.queue.forget(key);
        self.reporter.forget(key);
        if self.view.remove_pod(key).is_some() {
            self.wake(RuleSet::FREED);
        }
    }

    /// Decides on the next queued pod; its binding is the result if it gets a node.
    fn decide(&mut self) -> Option<impl Future<Output = Bound> + use<>> {
        let (key, attempts) = self.queue.pop()?;
        let pod = self.pending.get(&key)?.clone();
        self.sequence += 1;
        let started = self.env.clock.now();
        let decision = schedule(&self.view, &pod, self.sequence);
        self.config.metrics.duration.observe((self.env.clock.now() - started).as_secs_f64());
        match decision {
            Decision::Bind { node } => Some(self.assume(pod, attempts, node)),
            Decision::Unschedulable(diagnosis) => {
                self.refuse(pod, attempts, &diagnosis);
                None
            }
        }
    }

    fn assume(&mut self, pod: PodInfo, attempts: u32, node: String) -> impl Future<Output = Bound> + use<> {
        self.assumed.insert(pod.key.clone(), pod.uid.clone());
        self.view.put_pod(PodInfo { node_name: node.clone(), ..pod.clone() });
        let (client, env) = (self.config.client.clone(), self.env.clone());
        async move {
            let outcome = bind::bind(&client, &pod, &node, &env).await;
            Bound { pod, attempts, node, outcome }
        }
    }

    fn refuse(&mut self, pod: PodInfo, attempts: u32, diagnosis: &Diagnosis) {
        self.config.metrics.attempts.with_label_values(&["unschedulable"]).inc();
        self.reporter.unschedulable(&pod, &diagnosis.to_string());
        self.queue.put_unschedulable(pod.key, pod.priority, attempts, diagnosis.rules, self.env.clock.now());
    }

    fn settle(&mut self, bound: Bound) {
        let Bound { pod, attempts, node, outcome } = bound;
        match outcome {
            Outcome::Bound => {
                self.config.metrics.attempts.with_label_values(&["scheduled"]).inc();
                self.reporter.scheduled(&pod, &node);
            }
            // The watch tells of the end of the pod.
            Outcome::Gone => {
                self.release_assumed(&pod);
            }
            Outcome::Refused(why) => {
                self.config.metrics.attempts.with_label_values(&["error"]).inc();
                tracing::info!(pod = %pod.key.1, namespace = %pod.key.0, node, why, "binding refused, trying again");
                if self.release_assumed(&pod) && self.pending.contains_key(&pod.key) {
                    self.queue.put_backoff(pod.key, pod.priority, attempts, self.env.clock.now());
                }
            }
        }
    }

    /// Takes the pod off the node it was assumed on; false if the watch has told otherwise since.
    fn release_assumed(&mut self, pod: &PodInfo) -> bool {
        if self.assumed.get(&pod.key) != Some(&pod.uid) {
            return false;
        }
        self.assumed.remove(&pod.key);
        self.view.remove_pod(&pod.key);
        self.wake(RuleSet::FREED);
        true
    }

    fn count_queue(&self) {
        let (active, backoff, unschedulable) = self.queue.lengths();
        for (queue, length) in [("active", active), ("backoff", backoff), ("unschedulable", unschedulable)] {
            self.config.metrics.pending.with_label_values(&[queue]).set(i64::try_from(length).unwrap_or(i64::MAX));
        }
    }
}

/// The rules that a standing pod's change from `old` may have turned.
fn turned_by(old: &PodInfo, new: &PodInfo) -> RuleSet {
    let mut turned = if old.labels == new.labels { RuleSet::default() } else { RuleSet::NEIGHBOURS };
    if old.requests != new.requests {
        turned.insert(Rule::Resources);
    }
    if old.deleting != new.deleting {
        turned.insert(Rule::TopologySpread);
    }
    turned
}
