//! Revision numbers and the annotations that carry them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Rollout, target};
use crate::action::{Action, Target};
use crate::projection::{Deployment, Projected, ReplicaSet};
use crate::resource::Kind;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of the deployment that its sets do not take over.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];
/// The history stays well below the limit on annotations, as upstream's.
const HISTORY_MAX_BYTES: usize = 2000;

pub(super) fn of_set(set: &ReplicaSet) -> i64 {
    set.annotations().get(REVISION).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// One more than any old set has.
pub(super) fn next(rollout: &Rollout<'_>) -> i64 {
    rollout.old.iter().map(|set| of_set(set)).max().unwrap_or(0) + 1
}

pub(super) fn copied(deployment: &Deployment) -> BTreeMap<String, String> {
    let kept = deployment.annotations().iter().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What the set was sized for: by it a later pass sees that the deployment was scaled meanwhile.
pub(super) fn sizes(deployment: &Deployment, surge: i32) -> [(String, String); 2] {
    let desired = deployment.replicas();
    [(DESIRED.to_owned(), desired.to_string()), (MAX.to_owned(), (desired + surge).to_string())]
}

/// Brings the annotations of the new set and of the deployment up to date.
pub(super) fn of_existing(rollout: &Rollout<'_>) -> Vec<Action> {
    let Some(new) = &rollout.new else { return Vec::new() };
    let (deployment, own) = (rollout.deployment, of_set(new));
    let wanted = next(rollout).max(own);
    let mut annotations: Map<String, Value> = Map::new();
    for (key, value) in copied(deployment) {
        if new.annotations().get(&key) != Some(&value) {
            annotations.insert(key, json!(value));
        }
    }
    if wanted > own {
        annotations.insert(REVISION.to_owned(), json!(wanted.to_string()));
        if own > 0 {
            annotations.insert(REVISION_HISTORY.to_owned(), json!(history(new, own)));
        }
    }
    let mut body = json!({});
    if !annotations.is_empty() {
        body["metadata"] = json!({"uid": new.uid(), "annotations": annotations});
    }
    if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds {
        body["spec"] = json!({"minReadySeconds": deployment.spec.min_ready_seconds});
    }
    let mut actions = Vec::new();
    if body != json!({}) {
        let set = Target::namespaced(Kind::ReplicaSet.resource(), new.namespace(), new.name());
        actions.push(Action::merge(set, body));
    }
    actions.extend(on_deployment(deployment, wanted));
    actions
}

fn history(set: &ReplicaSet, left: i64) -> String {
    let mut numbers: Vec<String> =
        set.annotations().get(REVISION_HISTORY).into_iter().flat_map(|all| all.split(',')).map(str::to_owned).collect();
    numbers.push(left.to_string());
    while numbers.iter().map(|number| number.len() + 1).sum::<usize>() > HISTORY_MAX_BYTES {
        numbers.remove(0);
    }
    numbers.join(",")
}

pub(super) fn on_deployment(deployment: &Deployment, number: i64) -> Option<Action> {
    let number = number.to_string();
    if deployment.annotations().get(REVISION) == Some(&number) {
        return None;
    }
    let body = json!({"metadata": {"uid": deployment.uid(), "annotations": {REVISION: number}}});
    Some(Action::merge(target(deployment), body))
}
