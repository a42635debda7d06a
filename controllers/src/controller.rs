//! The controllers. None knows of another: they meet in the objects they write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use quorate_api::name::ObjectKey;
use quorate_api::selector::LabelSelector;
use quorate_env::Env;
use serde_json::{Value, json};

use crate::Config;
use crate::action::Plan;
use crate::cache::Delta;
use crate::projection::{Pod, Projected};
use crate::resource::Kind;
use crate::runner::Controller;

pub mod claim;
pub mod daemonset;
pub mod deployment;
pub mod disruption;
pub mod endpoints;
pub mod endpointslice;
pub mod garbage;
pub mod mirror;
pub mod namespace;
pub mod nodefit;
pub mod nodelifecycle;
pub mod podgc;
pub mod replicaset;
pub mod revisions;
pub mod rootca;
pub mod serviceaccount;
pub mod statefulset;
pub mod tainteviction;
pub mod tokencleaner;

/// All that work from the shared cache alone; the garbage collector brings watches of its own.
pub fn all(config: &Config, env: &Env) -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(deployment::controller()),
        Box::new(replicaset::replica_set_controller()),
        Box::new(replicaset::replication_controller()),
        Box::new(daemonset::controller(env)),
        Box::new(statefulset::controller()),
        Box::new(endpointslice::controller()),
        Box::new(endpoints::controller()),
        Box::new(mirror::controller()),
        Box::new(namespace::NamespaceController::new((config.client_for)(namespace::ACCOUNT))),
        Box::new(serviceaccount::controller()),
        Box::new(rootca::RootCa::new(config.cluster_ca_pem.clone())),
        Box::new(nodelifecycle::NodeLifecycle::new(config.node_grace, env.clone())),
        Box::new(tainteviction::controller()),
        Box::new(disruption::controller()),
        Box::new(podgc::PodCollector::new(podgc::TERMINATED_LIMIT)),
        Box::new(tokencleaner::controller()),
    ]
}

/// What an event is about.
fn reference(kind: Kind, object: &impl Projected) -> ObjectReference {
    let resource = kind.resource();
    ObjectReference {
        api_version: Some(resource.api_version()),
        kind: Some(resource.kind.into_owned()),
        name: Some(object.name().to_owned()),
        namespace: object.metadata().namespace.clone(),
        uid: object.metadata().uid.clone(),
        resource_version: object.metadata().resource_version.clone(),
        ..ObjectReference::default()
    }
}

/// The reference by which an object is managed.
fn controller_reference(kind: Kind, owner: &impl Projected) -> Value {
    let resource = kind.resource();
    json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "name": owner.name(),
        "uid": owner.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The manager of an object in either of its states; for one without a manager, those that would have it.
fn owners_of<K: Projected>(delta: &Delta<K>, kind: Kind, candidates: impl Fn(&K) -> Vec<ObjectKey>) -> Vec<ObjectKey> {
    let mut keys = Vec::new();
    for object in delta.states() {
        match object.controller() {
            Some(owner) if owner.kind == kind.name() => {
                keys.push(ObjectKey::namespaced(object.namespace(), &owner.name));
            }
            Some(_) => {}
            None => keys.extend(candidates(object)),
        }
    }
    keys.dedup();
    keys
}

/// The selector of a workload; one that cannot be read selects nothing.
fn selector_of(selector: &Value) -> LabelSelector {
    LabelSelector::from_json(Some(selector)).unwrap_or_else(|_unreadable| LabelSelector::nothing())
}

/// Pods that are ready but not yet available will be without any change that would tell.
fn look_when_available<'a>(
    plan: &mut Plan,
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
    min_ready_seconds: i32,
    now: Timestamp,
) {
    let waits = pods.into_iter().filter_map(|pod| pod.availability(min_ready_seconds, now).err()?);
    if let Some(seconds) = waits.min() {
        plan.look_again_in(Duration::from_secs(u64::try_from(seconds).unwrap_or(1)));
    }
}

/// A JSON object of strings.
fn string_map(value: Option<&Value>) -> BTreeMap<String, String> {
    let map = value.and_then(Value::as_object);
    let pairs = map.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    pairs.collect()
}

/// The API's form of a time: whole seconds.
fn seconds(time: Timestamp) -> Value {
    json!(quorate_api::time::Time::from_timestamp(time))
}
