//! One step of a rolling update.

use super::{Rollout, bounds, scale};
use crate::action::Action;
use crate::projection::{Projected, ReplicaSet};

/// Grow the new set as far as surge allows; only if it need not grow, shrink the old ones as far as availability allows.
pub(super) fn steps(rollout: &Rollout<'_>, new: &ReplicaSet) -> Vec<Action> {
    let wanted = rollout.deployment.replicas();
    let size = new_size(rollout, new);
    if size != new.replicas() {
        return scale::resize(rollout.deployment, new, size);
    }
    let mut sizes: Vec<i32> = rollout.old.iter().map(|set| set.replicas()).collect();
    if sizes.iter().sum::<i32>() == 0 {
        return Vec::new();
    }
    let least = wanted - bounds::of(rollout.deployment).unavailable;
    shrink(rollout, new, least, &mut sizes);
    let changed = rollout.old.iter().zip(sizes).filter(|(set, size)| set.replicas() != *size);
    changed.flat_map(|(set, size)| scale::resize(rollout.deployment, set, size)).collect()
}

fn new_size(rollout: &Rollout<'_>, new: &ReplicaSet) -> i32 {
    let wanted = rollout.deployment.replicas();
    if new.replicas() >= wanted {
        return wanted;
    }
    let room = wanted + bounds::of(rollout.deployment).surge - rollout.asked();
    new.replicas() + room.clamp(0, wanted - new.replicas())
}

/// Takes pods from the old sets, first those that serve nobody, then as many as are available beyond `least`.
fn shrink(rollout: &Rollout<'_>, new: &ReplicaSet, least: i32, sizes: &mut [i32]) {
    let not_yet = new.replicas() - available(new);
    let mut removable = rollout.asked() - least - not_yet;
    if removable <= 0 {
        return;
    }
    for (set, size) in rollout.old.iter().zip(sizes.iter_mut()) {
        let unhealthy = idle(set).clamp(0, removable);
        *size -= unhealthy;
        removable -= unhealthy;
    }
    let serving: i32 = rollout.old.iter().map(|set| available(set)).sum::<i32>() + available(new);
    let mut surplus = serving - least;
    for size in sizes.iter_mut() {
        let less = (*size).min(surplus).max(0);
        *size -= less;
        surplus -= less;
    }
}

/// What surely serves. A status that has not seen the last resize may speak of pods that are going; and no more can be
/// available than are asked for.
fn available(set: &ReplicaSet) -> i32 {
    let seen = set.status.observed_generation >= set.generation();
    if seen { set.status.available_replicas.min(set.replicas()) } else { 0 }
}

/// Pods that surely serve nobody.
fn idle(set: &ReplicaSet) -> i32 {
    let seen = set.status.observed_generation >= set.generation();
    if seen { set.replicas() - available(set) } else { 0 }
}
