//! What a ReplicaSet or ReplicationController says of itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{Observed, Replicated};
use crate::controller::{seconds, string_map};
use crate::projection::{Condition, Pod, Projected, ReplicaStatus, condition};
use crate::resource::Kind;

const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) fn status(observed: &Observed, pods: &[Arc<Pod>], terminating: usize, now: Timestamp) -> ReplicaStatus {
    let owner = &observed.owner;
    let template_labels = string_map(owner.template.pointer("/metadata/labels"));
    let count = |wanted: &dyn Fn(&Pod) -> bool| number(pods.iter().filter(|pod| wanted(pod)).count());
    let terminating = (owner.kind == Kind::ReplicaSet).then(|| number(terminating));
    ReplicaStatus {
        replicas: number(pods.len()),
        fully_labeled_replicas: count(&|pod| has_all(pod.labels(), &template_labels)),
        ready_replicas: count(&|pod| pod.is_ready()),
        available_replicas: count(&|pod| pod.availability(owner.min_ready_seconds, now).is_ok()),
        // An absent number and 0 say the same.
        terminating_replicas: terminating.filter(|n| *n > 0 || owner.status.terminating_replicas.is_some()),
        observed_generation: owner.generation(),
        conditions: conditions(observed, pods, now),
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn has_all(labels: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// `ReplicaFailure` stands as long as the last try failed.
fn conditions(observed: &Observed, pods: &[Arc<Pod>], now: Timestamp) -> Vec<Condition> {
    let current = &observed.owner.status.conditions;
    let unsettled = i64::from(observed.owner.replicas) != i64::try_from(pods.len()).unwrap_or(i64::MAX);
    let failure = observed.last_failure.as_ref().filter(|_| unsettled);
    let mut conditions: Vec<Condition> = current.iter().filter(|own| own.kind != REPLICA_FAILURE).cloned().collect();
    if let Some(failure) = failure {
        let standing = condition(current, REPLICA_FAILURE).filter(|own| own.reason == failure.reason);
        conditions.push(standing.cloned().unwrap_or_else(|| Condition {
            kind: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: failure.reason.to_owned(),
            message: failure.message.clone(),
            last_transition_time: Some(Time(now)),
            ..Condition::default()
        }));
    }
    conditions
}

pub(super) fn patch(owner: &Replicated, status: &ReplicaStatus) -> Value {
    let mut body = json!({
        "replicas": status.replicas,
        "fullyLabeledReplicas": status.fully_labeled_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "observedGeneration": status.observed_generation,
    });
    if let Some(terminating) = status.terminating_replicas {
        body["terminatingReplicas"] = json!(terminating);
    }
    if status.conditions != owner.status.conditions {
        body["conditions"] = status.conditions.iter().map(condition_json).collect();
    }
    json!({"metadata": {"uid": owner.uid()}, "status": body})
}

fn condition_json(condition: &Condition) -> Value {
    let mut json = json!({"type": condition.kind, "status": condition.status});
    if let Some(time) = &condition.last_transition_time {
        json["lastTransitionTime"] = seconds(time.0);
    }
    for (field, text) in [("reason", &condition.reason), ("message", &condition.message)] {
        if !text.is_empty() {
            json[field] = json!(text);
        }
    }
    json
}
