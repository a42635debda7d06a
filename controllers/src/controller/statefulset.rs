//! StatefulSets: pods with numbers, names and volumes that outlive them, made and replaced in order.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use quorate_api::name::ObjectKey;
use quorate_api::selector::LabelSelector;
use serde_json::{Value, json};

use super::revisions::{self, Begun, HASH_LABEL};
use super::{look_when_available, owners_of};
use crate::action::{Action, Plan, Target};
use crate::cache::{Cache, Change};
use crate::projection::{ControllerRevision, Pod, Projected, StatefulSet, StatefulSetStatus};
use crate::resource::Kind;
use crate::runner::{Pass, Pure};

mod identity;
mod order;
#[cfg(test)]
mod tests;

#[derive(Clone, Debug)]
pub struct Observed {
    pub set: Arc<StatefulSet>,
    pub pods: Vec<Arc<Pod>>,
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// Names of the volume claims of the namespace.
    pub claims: BTreeSet<String>,
}

/// A template with the name of its revision.
#[derive(Clone, Debug)]
struct Version {
    name: String,
    template: Value,
}

/// The set with its pods in their places.
#[derive(Debug)]
struct Row<'a> {
    set: &'a StatefulSet,
    claims: &'a BTreeSet<String>,
    current: Version,
    update: Version,
    /// By number, from the first one on.
    seats: Vec<Option<Arc<Pod>>>,
    /// Pods of numbers that are no longer wanted, the highest first.
    condemned: Vec<Arc<Pod>>,
    now: Timestamp,
}

pub fn controller() -> Pure {
    Pure {
        name: "statefulset",
        account: "statefulset-controller",
        component: "statefulset-controller",
        wakes,
        plan: |pass, key| observe(pass, key).map_or_else(Plan::nothing, |observed| plan(&observed, pass.now)),
    }
}

fn wakes(cache: &Cache, change: &Change) -> Vec<ObjectKey> {
    match change {
        Change::StatefulSet(delta) => vec![delta.key.clone()],
        Change::Pod(delta) => owners_of(delta, Kind::StatefulSet, |pod| {
            let sets = cache.stateful_sets.select(pod.namespace(), |set| selector(set).matches(pod.labels()));
            sets.iter().map(|set| set.key()).collect()
        }),
        Change::ControllerRevision(delta) => owners_of(delta, Kind::StatefulSet, |_| Vec::new()),
        _ => Vec::new(),
    }
}

fn selector(set: &StatefulSet) -> LabelSelector {
    super::selector_of(&set.spec.selector)
}

fn observe(pass: &Pass, key: &ObjectKey) -> Option<Observed> {
    let set = pass.cache.stateful_sets.get(key)?;
    let selector = selector(&set);
    let pods = pass.cache.pods.select(set.namespace(), |pod| {
        let might = pod.controller().is_none() && selector.matches(pod.labels());
        identity::ordinal(&set, pod).is_some() && (pod.is_controlled_by(set.uid()) || might)
    });
    let revisions = pass.cache.revisions.select(set.namespace(), |_| true);
    let claims = pass.cache.claims.select(set.namespace(), |_| true);
    let claims = claims.iter().map(|own| own.name().to_owned()).collect();
    Some(Observed { set, pods, revisions, claims })
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let set = observed.set.as_ref();
    let in_use = |revision: &ControllerRevision| {
        let name = revision.name();
        let carried = |pod: &Arc<Pod>| pod.labels().get(HASH_LABEL).is_some_and(|own| own == name);
        name == set.status.current_revision || observed.pods.iter().any(carried)
    };
    let owner = revisions::Owner {
        kind: Kind::StatefulSet,
        object: set,
        template: &set.spec.template,
        collisions: set.status.collision_count,
        limit: set.spec.revision_history_limit,
    };
    let begun = revisions::begin(&owner, &selector(set), &observed.pods, &observed.revisions, in_use);
    let Begun { mut plan, pods, history } = match begun {
        Ok(begun) => begun,
        Err(plan) => return plan,
    };
    let row = Row::new(observed, history.name, pods, now);
    if !set.is_deleting() {
        plan.actions.extend(order::steps(&row));
    }
    let status = status(&row);
    if status != set.status {
        let target = Target::namespaced(Kind::StatefulSet.resource(), set.namespace(), set.name());
        plan.actions.push(Action::merge_status(target, patch(set, &status)));
    }
    look_when_available(&mut plan, row.seats.iter().flatten(), set.spec.min_ready_seconds, now);
    plan
}

