//! Nodes that fall silent: their conditions become Unknown, taints say so, and their pods no longer count as ready.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use quorate_api::name::ObjectKey;
use quorate_env::Env;
use quorate_env::clock::Instant;

use crate::action::Plan;
use crate::cache::{Cache, Change};
use crate::projection::{Lease, Node, Pod, Projected, condition};
use crate::runner::{Controller, Pass, PassError};

mod plan;
#[cfg(test)]
mod tests;
mod zones;

pub use plan::plan;
use zones::{Eviction, Zones};

/// Where nodes keep their heartbeats.
const LEASES: &str = "kube-node-lease";
/// A node that has never reported gets longer than one that has.
const STARTUP_GRACE: Duration = Duration::from_secs(60);
/// How often a node's pods are looked at while it is not ready.
const NOT_READY_PERIOD: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct Observed {
    pub node: Arc<Node>,
    /// The node's pods.
    pub pods: Vec<Arc<Pod>>,
    /// How long its grace lasts yet; `None` once it is over.
    pub grace_left: Option<Duration>,
    /// Its pods may be evicted, if it is not ready.
    pub evict: bool,
    /// When that may be so, if it is a matter of time.
    pub evict_after: Option<Duration>,
}

/// A node's last sign of life. Only that it changed counts, not the time in it: clocks differ.
#[derive(Clone, Debug, PartialEq)]
struct Pulse {
    renewed: Option<Timestamp>,
    heartbeat: Option<Timestamp>,
    reported: Option<String>,
}

#[derive(Debug)]
struct Health {
    pulse: Pulse,
    since: Instant,
}

/// Keys are nodes.
#[derive(Debug)]
pub struct NodeLifecycle {
    grace: Duration,
    env: Env,
    health: Mutex<BTreeMap<String, Health>>,
    zones: Mutex<Zones>,
}

impl Controller for NodeLifecycle {
    fn name(&self) -> &'static str {
        "node_lifecycle_controller"
    }

    fn account(&self) -> &'static str {
        "node-controller"
    }

    fn wakes(&self, cache: &Cache, change: &Change) -> Vec<ObjectKey> {
        match change {
            // One node's readiness may begin or end the state in which all are silent.
            Change::Node(delta) => {
                let ready = |node: &Option<Arc<Node>>| node.as_deref().map(is_ready);
                if ready(&delta.old) == ready(&delta.new) {
                    return vec![delta.key.clone()];
                }
                cache.nodes.all().iter().map(|node| node.key()).chain([delta.key.clone()]).collect()
            }
            Change::Lease(delta) => vec![ObjectKey::cluster(&delta.key.name)],
            _ => Vec::new(),
        }
    }

    fn pass(&self, pass: Pass, key: ObjectKey) -> BoxFuture<'_, Result<Plan, PassError>> {
        Box::pin(async move {
            let Some(node) = pass.cache.nodes.get(&key) else {
                lock(&self.health).remove(&key.name);
                lock(&self.zones).settle(&key.name);
                return Ok(Plan::nothing());
            };
            let lease = pass.cache.leases.find(LEASES, &key.name);
            let grace_left = self.grace_left(&node, lease.as_deref());
            let troubled = grace_left.is_none() || !is_ready(&node);
            let all = if troubled { pass.cache.pods.all() } else { Vec::new() };
            let pods = all.into_iter().filter(|pod| pod.spec.node_name == key.name).collect();
            let eviction = self.eviction(&node, &pass.cache);
            let evict_after = if let Eviction::After(left) = eviction { Some(left) } else { None };
            let evict = eviction == Eviction::Allowed;
            Ok(plan(&Observed { node, pods, grace_left, evict, evict_after }, pass.now))
        })
    }
}

fn is_ready(node: &Node) -> bool {
    condition(&node.status.conditions, "Ready").is_some_and(|ready| ready.status == "True")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NodeLifecycle {
    pub fn new(grace: Duration, env: Env) -> Self {
        Self { grace, env, health: Mutex::default(), zones: Mutex::default() }
    }

    fn eviction(&self, node: &Node, cache: &Cache) -> Eviction {
        let mut zones = lock(&self.zones);
        if is_ready(node) {
            zones.settle(node.name());
            return Eviction::Held;
        }
        let all = cache.nodes.all();
        // With every node silent the trouble is more likely ours than theirs.
        if !all.iter().any(|node| is_ready(node)) {
            return Eviction::Held;
        }
        if plan::is_given_up(node) {
            zones.settle(node.name());
            return Eviction::Allowed;
        }
        zones.eviction(node, &all, self.env.clock.now())
    }

    fn grace_left(&self, node: &Node, lease: Option<&Lease>) -> Option<Duration> {
        let ready = condition(&node.status.conditions, "Ready");
        // What we wrote ourselves is no sign of life.
        let own = ready.is_some_and(|ready| ready.reason.starts_with("NodeStatus"));
        let pulse = Pulse {
            renewed: lease.and_then(|lease| lease.spec.renew_time.as_ref()).map(|time| time.0),
            heartbeat: ready.and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0),
            reported: ready.filter(|_| !own).map(|ready| ready.status.clone()),
        };
        let now = self.env.clock.now();
        let mut all = lock(&self.health);
        let health = all.entry(node.name().to_owned()).or_insert_with(|| Health { pulse: pulse.clone(), since: now });
        let revived = pulse.reported.is_some() && health.pulse.reported != pulse.reported;
        if health.pulse.renewed != pulse.renewed || health.pulse.heartbeat != pulse.heartbeat || revived {
            health.since = now;
        }
        health.pulse = pulse;
        let grace = if ready.is_none() { self.grace.max(STARTUP_GRACE) } else { self.grace };
        let left = (health.since + grace).saturating_duration_since(now);
        Some(left).filter(|left| !left.is_zero())
    }
}
