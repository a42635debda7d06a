//! ReplicaSets and ReplicationControllers: as many pods of one template as asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::object::StringMap;
use quorate_api::selector::LabelSelector;
use serde_json::{Map, Value, json};

use super::claim::claim;
use super::{controller_reference, owners_of, reference};
use crate::action::{Action, Announce, Create, Delete, Plan, Target};
use crate::cache::{Cache, Change};
use crate::projection::{Pod, Projected, ReplicaSet, ReplicaStatus, ReplicationController};
use crate::resource::Kind;
use crate::runner::{Pass, PodFailure, Pure};

mod rank;
mod status;
#[cfg(test)]
mod tests;

/// Pods that one pass creates or deletes at most; the next pass goes on.
pub const BURST: usize = 500;

/// Both kinds, in the one form their common plan reads.
#[derive(Clone, Debug)]
pub struct Replicated {
    pub kind: Kind,
    pub metadata: ObjectMeta,
    pub replicas: i32,
    pub min_ready_seconds: i32,
    pub selector: LabelSelector,
    pub template: Value,
    pub status: ReplicaStatus,
}

#[derive(Clone, Debug)]
pub struct Observed {
    pub owner: Replicated,
    /// Pods of the namespace that the owner manages or might.
    pub pods: Vec<Arc<Pod>>,
    /// Active pods per node over all owners that share this one's manager.
    pub neighbours: BTreeMap<String, usize>,
    pub last_failure: Option<PodFailure>,
}

impl Projected for Replicated {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

pub fn replica_set_controller() -> Pure {
    Pure {
        name: "replicaset",
        account: "replicaset-controller",
        component: "replicaset-controller",
        wakes: |cache, change| match change {
            Change::ReplicaSet(delta) => vec![delta.key.clone()],
            Change::Pod(delta) => owners_of(delta, Kind::ReplicaSet, |pod| {
                let sets = cache.replica_sets.select(pod.namespace(), |set| from_replica_set(set).would_own(pod));
                sets.iter().map(|set| set.key()).collect()
            }),
            _ => Vec::new(),
        },
        plan: |pass, key| {
            let Some(set) = pass.cache.replica_sets.get(key) else { return Plan::nothing() };
            plan(&observe(pass, from_replica_set(&set)), pass.now)
        },
    }
}

pub fn replication_controller() -> Pure {
    Pure {
        name: "replicationmanager",
        account: "replication-controller",
        component: "replication-controller",
        wakes: |cache, change| match change {
            Change::ReplicationController(delta) => vec![delta.key.clone()],
            Change::Pod(delta) => owners_of(delta, Kind::ReplicationController, |pod| {
                let owners =
                    cache.replication_controllers.select(pod.namespace(), |own| from_controller(own).would_own(pod));
                owners.iter().map(|own| own.key()).collect()
            }),
            _ => Vec::new(),
        },
        plan: |pass, key| {
            let Some(own) = pass.cache.replication_controllers.get(key) else { return Plan::nothing() };
            plan(&observe(pass, from_controller(&own)), pass.now)
        },
    }
}

fn from_replica_set(set: &ReplicaSet) -> Replicated {
    Replicated {
        kind: Kind::ReplicaSet,
        metadata: set.metadata.clone(),
        replicas: set.replicas(),
        min_ready_seconds: set.spec.min_ready_seconds,
        selector: super::selector_of(&set.spec.selector),
        template: set.spec.template.clone(),
        status: set.status.clone(),
    }
}

fn from_controller(own: &ReplicationController) -> Replicated {
    let selector: Map<String, Value> =
        own.spec.selector.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    Replicated {
        kind: Kind::ReplicationController,
        metadata: own.metadata.clone(),
        replicas: own.spec.replicas.unwrap_or(1),
        min_ready_seconds: own.spec.min_ready_seconds,
        selector: if selector.is_empty() {
            LabelSelector::nothing()
        } else {
            LabelSelector::from_map(StringMap::of(&selector))
        },
        template: own.spec.template.clone(),
        status: own.status.clone(),
    }
}

fn observe(pass: &Pass, owner: Replicated) -> Observed {
    let pods = pass.cache.pods.select(owner.namespace(), |pod| {
        pod.is_controlled_by(owner.uid()) || (pod.controller().is_none() && owner.would_own(pod))
    });
    // Only who goes first depends on them.
    let scales_down = pods.len() > usize::try_from(owner.replicas).unwrap_or(0);
    let neighbours = if scales_down { neighbours(&pass.cache, &owner) } else { BTreeMap::new() };
    Observed { owner, pods, neighbours, last_failure: pass.last_failure.clone() }
}

/// Pods of all sets of one Deployment count: scaling one down should thin out the crowded nodes.
fn neighbours(cache: &Cache, owner: &Replicated) -> BTreeMap<String, usize> {
    let manager = owner.controller().map(|manager| manager.uid.as_str());
    let related: Vec<String> = match manager {
        Some(uid) => {
            let sets = cache.replica_sets.select(owner.namespace(), |set| set.is_controlled_by(uid));
            sets.iter().map(|set| set.uid().to_owned()).collect()
        }
        None => vec![owner.uid().to_owned()],
    };
    let mut counts = BTreeMap::new();
    let mine = |pod: &Pod| pod.controller().is_some_and(|own| related.contains(&own.uid));
    for pod in cache.pods.select(owner.namespace(), |pod| pod.is_active() && mine(pod)) {
        *counts.entry(pod.spec.node_name.clone()).or_default() += 1;
    }
    counts
}

impl Replicated {
    fn would_own(&self, pod: &Pod) -> bool {
        pod.is_active() && self.selector.matches(pod.labels())
    }

