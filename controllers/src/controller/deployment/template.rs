//! Which ReplicaSet has the deployment's template, and how one is made.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Observed, Rollout, bounds, revision, target};
use crate::action::{Action, Create, Note};
use crate::controller::{controller_reference, reference};
use crate::projection::{Deployment, Projected};
use crate::resource::Kind;

pub(super) const HASH_LABEL: &str = "pod-template-hash";
/// The letters of names that cannot spell anything, as upstream's.
const SAFE_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

/// Equal but for the hash label that the sets carry.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    plain(a) == plain(b)
}

fn plain(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove(HASH_LABEL);
        }
        metadata.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()));
    }
    template
}

/// FNV-1a over the template's canonical text and the collision count, in safe letters.
pub(in crate::controller) fn hash(template: &Value, collisions: Option<i32>) -> String {
    let mut hash = FNV_OFFSET;
    let mut feed = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME);
        }
    };
    feed(plain(template).to_string().as_bytes());
    if let Some(collisions) = collisions {
        feed(&collisions.to_le_bytes());
    }
    let safe = |digit: u8| char::from(SAFE_LETTERS[usize::from(digit) % SAFE_LETTERS.len()]);
    hash.to_string().bytes().map(safe).collect()
}

/// The set of the current template, or another try at its name if that is taken by a different one.
pub(super) fn create(observed: &Observed, rollout: &Rollout<'_>) -> Vec<Action> {
    let deployment = rollout.deployment;
    let collisions = deployment.status.collision_count;
    let hash = hash(&deployment.spec.template, collisions);
    let name = format!("{}-{hash}", deployment.name());
    if observed.names.contains(&name) {
        let next = collisions.unwrap_or(0).saturating_add(1);
        return vec![Action::merge_status(target(deployment), json!({"status": {"collisionCount": next}}))];
    }
    let replicas = new_size(rollout);
    let number = revision::next(rollout);
    let mut actions = vec![Action::Create(Create {
        resource: Kind::ReplicaSet.resource(),
        namespace: Some(deployment.namespace().to_owned()),
        body: body(deployment, &name, &hash, replicas, number),
    })];
    actions.extend(revision::on_deployment(deployment, number));
    if replicas > 0 {
        actions.push(Action::Note(Note {
            about: reference(Kind::Deployment, deployment),
            warning: false,
            reason: "ScalingReplicaSet",
            action: "ScalingReplicaSet",
            text: format!("Scaled up replica set {name} from 0 to {replicas}"),
        }));
    }
    actions
}

fn new_size(rollout: &Rollout<'_>) -> i32 {
    let wanted = rollout.deployment.replicas();
    if rollout.deployment.spec.strategy.kind == "Recreate" {
        return wanted;
    }
    let room = wanted + bounds::of(rollout.deployment).surge - rollout.asked();
    room.clamp(0, wanted)
}

fn body(deployment: &Deployment, name: &str, hash: &str, replicas: i32, number: i64) -> Value {
    let mut template = deployment.spec.template.clone();
    template["metadata"]["labels"][HASH_LABEL] = json!(hash);
    let mut selector = deployment.spec.selector.clone();
    selector["matchLabels"][HASH_LABEL] = json!(hash);
    let bounds = bounds::of(deployment);
    let mut annotations: BTreeMap<String, String> = revision::copied(deployment);
    annotations.insert(revision::REVISION.to_owned(), number.to_string());
    annotations.extend(revision::sizes(deployment, bounds.surge));
    let mut spec = Map::new();
    spec.insert("replicas".to_owned(), json!(replicas));
    spec.insert("selector".to_owned(), selector);
    spec.insert("template".to_owned(), template.clone());
    if deployment.spec.min_ready_seconds > 0 {
        spec.insert("minReadySeconds".to_owned(), json!(deployment.spec.min_ready_seconds));
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": deployment.namespace(),
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [controller_reference(Kind::Deployment, deployment)],
        },
        "spec": spec,
    })
}
