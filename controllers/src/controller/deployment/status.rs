//! What a Deployment says of itself: counts, availability, progress.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{Rollout, bounds, target};
use crate::action::{Action, Plan};
use crate::controller::seconds;
use crate::projection::{Condition, Deployment, DeploymentStatus, Projected, condition};

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

/// The plan of a pass that does not roll: paused, scaled or on its way out.
pub(super) fn settled(rollout: &Rollout<'_>, actions: Vec<Action>) -> Plan {
    let mut status = counted(rollout);
    pause_or_resume(rollout, &mut status.conditions);
    with_status(rollout, actions, &status)
}

/// The plan of a pass that rolls or has rolled.
pub(super) fn progressing(rollout: &Rollout<'_>, actions: Vec<Action>) -> Plan {
    let mut status = counted(rollout);
    pause_or_resume(rollout, &mut status.conditions);
    let creates = actions.iter().find_map(created_name);
    progress(rollout, creates.as_deref(), &mut status);
    let mut plan = with_status(rollout, actions, &status);
    if let Some(delay) = until_deadline(rollout, &status) {
        plan.look_again_in(delay);
    }
    plan
}

/// As many new pods as wanted are available and no old one is left.
pub(super) fn is_complete(rollout: &Rollout<'_>) -> bool {
    complete(rollout.deployment, &counted(rollout))
}

fn complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = deployment.replicas();
    status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && status.observed_generation >= deployment.generation()
}

fn created_name(action: &Action) -> Option<String> {
    let Action::Create(create) = action else { return None };
    create.body.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned)
}

fn counted(rollout: &Rollout<'_>) -> DeploymentStatus {
    let deployment = rollout.deployment;
    let sum = |of: fn(&crate::projection::ReplicaStatus) -> i32| rollout.all().map(|set| of(&set.status)).sum::<i32>();
    let available = sum(|status| status.available_replicas);
    let terminating = sum(|status| status.terminating_replicas.unwrap_or(0));
    let mut conditions = deployment.status.conditions.clone();
    let least = deployment.replicas() - bounds::of(deployment).unavailable;
    let availability = if available >= least {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(&mut conditions, new_condition(AVAILABLE, availability, rollout.now));
    copy_failure(rollout, &mut conditions);
    DeploymentStatus {
        observed_generation: deployment.generation(),
        replicas: sum(|status| status.replicas),
        updated_replicas: rollout.new.as_ref().map_or(0, |new| new.status.replicas),
        ready_replicas: sum(|status| status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: (rollout.asked() - available).max(0),
        terminating_replicas: Some(terminating).filter(|n| *n > 0 || deployment.status.terminating_replicas.is_some()),
        collision_count: deployment.status.collision_count,
        conditions,
    }
}

fn new_condition(kind: &str, (status, reason, message): (&str, &str, &str), now: Timestamp) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Some(Time(now)),
        last_update_time: Some(Time(now)),
        last_heartbeat_time: None,
    }
}

/// The same status for the same reason stays as it is; the same status for another one keeps its transition time.
fn set(conditions: &mut Vec<Condition>, mut new: Condition) {
    if let Some(current) = condition(conditions, &new.kind) {
        if current.status == new.status && current.reason == new.reason {
            return;
        }
        if current.status == new.status {
            new.last_transition_time.clone_from(&current.last_transition_time);
        }
    }
    replace(conditions, new);
}

fn replace(conditions: &mut Vec<Condition>, new: Condition) {
    conditions.retain(|own| own.kind != new.kind);
    conditions.push(new);
}

/// Trouble of the new set, else of an old one.
fn copy_failure(rollout: &Rollout<'_>, conditions: &mut Vec<Condition>) {
    let mut sets = rollout.new.iter().chain(rollout.old.iter());
    match sets.find_map(|set| condition(&set.status.conditions, REPLICA_FAILURE)) {
        Some(failure) => {
            let copied = Condition { last_update_time: failure.last_transition_time.clone(), ..failure.clone() };
            set(conditions, copied);
        }
        None => conditions.retain(|own| own.kind != REPLICA_FAILURE),
    }
}

fn has_deadline(deployment: &Deployment) -> Option<i64> {
    deployment.spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX).map(i64::from)
}

/// A paused deployment makes no progress and must not be told off for it.
fn pause_or_resume(rollout: &Rollout<'_>, conditions: &mut Vec<Condition>) {
    let deployment = rollout.deployment;
    let current = condition(conditions, PROGRESSING);
    if has_deadline(deployment).is_none() || current.is_some_and(|own| own.reason == DEADLINE_EXCEEDED) {
        return;
    }
    let was_paused = current.is_some_and(|own| own.reason == PAUSED);
    if deployment.spec.paused && !was_paused {
        set(conditions, new_condition(PROGRESSING, ("Unknown", PAUSED, "Deployment is paused"), rollout.now));
    } else if !deployment.spec.paused && was_paused {
        set(conditions, new_condition(PROGRESSING, ("Unknown", RESUMED, "Deployment is resumed"), rollout.now));
    }
}

