//! The older Endpoints object of each service with a selector, for clients that still read it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use quorate_api::name::ObjectKey;
use serde_json::{Value, json};

use super::endpointslice::pack::LAST_CHANGE;
use super::endpointslice::{HEADLESS_LABEL, family_of, hostname, ports, selects, services_of_pod, target_ref};
use super::seconds;
use crate::action::{Action, Create, Delete, Plan, Target};
use crate::cache::{Cache, Change};
use crate::projection::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Projected, Service};
use crate::resource::Kind;
use crate::runner::{Pass, Pure};

#[cfg(test)]
mod tests;

/// Addresses of one object at most; what is left out is in the slices.
const MAX_ADDRESSES: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const MANAGER_LABEL: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

#[derive(Clone, Debug)]
pub struct Observed {
    pub key: ObjectKey,
    pub service: Option<Arc<Service>>,
    pub endpoints: Option<Arc<Endpoints>>,
    pub pods: Vec<Arc<Pod>>,
}

pub fn controller() -> Pure {
    Pure {
        name: "endpoint",
        account: "endpoint-controller",
        component: "endpoint-controller",
        wakes,
        plan: |pass, key| plan(&observe(pass, key), pass.now),
    }
}

fn wakes(cache: &Cache, change: &Change) -> Vec<ObjectKey> {
    match change {
        Change::Service(delta) => vec![delta.key.clone()],
        Change::Pod(delta) => services_of_pod(cache, delta),
        Change::Endpoints(delta) => {
            let orphaned = || cache.services.get(&delta.key).is_none();
            if delta.new.is_none() || orphaned() { vec![delta.key.clone()] } else { Vec::new() }
        }
        _ => Vec::new(),
    }
}

fn observe(pass: &Pass, key: &ObjectKey) -> Observed {
    let service = pass.cache.services.get(key);
    let pods = match &service {
        Some(service) => pass.cache.pods.select(service.namespace(), |pod| selects(service, pod)),
        None => Vec::new(),
    };
    Observed { key: key.clone(), service, endpoints: pass.cache.endpoints.get(key), pods }
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let Some(service) = &observed.service else { return leftover(observed) };
    if service.spec.kind == "ExternalName" || service.spec.selector.is_empty() || service.is_deleting() {
        return Plan::nothing();
    }
    let (subsets, complete) = subsets(service, &observed.pods);
    let labels = labels(service);
    let Some(current) = &observed.endpoints else { return Plan::of(vec![create(service, &subsets, &labels, now)]) };
    let mut body = json!({});
    if current.subsets != subsets {
        body["subsets"] = json!(subsets);
        body["metadata"]["annotations"][LAST_CHANGE] = seconds(now);
        body["metadata"]["annotations"][OVER_CAPACITY] = if complete { Value::Null } else { json!("truncated") };
    }
    if current.labels() != &labels {
        let mut changed: BTreeMap<String, Value> =
            current.labels().keys().map(|key| (key.clone(), Value::Null)).collect();
        changed.extend(labels.iter().map(|(key, value)| (key.clone(), json!(value))));
        body["metadata"]["labels"] = json!(changed);
    }
    if body == json!({}) {
        return Plan::nothing();
    }
    body["metadata"]["uid"] = json!(current.uid());
    let target = Target::namespaced(Kind::Endpoints.resource(), service.namespace(), service.name());
    Plan::of(vec![Action::merge(target, body)])
}

/// The service is gone, and Endpoints have no owner reference to follow it by.
fn leftover(observed: &Observed) -> Plan {
    let Some(endpoints) = &observed.endpoints else { return Plan::nothing() };
    if endpoints.is_deleting() || !endpoints.owners().is_empty() {
        return Plan::nothing();
    }
    let target = Target::namespaced(Kind::Endpoints.resource(), endpoints.namespace(), endpoints.name());
    let service = Target { resource: Kind::Service.resource(), ..target.clone() };
    let delete = Delete::of(target, Some(endpoints.uid().to_owned()));
    Plan::of(vec![Action::ConfirmAbsent { target: service }, Action::Delete(delete)])
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.labels().clone();
    labels.insert(MANAGER_LABEL.to_owned(), MANAGER.to_owned());
    if service.is_headless() {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS_LABEL);
    }
    labels
}

fn create(service: &Service, subsets: &[EndpointSubset], labels: &BTreeMap<String, String>, now: Timestamp) -> Action {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": service.name(),
            "namespace": service.namespace(),
            "labels": labels,
            "annotations": {LAST_CHANGE: seconds(now)},
        },
        "subsets": subsets,
    });
    let namespace = Some(service.namespace().to_owned());
    Action::Create(Create { resource: Kind::Endpoints.resource(), namespace, body })
}

/// Addresses with the same ports form a subset. The flag says whether all of them found room.
fn subsets(service: &Service, pods: &[Arc<Pod>]) -> (Vec<EndpointSubset>, bool) {
    let family = service.spec.ip_families.first().map_or("IPv4", String::as_str);
    let mut by_port: BTreeMap<Option<EndpointPort>, BTreeSet<(bool, EndpointAddress)>> = BTreeMap::new();
    let mut taken = 0;
    let mut complete = true;
    for pod in pods {
        let tolerated = service.spec.publish_not_ready_addresses;
        let address = pod.addresses().into_iter().find(|ip| family_of(ip) == family).map(str::to_owned);
        let Some(ip) = address.filter(|_| !pod.is_finished() && (tolerated || !pod.is_deleting())) else { continue };
        if taken == MAX_ADDRESSES {
            complete = false;
            break;
        }
        taken += 1;
        let ready = tolerated || pod.is_ready();
        let own = ports(service, pod);
        let headless_without_ports = service.spec.ports.is_empty() && service.is_headless();
        let keys: Vec<Option<EndpointPort>> =
            if headless_without_ports { vec![None] } else { own.into_iter().map(|port| Some(unnamed(port))).collect() };
        for port in keys {
            by_port.entry(port).or_default().insert((!ready, address_of(service, pod, ip.clone())));
        }
    }
    let mut by_addresses: BTreeMap<BTreeSet<(bool, EndpointAddress)>, Vec<EndpointPort>> = BTreeMap::new();
    for (port, addresses) in by_port {
        by_addresses.entry(addresses).or_default().extend(port);
    }
    let subset = |(addresses, ports): (BTreeSet<(bool, EndpointAddress)>, Vec<EndpointPort>)| {
        let (not_ready, ready): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|(not_ready, _)| *not_ready);
        let strip = |all: Vec<(bool, EndpointAddress)>| all.into_iter().map(|(_, address)| address).collect();
        EndpointSubset { addresses: strip(ready), not_ready_addresses: strip(not_ready), ports }
    };
    (by_addresses.into_iter().map(subset).collect(), complete)
}

/// Here a port without a name has no name, while a slice gives it the empty one.
fn unnamed(port: EndpointPort) -> EndpointPort {
    EndpointPort { name: port.name.filter(|name| !name.is_empty()), ..port }
}

fn address_of(service: &Service, pod: &Pod, ip: String) -> EndpointAddress {
    EndpointAddress {
        ip,
        hostname: hostname(service, pod),
        node_name: Some(pod.spec.node_name.clone()).filter(|node| !node.is_empty()),
        target_ref: Some(target_ref(pod)),
    }
}
