//! The one loop behind all controllers: changes wake keys, keys wait in a queue, passes run side by side.
//!
//! A pass waits until the cache shows what the last pass of the same key wrote, so that a plan never acts on a
//! picture older than its own deeds: that is what keeps a ReplicaSet from creating a pod twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use quorate_api::name::ObjectKey;
use quorate_env::{Env, Scope};
use tokio::sync::Notify;

use crate::action::Plan;
use crate::cache::{Cache, Change, Pending};
use crate::execute::{Executor, Failure, Unsettled};
use crate::metrics::Metrics;
use crate::queue::Queue;

/// Passes of one controller at once.
pub const PASSES_IN_FLIGHT: usize = 16;
/// How long a pass waits for the cache to show earlier writes before its key makes room for others.
const SHOWN_LIMIT: Duration = Duration::from_secs(10);
/// How often the queue is looked at when nothing happens.
const IDLE: Duration = Duration::from_secs(60);

/// What went wrong with the pods in the last pass: the status says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFailure {
    pub reason: &'static str,
    pub message: String,
}

/// What a pass is given beside its key.
#[derive(Clone, Debug)]
pub struct Pass {
    pub cache: Arc<Cache>,
    pub now: Timestamp,
    pub last_failure: Option<PodFailure>,
}

/// A pass that could not come to a plan.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PassError(pub String);

impl From<kube::Error> for PassError {
    fn from(error: kube::Error) -> Self {
        Self(error.to_string())
    }
}

/// A module that keeps one aspect of the cluster as its objects ask for.
pub trait Controller: Send + Sync {
    /// As metrics and logs name it.
    fn name(&self) -> &'static str;
    /// The service account in `kube-system` it acts as.
    fn account(&self) -> &'static str;
    /// As events name it.
    fn component(&self) -> &'static str {
        self.account()
    }
    /// The keys that a change concerns.
    fn wakes(&self, cache: &Cache, change: &Change) -> Vec<ObjectKey>;
    /// Decide what to do about one key.
    fn pass(&self, pass: Pass, key: ObjectKey) -> BoxFuture<'_, Result<Plan, PassError>>;
}

/// A controller that decides by the cache alone.
#[derive(Debug)]
pub struct Pure {
    pub name: &'static str,
    pub account: &'static str,
    pub component: &'static str,
    pub wakes: fn(&Cache, &Change) -> Vec<ObjectKey>,
    pub plan: fn(&Pass, &ObjectKey) -> Plan,
}

impl Controller for Pure {
    fn name(&self) -> &'static str {
        self.name
    }

    fn account(&self) -> &'static str {
        self.account
    }

    fn component(&self) -> &'static str {
        self.component
    }

    fn wakes(&self, cache: &Cache, change: &Change) -> Vec<ObjectKey> {
        (self.wakes)(cache, change)
    }

    fn pass(&self, pass: Pass, key: ObjectKey) -> BoxFuture<'_, Result<Plan, PassError>> {
        Box::pin(async move { Ok((self.plan)(&pass, &key)) })
    }
}

/// One controller with its queue.
pub struct Station {
    controller: Box<dyn Controller>,
    executor: Executor,
    queue: Mutex<Queue>,
    added: Notify,
    memory: Mutex<BTreeMap<ObjectKey, Memory>>,
    metrics: Metrics,
    env: Env,
}

/// What the last pass of a key left behind.
#[derive(Debug, Default)]
struct Memory {
    pending: Vec<Pending>,
    unsettled: Vec<Unsettled>,
    failure: Option<PodFailure>,
}

impl Memory {
    fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.unsettled.is_empty() && self.failure.is_none()
    }
}

impl std::fmt::Debug for Station {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Station").field("controller", &self.controller.name()).finish_non_exhaustive()
    }
}