fn progress(rollout: &Rollout<'_>, creates: Option<&str>, status: &mut DeploymentStatus) {
    let (deployment, old) = (rollout.deployment, &rollout.deployment.status);
    if has_deadline(deployment).is_none() {
        status.conditions.retain(|own| own.kind != PROGRESSING);
        return;
    }
    if let Some(name) = creates {
        let message = format!("Created new replica set \"{name}\"");
        let created = new_condition(PROGRESSING, ("True", "NewReplicaSetCreated", &message), rollout.now);
        return set(&mut status.conditions, created);
    }
    let subject = match &rollout.new {
        Some(new) => format!("ReplicaSet \"{}\"", new.name()),
        None => format!("Deployment \"{}\"", deployment.name()),
    };
    let current = condition(&old.conditions, PROGRESSING).cloned();
    let settled = current.as_ref().is_some_and(|own| own.reason == NEW_SET_AVAILABLE);
    if settled && status.replicas == status.updated_replicas {
        return;
    }
    if complete(deployment, status) {
        let message = format!("{subject} has successfully progressed.");
        set(&mut status.conditions, new_condition(PROGRESSING, ("True", NEW_SET_AVAILABLE, &message), rollout.now));
    } else if moved(old, status) {
        let message = format!("{subject} is progressing.");
        let mut new = new_condition(PROGRESSING, ("True", "ReplicaSetUpdated", &message), rollout.now);
        if let Some(current) = current.filter(|own| own.status == "True") {
            new.last_transition_time = current.last_transition_time;
        }
        replace(&mut status.conditions, new);
    } else if timed_out(rollout, status) {
        let message = format!("{subject} has timed out progressing.");
        set(&mut status.conditions, new_condition(PROGRESSING, ("False", DEADLINE_EXCEEDED, &message), rollout.now));
    } else if current.is_none() && rollout.new.is_some() {
        let message = match &rollout.new {
            Some(new) => format!("Found new replica set \"{}\"", new.name()),
            None => subject,
        };
        set(&mut status.conditions, new_condition(PROGRESSING, ("True", "FoundNewReplicaSet", &message), rollout.now));
    }
}

fn moved(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    new.updated_replicas > old.updated_replicas
        || new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

fn timed_out(rollout: &Rollout<'_>, status: &DeploymentStatus) -> bool {
    let Some(current) = condition(&status.conditions, PROGRESSING) else { return false };
    match current.reason.as_str() {
        NEW_SET_AVAILABLE => false,
        DEADLINE_EXCEEDED => true,
        _ => seconds_left(rollout, current).is_some_and(|left| left < 0),
    }
}

fn seconds_left(rollout: &Rollout<'_>, current: &Condition) -> Option<i64> {
    let deadline = has_deadline(rollout.deployment)?;
    let since = current.last_update_time.as_ref()?.0.as_second();
    Some(since + deadline - rollout.now.as_second())
}

/// When to look whether the deadline has passed.
fn until_deadline(rollout: &Rollout<'_>, status: &DeploymentStatus) -> Option<Duration> {
    let current = condition(&status.conditions, PROGRESSING)?;
    if complete(rollout.deployment, status) || current.reason == DEADLINE_EXCEEDED || current.reason == PAUSED {
        return None;
    }
    let left = seconds_left(rollout, current)?;
    Some(Duration::from_secs(u64::try_from(left).unwrap_or(0) + 1))
}

fn with_status(rollout: &Rollout<'_>, mut actions: Vec<Action>, status: &DeploymentStatus) -> Plan {
    let deployment = rollout.deployment;
    if *status != deployment.status {
        actions.push(Action::merge_status(target(deployment), patch(deployment, status)));
    }
    Plan::of(actions)
}

fn patch(deployment: &Deployment, status: &DeploymentStatus) -> Value {
    let mut body = json!({
        "observedGeneration": status.observed_generation,
        "replicas": status.replicas,
        "updatedReplicas": status.updated_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "unavailableReplicas": status.unavailable_replicas,
    });
    if let Some(terminating) = status.terminating_replicas {
        body["terminatingReplicas"] = json!(terminating);
    }
    if status.conditions != deployment.status.conditions {
        body["conditions"] = status.conditions.iter().map(condition_json).collect();
    }
    json!({"metadata": {"uid": deployment.uid()}, "status": body})
}

fn condition_json(condition: &Condition) -> Value {
    let mut json = json!({"type": condition.kind, "status": condition.status});
    for (field, time) in
        [("lastTransitionTime", &condition.last_transition_time), ("lastUpdateTime", &condition.last_update_time)]
    {
        if let Some(time) = time {
            json[field] = seconds(time.0);
        }
    }
    for (field, text) in [("reason", &condition.reason), ("message", &condition.message)] {
        if !text.is_empty() {
            json[field] = json!(text);
        }
    }
    json
}