    fn target(&self) -> Target {
        Target::namespaced(self.kind.resource(), self.namespace(), self.name())
    }
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let owner = &observed.owner;
    let active: Vec<Arc<Pod>> = observed.pods.iter().filter(|pod| pod.is_active()).cloned().collect();
    let claim = claim((owner.kind, owner), &owner.selector, Kind::Pod, &active);
    let mut plan = Plan::of(claim.actions);
    if !owner.is_deleting() {
        plan.actions.extend(manage(observed, &claim.owned, now));
    }
    let terminating = observed.pods.iter().filter(|pod| pod.is_deleting() && !pod.is_finished()).count();
    let status = status::status(observed, &claim.owned, terminating, now);
    if status != owner.status {
        plan.actions.push(Action::merge_status(owner.target(), status::patch(owner, &status)));
    }
    super::look_when_available(&mut plan, &claim.owned, owner.min_ready_seconds, now);
    plan
}

fn manage(observed: &Observed, pods: &[Arc<Pod>], now: Timestamp) -> Option<Action> {
    let owner = &observed.owner;
    let wanted = usize::try_from(owner.replicas).unwrap_or(0);
    let announce = Announce { about: reference(owner.kind, owner) };
    if pods.len() < wanted {
        let missing = (wanted - pods.len()).min(BURST);
        return Some(Action::CreatePods { pods: vec![pod_from_template(owner); missing], announce });
    }
    if pods.len() == wanted {
        return None;
    }
    let surplus = (pods.len() - wanted).min(BURST);
    let victims = rank::first_to_go(pods, &observed.neighbours, now).into_iter().take(surplus);
    let delete = |pod: Arc<Pod>| {
        let target = Target::namespaced(Kind::Pod.resource(), owner.namespace(), pod.name());
        Delete::of(target, Some(pod.uid().to_owned()))
    };
    Some(Action::DeletePods { pods: victims.map(delete).collect(), announce })
}

/// A pod as its owner's template describes it, managed by the owner and named after it.
pub fn pod_from_template(owner: &Replicated) -> Create {
    let meta = |field: &str| owner.template.pointer(&format!("/metadata/{field}")).cloned();
    let mut metadata = Map::new();
    for field in ["annotations", "finalizers", "labels"] {
        if let Some(value) = meta(field) {
            metadata.insert(field.to_owned(), value);
        }
    }
    metadata.insert("generateName".to_owned(), json!(format!("{}-", owner.name())));
    metadata.insert("ownerReferences".to_owned(), json!([controller_reference(owner.kind, owner)]));
    let body = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": owner.template.get("spec").cloned().unwrap_or_default(),
    });
    Create { resource: Kind::Pod.resource(), namespace: Some(owner.namespace().to_owned()), body }
}
