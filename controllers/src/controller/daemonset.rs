//! DaemonSets: one pod on every node that the template chooses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use quorate_api::name::ObjectKey;
use quorate_api::selector::LabelSelector;
use quorate_env::Env;
use serde_json::{Value, json};

use super::revisions::{self, Begun, HASH_LABEL};
use super::{look_when_available, nodefit, reference};
use crate::action::{Action, Note, Plan, Target};
use crate::cache::{Cache, Change};
use crate::projection::{ControllerRevision, DaemonSet, DaemonSetStatus, Node, Pod, Projected};
use crate::resource::Kind;
use crate::runner::{Controller, Pass, PassError};

mod failures;
mod place;
mod roll;
#[cfg(test)]
mod tests;

use failures::Failures;

/// Pods that one pass creates or deletes at most.
const BURST: usize = 250;

#[derive(Clone, Debug)]
pub struct Observed {
    pub set: Arc<DaemonSet>,
    pub nodes: Vec<Arc<Node>>,
    pub pods: Vec<Arc<Pod>>,
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// Nodes whose failed pod is not replaced yet, and how long it takes.
    pub waits: BTreeMap<String, Duration>,
}

/// What one node has and may have.
#[derive(Clone, Debug, Default)]
struct Seat {
    node: String,
    /// A pod belongs here.
    wanted: bool,
    /// A pod that is here may stay.
    tolerated: bool,
    pods: Vec<Arc<Pod>>,
}

/// Keys are daemon sets.
#[derive(Debug)]
pub struct DaemonSets {
    env: Env,
    failures: Mutex<Failures>,
}

pub fn controller(env: &Env) -> DaemonSets {
    DaemonSets { env: env.clone(), failures: Mutex::default() }
}

impl Controller for DaemonSets {
    fn name(&self) -> &'static str {
        "daemonset"
    }

    fn account(&self) -> &'static str {
        "daemon-set-controller"
    }

    fn component(&self) -> &'static str {
        "daemonset-controller"
    }

    fn wakes(&self, cache: &Cache, change: &Change) -> Vec<ObjectKey> {
        wakes(cache, change)
    }

    fn pass(&self, pass: Pass, key: ObjectKey) -> BoxFuture<'_, Result<Plan, PassError>> {
        Box::pin(async move {
            let Some(mut observed) = observe(&pass, &key) else { return Ok(Plan::nothing()) };
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            observed.waits = failures.waits(&observed.set, &observed.pods, self.env.clock.now());
            Ok(plan(&observed, pass.now))
        })
    }
}

fn wakes(cache: &Cache, change: &Change) -> Vec<ObjectKey> {
    match change {
        Change::DaemonSet(delta) => vec![delta.key.clone()],
        Change::Node(delta) => {
            let judged =
                |node: &Option<Arc<Node>>| node.as_ref().map(|node| (node.labels().clone(), node.spec.taints.clone()));
            if judged(&delta.old) == judged(&delta.new) {
                return Vec::new();
            }
            cache.daemon_sets.all().iter().map(|set| set.key()).collect()
        }
        Change::Pod(delta) => super::owners_of(delta, Kind::DaemonSet, |pod| {
            let sets = cache.daemon_sets.select(pod.namespace(), |set| selector(set).matches(pod.labels()));
            sets.iter().map(|set| set.key()).collect()
        }),
        Change::ControllerRevision(delta) => super::owners_of(delta, Kind::DaemonSet, |_| Vec::new()),
        _ => Vec::new(),
    }
}

fn selector(set: &DaemonSet) -> LabelSelector {
    super::selector_of(&set.spec.selector)
}

