//! Deployments: one ReplicaSet per template, replicas moved from the old ones to the new one within bounds.
//!
//! One pass makes one kind of step (claim, revise, scale or roll) and the status; the watch brings the next.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use quorate_api::name::ObjectKey;
use quorate_api::selector::LabelSelector;

use super::claim::claim;
use super::reference;
use crate::action::{Action, Note, Plan, Target};
use crate::cache::{Cache, Change, Delta};
use crate::projection::{Deployment, Pod, Projected, ReplicaSet};
use crate::resource::Kind;
use crate::runner::{Pass, Pure};

mod bounds;
mod history;
mod revision;
mod roll;
mod scale;
mod status;
mod template;
#[cfg(test)]
mod tests;

pub(super) use template::hash as template_hash;

#[derive(Clone, Debug)]
pub struct Observed {
    pub deployment: Arc<Deployment>,
    /// ReplicaSets of the namespace that the deployment manages or might.
    pub sets: Vec<Arc<ReplicaSet>>,
    /// Every name taken by a ReplicaSet of the namespace.
    pub names: BTreeSet<String>,
    /// The uids of ReplicaSets with pods that have not ended.
    pub with_pods: BTreeSet<String>,
}

/// The deployment with its sets told apart.
#[derive(Clone, Debug)]
struct Rollout<'a> {
    deployment: &'a Deployment,
    /// The set of the current template.
    new: Option<Arc<ReplicaSet>>,
    /// All others, oldest first.
    old: Vec<Arc<ReplicaSet>>,
    now: Timestamp,
}

pub fn controller() -> Pure {
    Pure {
        name: "deployment",
        account: "deployment-controller",
        component: "deployment-controller",
        wakes,
        plan: |pass, key| observe(pass, key).map_or_else(Plan::nothing, |observed| plan(&observed, pass.now)),
    }
}

fn wakes(cache: &Cache, change: &Change) -> Vec<ObjectKey> {
    match change {
        Change::Deployment(delta) => vec![delta.key.clone()],
        Change::ReplicaSet(delta) => woken_by_set(cache, delta),
        Change::Pod(delta) => woken_by_pod(cache, delta),
        _ => Vec::new(),
    }
}

fn woken_by_set(cache: &Cache, delta: &Delta<ReplicaSet>) -> Vec<ObjectKey> {
    let mut keys = Vec::new();
    for set in delta.states() {
        match set.controller() {
            Some(owner) if owner.kind == "Deployment" => {
                keys.push(ObjectKey::namespaced(set.namespace(), &owner.name));
            }
            Some(_) => {}
            None => {
                let matching = cache.deployments.select(set.namespace(), |own| selector(own).matches(set.labels()));
                keys.extend(matching.iter().map(|own| own.key()));
            }
        }
    }
    keys.dedup();
    keys
}

/// `Recreate` waits for the last old pod to end.
fn woken_by_pod(cache: &Cache, delta: &Delta<Pod>) -> Vec<ObjectKey> {
    let Some(pod) = delta.latest() else { return Vec::new() };
    if delta.new.as_ref().is_some_and(|pod| !pod.is_finished()) {
        return Vec::new();
    }
    let Some(owner) = pod.controller().filter(|owner| owner.kind == "ReplicaSet") else { return Vec::new() };
    let set = cache.replica_sets.find(pod.namespace(), &owner.name);
    let manager = set.as_ref().and_then(|set| set.controller()).filter(|own| own.kind == "Deployment");
    let Some(key) = manager.map(|own| ObjectKey::namespaced(pod.namespace(), &own.name)) else { return Vec::new() };
    let recreates = cache.deployments.get(&key).is_some_and(|own| own.spec.strategy.kind == "Recreate");
    if recreates { vec![key] } else { Vec::new() }
}

fn selector(deployment: &Deployment) -> LabelSelector {
    super::selector_of(&deployment.spec.selector)
}

