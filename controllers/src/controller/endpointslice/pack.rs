//! Puts endpoints into slices with as few writes as possible: what is in a slice stays there while it fits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_api::name::ObjectKey;
use serde_json::{Value, json};

use crate::action::{Action, Create, Delete, Target};
use crate::cache::{Cache, Delta};
use crate::controller::seconds;
use crate::projection::{Endpoint, EndpointPort, EndpointSlice, Projected};
use crate::resource::Kind;

/// Endpoints of one slice at most.
pub const MAX_ENDPOINTS: usize = 100;
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";
pub const MANAGER_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
pub const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What all slices of one owner have in common.
#[derive(Clone, Debug)]
pub struct SliceOwner {
    pub namespace: String,
    pub service: String,
    pub manager: &'static str,
    pub labels: BTreeMap<String, String>,
    pub reference: Value,
}

/// Endpoints that may share slices.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub address_type: String,
    pub ports: Vec<EndpointPort>,
    pub endpoints: Vec<Endpoint>,
}

/// The service that a slice of this manager belongs to.
pub fn service_of_slice(delta: &Delta<EndpointSlice>, manager: &str) -> Vec<ObjectKey> {
    let ours = delta.states().filter(|slice| is_managed(slice, manager));
    let mut keys: Vec<ObjectKey> = ours
        .filter_map(|slice| Some(ObjectKey::namespaced(slice.namespace(), slice.labels().get(SERVICE_LABEL)?)))
        .collect();
    keys.dedup();
    keys
}

fn is_managed(slice: &EndpointSlice, manager: &str) -> bool {
    slice.labels().get(MANAGER_LABEL).is_some_and(|own| own == manager)
}

pub fn managed_slices(cache: &Cache, service: &ObjectKey, manager: &str) -> Vec<Arc<EndpointSlice>> {
    cache.endpoint_slices.select(service.namespace.as_deref().unwrap_or_default(), |slice| {
        is_managed(slice, manager) && slice.labels().get(SERVICE_LABEL) == Some(&service.name) && !slice.is_deleting()
    })
}

pub fn delete(slice: &EndpointSlice) -> Action {
    let target = Target::namespaced(Kind::EndpointSlice.resource(), slice.namespace(), slice.name());
    Action::Delete(Delete::of(target, Some(slice.uid().to_owned())))
}

pub fn reconcile(
    owner: &SliceOwner,
    slices: &[Arc<EndpointSlice>],
    groups: Vec<Group>,
    now: jiff::Timestamp,
) -> Vec<Action> {
    let mut kept = BTreeSet::new();
    let mut actions = Vec::new();
    for group in groups {
        let fits = |slice: &&Arc<EndpointSlice>| {
            slice.address_type == group.address_type && sorted(slice.ports.clone()) == group.ports
        };
        let own: Vec<&Arc<EndpointSlice>> = slices.iter().filter(fits).collect();
        let (filled, rest) = fill(&own, group.endpoints);
        let mut used = false;
        for (slice, endpoints) in own.iter().zip(filled) {
            // An owner without any endpoint keeps one empty slice, so that readers can tell "none" from "not yet".
            let placeholder = !used && rest.is_empty() && endpoints.is_empty() && own.len() == 1;
            if endpoints.is_empty() && !placeholder {
                continue;
            }
            used = true;
            kept.insert(slice.name().to_owned());
            actions.extend(update(owner, slice, &endpoints, now));
        }
        let missing: Vec<&[Endpoint]> =
            if rest.is_empty() && !used { vec![&[]] } else { rest.chunks(MAX_ENDPOINTS).collect() };
        for endpoints in missing {
            actions.push(create(owner, &group.address_type, &group.ports, endpoints, now));
        }
    }
    actions.extend(slices.iter().filter(|slice| !kept.contains(slice.name())).map(|slice| delete(slice)));
    actions
}

fn sorted(mut ports: Vec<EndpointPort>) -> Vec<EndpointPort> {
    ports.sort();
    ports
}

/// The new content of each slice, and the endpoints for which there is no room.
fn fill(slices: &[&Arc<EndpointSlice>], endpoints: Vec<Endpoint>) -> (Vec<Vec<Endpoint>>, Vec<Endpoint>) {
    let mut wanted: BTreeMap<_, Endpoint> = endpoints.into_iter().map(|own| (identity(&own), own)).collect();
    let mut filled: Vec<Vec<Endpoint>> = slices
        .iter()
        .map(|slice| {
            let stay = slice.endpoints.iter().filter_map(|own| wanted.remove(&identity(own)));
            stay.take(MAX_ENDPOINTS).collect()
        })
        .collect();
    let mut rest: Vec<Endpoint> = wanted.into_values().collect();
    let mut by_room: Vec<&mut Vec<Endpoint>> = filled.iter_mut().collect();
    by_room.sort_by_key(|content| std::cmp::Reverse(content.len()));
    for content in by_room {
        let room = MAX_ENDPOINTS - content.len();
        content.extend(rest.drain(..rest.len().min(room)));
    }
    (filled, rest)
}

/// Who the endpoint is; the rest of it may change in place.
fn identity(endpoint: &Endpoint) -> (Vec<String>, Option<String>, Option<String>) {
    let target = endpoint.target_ref.as_ref();
    (endpoint.addresses.clone(), endpoint.hostname.clone(), target.and_then(|target| target.uid.clone()))
}

fn labels(owner: &SliceOwner) -> BTreeMap<String, String> {
    let mut labels = owner.labels.clone();
    labels.insert(SERVICE_LABEL.to_owned(), owner.service.clone());
    labels.insert(MANAGER_LABEL.to_owned(), owner.manager.to_owned());
    labels
}

fn update(owner: &SliceOwner, slice: &EndpointSlice, endpoints: &[Endpoint], now: jiff::Timestamp) -> Option<Action> {
    let labels = labels(owner);
    let mut body = json!({});
    if slice.labels() != &labels {
        let dropped = slice.labels().keys().filter(|key| !labels.contains_key(*key));
        let dropped: BTreeMap<String, Value> = dropped.map(|key| (key.clone(), Value::Null)).collect();
        body["metadata"]["labels"] = json!(dropped);
        for (key, value) in &labels {
            body["metadata"]["labels"][key] = json!(value);
        }
    }
    if !same(&slice.endpoints, endpoints) {
        body["endpoints"] = json!(endpoints);
        body["metadata"]["annotations"] = json!({LAST_CHANGE: seconds(now)});
    }
    if body == json!({}) {
        return None;
    }
    body["metadata"]["uid"] = json!(slice.uid());
    let target = Target::namespaced(Kind::EndpointSlice.resource(), slice.namespace(), slice.name());
    Some(Action::merge(target, body))
}

fn same(a: &[Endpoint], b: &[Endpoint]) -> bool {
    let set = |endpoints: &[Endpoint]| endpoints.iter().cloned().collect::<BTreeSet<_>>();
    a.len() == b.len() && set(a) == set(b)
}

fn create(
    owner: &SliceOwner,
    address_type: &str,
    ports: &[EndpointPort],
    endpoints: &[Endpoint],
    now: jiff::Timestamp,
) -> Action {
    Action::Create(Create {
        resource: Kind::EndpointSlice.resource(),
        namespace: Some(owner.namespace.clone()),
        body: json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "generateName": format!("{}-", owner.service),
                "namespace": owner.namespace,
                "labels": labels(owner),
                "annotations": {LAST_CHANGE: seconds(now)},
                "ownerReferences": [owner.reference],
            },
            "addressType": address_type,
            "endpoints": endpoints,
            "ports": ports,
        }),
    })
}
