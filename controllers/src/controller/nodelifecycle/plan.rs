//! What to write about a node: conditions, taints, its pods' readiness.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{NOT_READY_PERIOD, Observed};
use crate::action::{Action, Note, Patch, PatchKind, Plan, Target};
use crate::controller::{reference, seconds};
use crate::projection::{Condition, Node, Pod, Projected, Taint, condition};
use crate::resource::Kind;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Condition that keeps new pods away while it is `True` → its taint.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];
/// Conditions that a silent node no longer vouches for.
const VOUCHED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
const NO_EXECUTE: &str = "NoExecute";
const NO_SCHEDULE: &str = "NoSchedule";

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let node = observed.node.as_ref();
    let mut plan = Plan::nothing();
    let mut conditions = node.status.conditions.clone();
    match observed.grace_left {
        Some(left) => plan.look_again_in(left + Duration::from_millis(1)),
        None => silence(node, &mut conditions, now, &mut plan),
    }
    let wanted = taints(node, &conditions, observed.evict, now);
    // Taints are written as a whole, so only over the very version they were read from: where conditions are written,
    // the pass that this wakes sees to them.
    if plan.actions.is_empty() && !same(&wanted, &node.spec.taints) {
        let body = json!({
            "metadata": {"resourceVersion": node.resource_version()},
            "spec": {"taints": if wanted.is_empty() { Value::Null } else { json!(wanted) }},
        });
        plan.actions.push(Action::merge(Target::cluster(Kind::Node.resource(), node.name()), body));
    }
    let ready = condition(&conditions, "Ready");
    if let Some(ready) = ready.filter(|ready| ready.status != "True") {
        let stale = observed.pods.iter().filter(|pod| is_stale(pod, ready));
        plan.actions.extend(stale.flat_map(|pod| unready(pod, now)));
        plan.look_again_in(observed.evict_after.map_or(NOT_READY_PERIOD, |left| left.min(NOT_READY_PERIOD)));
    }
    plan
}

/// Whether the node has a taint of ours by which pods go.
pub(super) fn is_given_up(node: &Node) -> bool {
    node.spec.taints.iter().any(|own| own.effect == NO_EXECUTE && [NOT_READY, UNREACHABLE].contains(&own.key.as_str()))
}

/// The node has been silent for longer than its grace.
fn silence(node: &Node, conditions: &mut Vec<Condition>, now: Timestamp, plan: &mut Plan) {
    let mut changed = Vec::new();
    for kind in VOUCHED {
        let current = condition(conditions, kind);
        if current.is_some_and(|own| own.status == "Unknown") {
            continue;
        }
        let (reason, message) = if current.is_some() {
            ("NodeStatusUnknown", "Kubelet stopped posting node status.")
        } else {
            ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
        };
        let heartbeat = current.and_then(|own| own.last_heartbeat_time.clone());
        let heartbeat = heartbeat.or_else(|| node.metadata.creation_timestamp.clone());
        changed.push(json!({
            "type": kind,
            "status": "Unknown",
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": heartbeat.map(|time| seconds(time.0)),
            "lastTransitionTime": seconds(now),
        }));
        conditions.retain(|own| own.kind != kind);
        conditions.push(Condition {
            kind: kind.to_owned(),
            status: "Unknown".to_owned(),
            reason: reason.to_owned(),
            last_transition_time: Some(Time(now)),
            ..Condition::default()
        });
    }
    if changed.is_empty() {
        return;
    }
    let was_ready = condition(&node.status.conditions, "Ready").is_some_and(|ready| ready.status == "True");
    let body = json!({"metadata": {"uid": node.uid()}, "status": {"conditions": changed}});
    plan.actions.push(Action::Patch(Patch {
        target: Target::cluster(Kind::Node.resource(), node.name()),
        subresource: Some("status"),
        kind: PatchKind::Strategic,
        body,
    }));
    if was_ready {
        plan.actions.push(Action::Note(Note {
            about: reference(Kind::Node, node),
            warning: false,
            reason: "NodeNotReady",
            action: "NodeNotReady",
            text: format!("Node {} status is now: NodeNotReady", node.name()),
        }));
    }
}

/// The node's taints with ours as they should be and everybody else's as they are.
fn taints(node: &Node, conditions: &[Condition], evict: bool, now: Timestamp) -> Vec<Taint> {
    let wanted = own_taints(node, conditions, evict);
    let ours = |taint: &Taint| {
        let schedules = [UNSCHEDULABLE, NOT_READY, UNREACHABLE].contains(&taint.key.as_str())
            || PRESSURES.iter().any(|(_, key)| *key == taint.key);
        let executes = [NOT_READY, UNREACHABLE].contains(&taint.key.as_str());
        (taint.effect == NO_SCHEDULE && schedules) || (taint.effect == NO_EXECUTE && executes)
    };
    let is_wanted = |taint: &Taint| wanted.iter().any(|(key, effect)| taint.key == *key && taint.effect == *effect);
    let mut taints: Vec<Taint> =
        node.spec.taints.iter().filter(|taint| !ours(taint) || is_wanted(taint)).cloned().collect();
    for (key, effect) in &wanted {
        if !taints.iter().any(|taint| taint.key == *key && taint.effect == *effect) {
            taints.push(Taint {
                key: (*key).to_owned(),
                effect: (*effect).to_owned(),
                value: String::new(),
                time_added: Some(Time(now.round(jiff::Unit::Second).unwrap_or(now))),
            });
        }
    }
    taints
}

fn own_taints(node: &Node, conditions: &[Condition], evict: bool) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    let ready = condition(conditions, "Ready");
    let unready = match ready.map(|ready| ready.status.as_str()) {
        Some("True") => None,
        Some("Unknown") => Some(UNREACHABLE),
        Some(_) | None => Some(NOT_READY),
    };
    if let Some(key) = unready {
        wanted.push((key, NO_SCHEDULE));
        if ready.is_some() && evict {
            wanted.push((key, NO_EXECUTE));
        }
    }
    let pressed = |kind: &str| condition(conditions, kind).is_some_and(|own| own.status == "True");
    wanted.extend(PRESSURES.iter().filter(|(kind, _)| pressed(kind)).map(|(_, key)| (*key, NO_SCHEDULE)));
    if node.spec.unschedulable {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    wanted
}

fn same(a: &[Taint], b: &[Taint]) -> bool {
    a.len() == b.len() && a.iter().all(|taint| b.contains(taint))
}

/// The pod says it is ready, and has said so since before its node fell silent.
fn is_stale(pod: &Pod, node_ready: &Condition) -> bool {
    let Some(ready) = condition(&pod.status.conditions, "Ready").filter(|ready| ready.status == "True") else {
        return false;
    };
    ready.last_transition_time.as_ref().is_none_or(|since| Some(since) <= node_ready.last_transition_time.as_ref())
}

fn unready(pod: &Pod, now: Timestamp) -> [Action; 2] {
    let body = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [{
        "type": "Ready", "status": "False", "lastTransitionTime": seconds(now),
    }]}});
    let patch = Action::Patch(Patch {
        target: Target::namespaced(Kind::Pod.resource(), pod.namespace(), pod.name()),
        subresource: Some("status"),
        kind: PatchKind::Strategic,
        body,
    });
    let note = Action::Note(Note {
        about: reference(Kind::Pod, pod),
        warning: true,
        reason: "NodeNotReady",
        action: "NodeNotReady",
        text: "Node is not ready".to_owned(),
    });
    [patch, note]
}
