//! Resizing: one set to a number, or all sets in proportion when the deployment itself was scaled.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::json;

use super::{Rollout, bounds, revision};
use crate::action::{Action, Note, Target};
use crate::controller::reference;
use crate::projection::{Deployment, Projected, ReplicaSet};
use crate::resource::Kind;

/// Sets `replicas` and the sizes the set knows; tells of it if the number changes.
pub(super) fn resize(deployment: &Deployment, set: &ReplicaSet, size: i32) -> Vec<Action> {
    let sizes = revision::sizes(deployment, bounds::of(deployment).surge);
    let known = sizes.iter().all(|(key, value)| set.annotations().get(key) == Some(value));
    if known && set.replicas() == size {
        return Vec::new();
    }
    let annotations: std::collections::BTreeMap<_, _> = sizes.into_iter().collect();
    let target = Target::namespaced(Kind::ReplicaSet.resource(), set.namespace(), set.name());
    let body = json!({"metadata": {"uid": set.uid(), "annotations": annotations}, "spec": {"replicas": size}});
    let mut actions = vec![Action::merge(target, body)];
    if set.replicas() != size {
        let direction = if size > set.replicas() { "up" } else { "down" };
        actions.push(Action::Note(Note {
            about: reference(Kind::Deployment, deployment),
            warning: false,
            reason: "ScalingReplicaSet",
            action: "ScalingReplicaSet",
            text: format!("Scaled {direction} replica set {} from {} to {size}", set.name(), set.replicas()),
        }));
    }
    actions
}

/// Was the deployment scaled since a set was last sized?
pub(super) fn is_wanted(rollout: &Rollout<'_>) -> bool {
    let desired = rollout.deployment.replicas().to_string();
    let mut active = rollout.all().filter(|set| set.replicas() > 0);
    active.any(|set| set.annotations().get(revision::DESIRED).is_some_and(|known| *known != desired))
}

/// Brings the sets to the deployment's size without rolling.
pub(super) fn to_size(rollout: &Rollout<'_>) -> Vec<Action> {
    let deployment = rollout.deployment;
    if let Some(only) = active_or_latest(rollout) {
        return resize(deployment, only, deployment.replicas());
    }
    if rollout.new.as_ref().is_some_and(|new| is_saturated(deployment, new)) {
        return rollout.active_old().flat_map(|set| resize(deployment, set, 0)).collect();
    }
    if deployment.spec.strategy.kind == "Recreate" {
        return Vec::new();
    }
    in_proportion(rollout)
}

/// The one set that has pods; with none, the new one or the youngest.
fn active_or_latest<'a>(rollout: &'a Rollout<'_>) -> Option<&'a Arc<ReplicaSet>> {
    let active: Vec<&Arc<ReplicaSet>> = rollout.all().filter(|set| set.replicas() > 0).collect();
    match active.as_slice() {
        [] => rollout.new.as_ref().or_else(|| rollout.old.last()),
        [only] => Some(only),
        _ => None,
    }
}

fn is_saturated(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let desired = deployment.replicas();
    let known = set.annotations().get(revision::DESIRED).and_then(|known| known.parse().ok());
    set.replicas() == desired && known == Some(desired) && set.status.available_replicas == desired
}

/// Spreads the difference over the active sets by their size; what rounding leaves goes to the largest.
fn in_proportion(rollout: &Rollout<'_>) -> Vec<Action> {
    let deployment = rollout.deployment;
    let mut sets: Vec<&Arc<ReplicaSet>> = rollout.all().filter(|set| set.replicas() > 0).collect();
    let total: i32 = sets.iter().map(|set| set.replicas()).sum();
    let wanted = deployment.replicas();
    let allowed = if wanted > 0 { wanted + bounds::of(deployment).surge } else { 0 };
    let to_add = allowed - total;
    // Of two sets of one size the newer grows first and the older shrinks first.
    if to_add > 0 {
        sets.sort_by_key(|set| (Reverse(set.replicas()), Reverse(set.created())));
    } else {
        sets.sort_by_key(|set| (Reverse(set.replicas()), set.created()));
    }
    let mut added = 0;
    let mut sizes = Vec::with_capacity(sets.len());
    for set in &sets {
        let share = share(deployment, set, to_add, added);
        added += share;
        sizes.push(set.replicas() + share);
    }
    if let Some(first) = sizes.first_mut() {
        *first = (*first + to_add - added).max(0);
    }
    sets.iter().zip(sizes).flat_map(|(set, size)| resize(deployment, set, size)).collect()
}

fn share(deployment: &Deployment, set: &ReplicaSet, to_add: i32, added: i32) -> i32 {
    if set.replicas() == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let (fraction, left) = (fraction(deployment, set), to_add - added);
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}

/// By how much the set would change if the deployment's size before the scaling became its size now.
fn fraction(deployment: &Deployment, set: &ReplicaSet) -> i32 {
    if deployment.replicas() == 0 {
        return -set.replicas();
    }
    let max_now = i64::from(deployment.replicas() + bounds::of(deployment).surge);
    let known = set.annotations().get(revision::MAX).and_then(|max| max.parse::<i64>().ok());
    let max_before = known.filter(|max| *max > 0).unwrap_or(i64::from(deployment.status.replicas).max(1));
    // Rounded half up, in whole numbers.
    let size = (2 * i64::from(set.replicas()) * max_now + max_before).div_euclid(2 * max_before);
    i32::try_from(size).unwrap_or(i32::MAX) - set.replicas()
}