fn observe(pass: &Pass, key: &ObjectKey) -> Option<Observed> {
    let set = pass.cache.daemon_sets.get(key)?;
    let selector = selector(&set);
    let pods = pass.cache.pods.select(set.namespace(), |pod| {
        pod.is_controlled_by(set.uid()) || (pod.controller().is_none() && selector.matches(pod.labels()))
    });
    let revisions = pass.cache.revisions.select(set.namespace(), |_| true);
    Some(Observed { nodes: pass.cache.nodes.all(), pods, revisions, set, waits: BTreeMap::new() })
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let set = observed.set.as_ref();
    let selector = selector(set);
    if selector.is_everything() {
        return Plan::of(vec![Action::Note(Note {
            about: reference(Kind::DaemonSet, set),
            warning: true,
            reason: "SelectingAll",
            action: "SelectingAll",
            text: "This daemon set is selecting all pods. A non-empty selector is required.".to_owned(),
        })]);
    }
    let carries = |revision: &ControllerRevision| {
        let hash = revisions::hash_of(revision);
        observed.pods.iter().any(|pod| pod.labels().get(HASH_LABEL).is_some_and(|own| own == hash))
    };
    let owner = revisions::Owner {
        kind: Kind::DaemonSet,
        object: set,
        template: &set.spec.template,
        collisions: set.status.collision_count,
        limit: set.spec.revision_history_limit,
    };
    let begun = revisions::begin(&owner, &selector, &observed.pods, &observed.revisions, carries);
    let Begun { mut plan, pods, history } = match begun {
        Ok(begun) => begun,
        Err(plan) => return plan,
    };
    let seats = seats(observed, &pods);
    if !set.is_deleting() {
        plan.actions.extend(place::steps(observed, &seats, &history.hash, now));
    }
    let status = status(set, &seats, &history.hash, now);
    if status != set.status {
        let target = Target::namespaced(Kind::DaemonSet.resource(), set.namespace(), set.name());
        plan.actions.push(Action::merge_status(target, patch(set, &status)));
    }
    look_when_available(&mut plan, &pods, set.spec.min_ready_seconds, now);
    if let Some(left) = observed.waits.values().min() {
        plan.look_again_in(*left);
    }
    plan
}

fn seats(observed: &Observed, pods: &[Arc<Pod>]) -> Vec<Seat> {
    let tolerations = place::tolerations(&observed.set.spec.template);
    let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        by_node.entry(place::node_of(pod)).or_default().push(Arc::clone(pod));
    }
    let mut seats: Vec<Seat> = observed
        .nodes
        .iter()
        .map(|node| {
            let chosen = nodefit::chooses(&observed.set.spec.template["spec"], node);
            Seat {
                node: node.name().to_owned(),
                wanted: chosen && !nodefit::repels(&tolerations, node, &["NoSchedule", "NoExecute"]),
                tolerated: chosen && !nodefit::repels(&tolerations, node, &["NoExecute"]),
                pods: by_node.remove(node.name()).unwrap_or_default(),
            }
        })
        .collect();
    // What stands on a node that is no more is for the pod collector; what waits for one goes.
    let homeless = by_node.into_iter().map(|(node, pods)| Seat { node, pods, ..Seat::default() });
    seats.extend(homeless);
    seats
}

fn status(set: &DaemonSet, seats: &[Seat], hash: &str, now: Timestamp) -> DaemonSetStatus {
    let mut status = DaemonSetStatus {
        observed_generation: set.generation(),
        collision_count: set.status.collision_count,
        ..DaemonSetStatus::default()
    };
    for seat in seats {
        if !seat.wanted {
            status.number_misscheduled += i32::from(!seat.pods.is_empty());
            continue;
        }
        status.desired_number_scheduled += 1;
        // The oldest stands for the node.
        let Some(pod) = seat.pods.iter().min_by_key(|pod| (pod.created(), pod.name().to_owned())) else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pod.is_ready());
        let available = pod.availability(set.spec.min_ready_seconds, now).is_ok();
        status.number_available += i32::from(available);
        status.updated_number_scheduled += i32::from(place::is_current(pod, hash));
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    status
}

fn patch(set: &DaemonSet, status: &DaemonSetStatus) -> Value {
    json!({"metadata": {"uid": set.uid()}, "status": {
        "currentNumberScheduled": status.current_number_scheduled,
        "numberMisscheduled": status.number_misscheduled,
        "desiredNumberScheduled": status.desired_number_scheduled,
        "numberReady": status.number_ready,
        "observedGeneration": status.observed_generation,
        "updatedNumberScheduled": status.updated_number_scheduled,
        "numberAvailable": status.number_available,
        "numberUnavailable": status.number_unavailable,
    }})
}