/// How a pass ended.
enum Ended {
    Well { look_again: Option<Duration> },
    Badly(String),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Station {
    pub fn new(controller: Box<dyn Controller>, executor: Executor, metrics: Metrics, env: Env) -> Self {
        Self {
            controller,
            executor,
            queue: Mutex::default(),
            added: Notify::new(),
            memory: Mutex::default(),
            metrics,
            env,
        }
    }

    /// Wakes the keys that a change concerns.
    pub fn hear(&self, cache: &Cache, change: &Change) {
        self.add(self.controller.wakes(cache, change));
    }

    pub fn add(&self, keys: Vec<ObjectKey>) {
        if keys.is_empty() {
            return;
        }
        let now = self.env.clock.now();
        let mut queue = lock(&self.queue);
        for key in keys {
            if queue.add(key, now) {
                self.metrics.adds.with_label_values(&[self.controller.name()]).inc();
            }
        }
        self.measure(&queue);
        drop(queue);
        self.added.notify_one();
    }

    fn measure(&self, queue: &Queue) {
        let depth = i64::try_from(queue.len()).unwrap_or(i64::MAX);
        self.metrics.depth.with_label_values(&[self.controller.name()]).set(depth);
    }

    /// Works until the scope is cancelled; starts once the cache is complete.
    pub async fn work(self: Arc<Self>, cache: Arc<Cache>, scope: Scope) {
        tokio::select! {
            () = scope.cancelled() => return,
            () = cache.listed() => {}
        }
        let mut passes = FuturesUnordered::new();
        loop {
            let next_due = lock(&self.queue).release(self.env.clock.now());
            while passes.len() < PASSES_IN_FLIGHT {
                let Some(key) = self.next_key() else { break };
                passes.push(self.pass(key, Arc::clone(&cache)));
            }
            let wake = next_due.unwrap_or_else(|| self.env.clock.now() + IDLE);
            tokio::select! {
                () = scope.cancelled() => return,
                Some((key, ended)) = passes.next(), if !passes.is_empty() => self.settle(&key, ended),
                () = self.added.notified() => {}
                () = self.env.clock.sleep_until(wake) => {}
            }
        }
    }

    fn next_key(&self) -> Option<ObjectKey> {
        let mut queue = lock(&self.queue);
        let (key, waited) = queue.pop(self.env.clock.now())?;
        self.metrics.queue_duration.with_label_values(&[self.controller.name()]).observe(waited.as_secs_f64());
        self.measure(&queue);
        Some(key)
    }

    async fn pass(&self, key: ObjectKey, cache: Arc<Cache>) -> (ObjectKey, Ended) {
        let mut memory = lock(&self.memory).remove(&key).unwrap_or_default();
        if let Err(why) = self.catch_up(&key, &cache, &mut memory).await {
            self.remember(&key, memory);
            return (key, Ended::Badly(why));
        }
        let started = self.env.clock.now();
        let pass = Pass { cache, now: self.env.clock.wall(), last_failure: memory.failure.clone() };
        let ended = match self.controller.pass(pass, key.clone()).await {
            Ok(plan) => self.execute(&key, plan).await,
            Err(error) => {
                self.remember(&key, memory);
                Ended::Badly(error.to_string())
            }
        };
        let took = (self.env.clock.now() - started).as_secs_f64();
        self.metrics.work_duration.with_label_values(&[self.controller.name()]).observe(took);
        (key, ended)
    }

    /// Waits until every write of the last pass is settled and shown; otherwise the pass has to wait.
    async fn catch_up(&self, key: &ObjectKey, cache: &Cache, memory: &mut Memory) -> Result<(), String> {
        for unsettled in std::mem::take(&mut memory.unsettled) {
            match self.executor.settle(unsettled).await {
                Ok(pending) => memory.pending.extend(pending),
                Err(unsettled) => memory.unsettled.push(*unsettled),
            }
        }
        if !memory.unsettled.is_empty() {
            return Err(format!("the fate of {} creations is unknown", memory.unsettled.len()));
        }
        let all_shown = async {
            for write in &memory.pending {
                cache.shown(write).await;
            }
        };
        if self.env.clock.timeout(SHOWN_LIMIT, all_shown).await.is_err() {
            for write in std::mem::take(&mut memory.pending) {
                // An object that came and went while its watch was interrupted is never shown.
                let done = cache.shows(&write) || (cache.lacks(&write) && self.executor.has_gone(&write).await);
                if !done {
                    memory.pending.push(write);
                }
            }
        } else {
            memory.pending.clear();
        }
        let Some(write) = memory.pending.first() else { return Ok(()) };
        tracing::warn!(controller = self.controller.name(), %key, ?write, "the watch does not show a write yet");
        Err(format!("the watch does not show {} writes yet", memory.pending.len()))
    }

    fn remember(&self, key: &ObjectKey, memory: Memory) {
        if !memory.is_empty() {
            lock(&self.memory).insert(key.clone(), memory);
        }
    }

    async fn execute(&self, key: &ObjectKey, plan: Plan) -> Ended {
        let look_again = plan.look_again;
        let report = self.executor.carry_out(plan.actions).await;
        let (failure, ended) = match report.failure {
            None => (None, Ended::Well { look_again }),
            Some(Failure::Moot(why)) => {
                tracing::debug!(controller = self.controller.name(), %key, why, "moot");
                (None, Ended::Well { look_again })
            }
            Some(Failure::Pods { reason, message }) => {
                (Some(PodFailure { reason, message: message.clone() }), Ended::Badly(message))
            }
            Some(other @ (Failure::Conflict(_) | Failure::Refused(_) | Failure::Busy(_) | Failure::FateUnknown(_))) => {
                (None, Ended::Badly(other.to_string()))
            }
        };
        self.remember(key, Memory { pending: report.pending, unsettled: report.unsettled, failure });
        ended
    }

    fn settle(&self, key: &ObjectKey, ended: Ended) {
        let now = self.env.clock.now();
        let mut queue = lock(&self.queue);
        match ended {
            Ended::Well { look_again } => {
                queue.done(key, now);
                if let Some(delay) = look_again {
                    queue.add_at(key.clone(), now + delay);
                }
            }
            Ended::Badly(why) => {
                let delay = queue.failed(key, now);
                self.metrics.retries.with_label_values(&[self.controller.name()]).inc();
                tracing::debug!(controller = self.controller.name(), %key, why, ?delay, "will try again");
            }
        }
        self.measure(&queue);
    }
}
