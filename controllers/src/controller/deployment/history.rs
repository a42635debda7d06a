//! Old ReplicaSets beyond the history limit go.

use super::{Rollout, revision};
use crate::action::{Action, Delete, Target};
use crate::projection::Projected;
use crate::resource::Kind;

pub(super) fn cleanup(rollout: &Rollout<'_>) -> Vec<Action> {
    let Some(limit) = rollout.deployment.spec.revision_history_limit.filter(|limit| *limit != i32::MAX) else {
        return Vec::new();
    };
    let mut sets: Vec<_> = rollout.old.iter().filter(|set| !set.is_deleting()).collect();
    let surplus = sets.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    sets.sort_by_key(|set| (revision::of_set(set), set.created()));
    let empty = |set: &&std::sync::Arc<crate::projection::ReplicaSet>| {
        set.status.replicas == 0 && set.replicas() == 0 && set.generation() <= set.status.observed_generation
    };
    let delete = |set: &std::sync::Arc<crate::projection::ReplicaSet>| {
        let target = Target::namespaced(Kind::ReplicaSet.resource(), set.namespace(), set.name());
        Action::Delete(Delete::of(target, Some(set.uid().to_owned())))
    };
    sets.into_iter().take(surplus).filter(empty).map(delete).collect()
}