impl<'a> Row<'a> {
    fn new(observed: &'a Observed, update: String, pods: Vec<Arc<Pod>>, now: Timestamp) -> Self {
        let set = observed.set.as_ref();
        let update = Version { name: update, template: set.spec.template.clone() };
        let stored = observed.revisions.iter().find(|revision| revision.name() == set.status.current_revision);
        let current = stored.map_or_else(
            || update.clone(),
            |revision| Version { name: revision.name().to_owned(), template: revisions::template_of(revision) },
        );
        let first = set.first_ordinal();
        let mut seats = vec![None; usize::try_from(set.replicas()).unwrap_or(0)];
        let mut condemned = Vec::new();
        for pod in pods {
            let number = identity::ordinal(set, &pod).unwrap_or(-1);
            match usize::try_from(number - first).ok().and_then(|index| seats.get_mut(index)) {
                Some(seat) => *seat = Some(pod),
                None => condemned.push(pod),
            }
        }
        condemned.sort_by_key(|pod| std::cmp::Reverse(identity::ordinal(set, pod)));
        Self { set, claims: &observed.claims, current, update, seats, condemned, now }
    }

    fn is_healthy(pod: &Pod) -> bool {
        pod.status.phase == "Running" && pod.is_ready() && !pod.is_deleting()
    }

    fn is_available(&self, pod: &Pod) -> bool {
        Self::is_healthy(pod) && pod.availability(self.set.spec.min_ready_seconds, self.now).is_ok()
    }
}

fn revision_of(pod: &Pod) -> &str {
    pod.labels().get(HASH_LABEL).map_or("", String::as_str)
}

fn status(row: &Row<'_>) -> StatefulSetStatus {
    let pods: Vec<&Arc<Pod>> = row.seats.iter().flatten().chain(&row.condemned).collect();
    let count = |wanted: &dyn Fn(&Pod) -> bool| {
        i32::try_from(pods.iter().filter(|pod| wanted(pod)).count()).unwrap_or(i32::MAX)
    };
    let mut status = StatefulSetStatus {
        observed_generation: row.set.generation(),
        replicas: count(&|_| true),
        ready_replicas: count(&|pod| Row::is_healthy(pod)),
        available_replicas: count(&|pod| row.is_available(pod)),
        current_replicas: count(&|pod| !pod.is_deleting() && revision_of(pod) == row.current.name),
        updated_replicas: count(&|pod| !pod.is_deleting() && revision_of(pod) == row.update.name),
        current_revision: row.current.name.clone(),
        update_revision: row.update.name.clone(),
        collision_count: row.set.status.collision_count,
        conditions: row.set.status.conditions.clone(),
    };
    let rolls = row.set.spec.update_strategy.kind != "OnDelete";
    if rolls && status.updated_replicas == status.replicas && status.ready_replicas == status.replicas {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
    status
}

fn patch(set: &StatefulSet, status: &StatefulSetStatus) -> Value {
    json!({"metadata": {"uid": set.uid()}, "status": {
        "observedGeneration": status.observed_generation,
        "replicas": status.replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "currentReplicas": status.current_replicas,
        "updatedReplicas": status.updated_replicas,
        "currentRevision": status.current_revision,
        "updateRevision": status.update_revision,
        "collisionCount": status.collision_count.unwrap_or(0),
    }})
}