fn observe(pass: &Pass, key: &ObjectKey) -> Option<Observed> {
    let deployment = pass.cache.deployments.get(key)?;
    let namespace = deployment.namespace();
    let all = pass.cache.replica_sets.select(namespace, |_| true);
    let names = all.iter().map(|set| set.name().to_owned()).collect();
    let selector = selector(&deployment);
    let might = |set: &&Arc<ReplicaSet>| {
        set.is_controlled_by(deployment.uid()) || (set.controller().is_none() && selector.matches(set.labels()))
    };
    let sets: Vec<Arc<ReplicaSet>> = all.iter().filter(might).cloned().collect();
    let with_pods = if deployment.spec.strategy.kind == "Recreate" {
        let pods = pass.cache.pods.select(namespace, |pod| !pod.is_finished());
        pods.iter().filter_map(|pod| pod.controller().map(|own| own.uid.clone())).collect()
    } else {
        BTreeSet::new()
    };
    Some(Observed { deployment, sets, names, with_pods })
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let deployment = observed.deployment.as_ref();
    let selector = selector(deployment);
    if selector.is_everything() {
        return refuse_everything(deployment);
    }
    let claim = claim((Kind::Deployment, deployment), &selector, Kind::ReplicaSet, &observed.sets);
    if !claim.actions.is_empty() {
        return Plan::of(claim.actions);
    }
    let rollout = Rollout::new(deployment, claim.owned, now);
    if deployment.is_deleting() {
        return status::settled(&rollout, Vec::new());
    }
    if deployment.spec.paused || scale::is_wanted(&rollout) {
        let mut actions = revision::of_existing(&rollout);
        actions.extend(scale::to_size(&rollout));
        if deployment.spec.paused {
            actions.extend(history::cleanup(&rollout));
        }
        return status::settled(&rollout, actions);
    }
    if deployment.spec.strategy.kind == "Recreate" {
        recreate(observed, &rollout)
    } else {
        roll_over(observed, &rollout)
    }
}

/// A selector that matches every pod would fight with every other controller.
fn refuse_everything(deployment: &Deployment) -> Plan {
    let mut actions = vec![Action::Note(Note {
        about: reference(Kind::Deployment, deployment),
        warning: true,
        reason: "SelectingAll",
        action: "SelectingAll",
        text: "This deployment is selecting all pods. A non-empty selector is required.".to_owned(),
    })];
    if deployment.status.observed_generation < deployment.generation() {
        let body = serde_json::json!({"status": {"observedGeneration": deployment.generation()}});
        actions.push(Action::merge_status(target(deployment), body));
    }
    Plan::of(actions)
}

fn target(deployment: &Deployment) -> Target {
    Target::namespaced(Kind::Deployment.resource(), deployment.namespace(), deployment.name())
}

fn roll_over(observed: &Observed, rollout: &Rollout<'_>) -> Plan {
    let Some(new) = &rollout.new else {
        return status::progressing(rollout, template::create(observed, rollout));
    };
    let mut actions = revision::of_existing(rollout);
    let steps = roll::steps(rollout, new);
    if steps.is_empty() && status::is_complete(rollout) {
        actions.extend(history::cleanup(rollout));
    }
    actions.extend(steps);
    status::progressing(rollout, actions)
}

/// All old pods end before the first new one starts.
fn recreate(observed: &Observed, rollout: &Rollout<'_>) -> Plan {
    let mut actions = revision::of_existing(rollout);
    let down: Vec<Action> = rollout.active_old().flat_map(|set| scale::resize(rollout.deployment, set, 0)).collect();
    if !down.is_empty() {
        actions.extend(down);
        return status::progressing(rollout, actions);
    }
    if rollout.old.iter().any(|set| observed.with_pods.contains(set.uid())) {
        return status::progressing(rollout, actions);
    }
    match &rollout.new {
        None => actions.extend(template::create(observed, rollout)),
        Some(new) => actions.extend(scale::resize(rollout.deployment, new, rollout.deployment.replicas())),
    }
    if status::is_complete(rollout) {
        actions.extend(history::cleanup(rollout));
    }
    status::progressing(rollout, actions)
}

impl<'a> Rollout<'a> {
    fn new(deployment: &'a Deployment, mut sets: Vec<Arc<ReplicaSet>>, now: Timestamp) -> Self {
        sets.sort_by(|a, b| (a.created(), a.name()).cmp(&(b.created(), b.name())));
        let found = sets.iter().position(|set| template::same(&set.spec.template, &deployment.spec.template));
        let new = found.map(|index| sets.remove(index));
        Self { deployment, new, old: sets, now }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(self.new.iter())
    }

    fn active_old(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().filter(|set| set.replicas() > 0)
    }

    /// Pods asked for over all sets.
    fn asked(&self) -> i32 {
        self.all().map(|set| set.replicas()).sum()
    }
}
