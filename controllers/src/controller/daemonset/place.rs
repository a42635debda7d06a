//! Which pods come and which go.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{BURST, Observed, Seat, roll};
use crate::action::{Action, Announce, Create, Delete, Note, Target};
use crate::controller::revisions::HASH_LABEL;
use crate::controller::{controller_reference, reference};
use crate::projection::{DaemonSet, Pod, Projected, Toleration};
use crate::resource::Kind;

/// Taints of the node itself that a daemon lives with, as upstream adds them.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const NETWORK_UNAVAILABLE: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

pub(super) fn steps(observed: &Observed, seats: &[Seat], hash: &str, now: Timestamp) -> Vec<Action> {
    let set = observed.set.as_ref();
    let mut create: Vec<String> = Vec::new();
    let mut delete: BTreeSet<String> = BTreeSet::new();
    let mut notes = Vec::new();
    let surge = roll::bounds(set, seats).surge > 0;
    for seat in seats {
        let living: Vec<&Arc<Pod>> = seat.pods.iter().filter(|pod| !pod.is_deleting()).collect();
        let (ended, mut running): (Vec<&Arc<Pod>>, Vec<&Arc<Pod>>) =
            living.iter().copied().partition(|pod| pod.is_finished());
        if !seat.tolerated {
            let stranded = living.iter().filter(|pod| !seat.node.is_empty() || pod.spec.node_name.is_empty());
            delete.extend(stranded.map(|pod| pod.name().to_owned()));
            continue;
        }
        let waits = |pod: &Pod| pod.status.phase == "Failed" && observed.waits.contains_key(&seat.node);
        for pod in ended.iter().filter(|pod| !waits(pod)) {
            delete.insert(pod.name().to_owned());
            notes.push(ended_note(set, pod, &seat.node));
        }
        running.sort_by_key(|pod| (pod.created(), pod.name().to_owned()));
        // While rolling with surge an old and a new pod may stand side by side.
        let (current, old): (Vec<&Arc<Pod>>, Vec<&Arc<Pod>>) =
            running.iter().copied().partition(|pod| is_current(pod, hash));
        if surge {
            delete.extend(current.iter().skip(1).chain(old.iter().skip(1)).map(|pod| pod.name().to_owned()));
        } else {
            delete.extend(running.iter().skip(1).map(|pod| pod.name().to_owned()));
        }
        if seat.wanted && seat.pods.is_empty() {
            create.push(seat.node.clone());
        }
    }
    let rolled = roll::steps(set, seats, hash, now);
    create.extend(rolled.create);
    delete.extend(rolled.delete);
    actions(set, hash, notes, create, delete, seats)
}

fn actions(
    set: &DaemonSet,
    hash: &str,
    notes: Vec<Action>,
    mut create: Vec<String>,
    delete: BTreeSet<String>,
    seats: &[Seat],
) -> Vec<Action> {
    let announce = || Announce { about: reference(Kind::DaemonSet, set) };
    let mut actions = notes;
    create.dedup();
    create.truncate(BURST);
    if !create.is_empty() {
        let pods = create.iter().map(|node| pod(set, node, hash)).collect();
        actions.push(Action::CreatePods { pods, announce: announce() });
    }
    let all = seats.iter().flat_map(|seat| &seat.pods);
    let gone: Vec<Delete> = all
        .filter(|pod| delete.contains(pod.name()) && !pod.is_deleting())
        .take(BURST)
        .map(|pod| {
            let target = Target::namespaced(Kind::Pod.resource(), pod.namespace(), pod.name());
            Delete::of(target, Some(pod.uid().to_owned()))
        })
        .collect();
    if !gone.is_empty() {
        actions.push(Action::DeletePods { pods: gone, announce: announce() });
    }
    actions
}

fn ended_note(set: &DaemonSet, pod: &Pod, node: &str) -> Action {
    let failed = pod.status.phase == "Failed";
    let (reason, word) = if failed { ("FailedDaemonPod", "failed") } else { ("SucceededDaemonPod", "succeeded") };
    Action::Note(Note {
        about: reference(Kind::DaemonSet, set),
        warning: failed,
        reason,
        action: reason,
        text: format!("Found {word} daemon pod {}/{} on node {node}, will try to kill it", pod.namespace(), pod.name()),
    })
}

pub(super) fn is_current(pod: &Pod, hash: &str) -> bool {
    pod.labels().get(HASH_LABEL).is_some_and(|own| own == hash)
}

/// The node a pod stands on, or is meant for.
pub(super) fn node_of(pod: &Pod) -> String {
    if !pod.spec.node_name.is_empty() {
        return pod.spec.node_name.clone();
    }
    let affinity = pod.spec.affinity.as_ref();
    let terms = affinity.and_then(|own| own.pointer(&format!("/nodeAffinity/{REQUIRED}/nodeSelectorTerms")));
    let fields = terms.and_then(Value::as_array).into_iter().flatten();
    let mut fields = fields.filter_map(|term| term["matchFields"].as_array()).flatten();
    let named = fields.find(|field| field["key"] == "metadata.name" && field["operator"] == "In");
    named.and_then(|field| field["values"][0].as_str()).unwrap_or_default().to_owned()
}

/// The template's own tolerations and those every daemon has.
pub(super) fn tolerations(template: &Value) -> Vec<Toleration> {
    let own = template.pointer("/spec/tolerations").and_then(Value::as_array).into_iter().flatten();
    let own = own.filter_map(|toleration| serde_json::from_value(toleration.clone()).ok());
    let added = added_tolerations(template).into_iter().map(|(key, effect)| Toleration {
        key: key.to_owned(),
        effect: effect.to_owned(),
        operator: "Exists".to_owned(),
        ..Toleration::default()
    });
    own.chain(added).collect()
}

fn added_tolerations(template: &Value) -> Vec<(&'static str, &'static str)> {
    let host = template.pointer("/spec/hostNetwork").and_then(Value::as_bool).unwrap_or(false);
    TOLERATED.into_iter().chain(host.then_some(NETWORK_UNAVAILABLE)).collect()
}

/// A pod of the template, tied to one node but left to the scheduler, which knows whether there is room.
fn pod(set: &DaemonSet, node: &str, hash: &str) -> Create {
    let mut template = set.spec.template.clone();
    let mut tolerations = template["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    for (key, effect) in added_tolerations(&template) {
        let added = json!({"key": key, "operator": "Exists", "effect": effect});
        if !tolerations.contains(&added) {
            tolerations.push(added);
        }
    }
    template["spec"]["tolerations"] = json!(tolerations);
    let field = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let required = &mut template["spec"]["affinity"]["nodeAffinity"][REQUIRED];
    match required["nodeSelectorTerms"].as_array_mut() {
        Some(terms) if !terms.is_empty() => {
            for term in terms {
                term["matchFields"] = field.clone();
            }
        }
        _ => *required = json!({"nodeSelectorTerms": [{"matchFields": field}]}),
    }
    let mut metadata = json!({
        "generateName": format!("{}-", set.name()),
        "labels": template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({})),
        "ownerReferences": [controller_reference(Kind::DaemonSet, set)],
    });
    metadata["labels"][HASH_LABEL] = json!(hash);
    if let Some(annotations) = template.pointer("/metadata/annotations") {
        metadata["annotations"] = annotations.clone();
    }
    let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]});
    Create { resource: Kind::Pod.resource(), namespace: Some(set.namespace().to_owned()), body }
}
