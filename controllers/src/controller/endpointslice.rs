//! EndpointSlices of services with a selector: the pods behind each service, by address family and ports.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_api::int_or_string::IntOrString;
use quorate_api::name::ObjectKey;

use super::controller_reference;
use crate::action::Plan;
use crate::cache::{Cache, Change, Delta};
use crate::projection::{
    Endpoint, EndpointConditions, EndpointPort, EndpointSlice, Pod, Projected, Service, ServicePort, TargetRef,
};
use crate::resource::Kind;
use crate::runner::{Pass, Pure};

pub mod pack;
#[cfg(test)]
mod tests;

use pack::{Group, SliceOwner};

pub const MANAGER: &str = "endpointslice-controller.k8s.io";
pub(super) const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";

#[derive(Clone, Debug)]
pub struct Observed {
    pub service: Arc<Service>,
    pub pods: Vec<Arc<Pod>>,
    pub slices: Vec<Arc<EndpointSlice>>,
    /// Node name → zone.
    pub zones: BTreeMap<String, String>,
}

pub fn controller() -> Pure {
    Pure {
        name: "endpoint_slice",
        account: "endpointslice-controller",
        component: "endpoint-slice-controller",
        wakes,
        plan: |pass, key| observe(pass, key).map_or_else(Plan::nothing, |observed| plan(&observed, pass.now)),
    }
}

fn wakes(cache: &Cache, change: &Change) -> Vec<ObjectKey> {
    match change {
        Change::Service(delta) => vec![delta.key.clone()],
        Change::Pod(delta) => services_of_pod(cache, delta),
        Change::EndpointSlice(delta) => pack::service_of_slice(delta, MANAGER),
        Change::Node(delta) => {
            let zone =
                |node: &Option<Arc<crate::projection::Node>>| node.as_ref().and_then(|node| node.zone().cloned());
            if zone(&delta.old) == zone(&delta.new) { Vec::new() } else { keys_with_selector(cache) }
        }
        _ => Vec::new(),
    }
}

fn keys_with_selector(cache: &Cache) -> Vec<ObjectKey> {
    let services = cache.services.all();
    services.iter().filter(|service| !service.spec.selector.is_empty()).map(|service| service.key()).collect()
}

/// The services that select the pod, now or before the change.
pub(super) fn services_of_pod(cache: &Cache, delta: &Delta<Pod>) -> Vec<ObjectKey> {
    let (Some(namespace), false) = (delta.key.namespace.as_deref(), is_irrelevant(delta)) else { return Vec::new() };
    let selects = |service: &Service| delta.states().any(|pod| selects(service, pod));
    cache.services.select(namespace, selects).iter().map(|service| service.key()).collect()
}

/// Most changes of a pod (container states, probes that repeat) do not concern its services.
fn is_irrelevant(delta: &Delta<Pod>) -> bool {
    let (Some(old), Some(new)) = (&delta.old, &delta.new) else { return false };
    old.labels() == new.labels()
        && old.spec == new.spec
        && old.is_ready() == new.is_ready()
        && old.is_finished() == new.is_finished()
        && old.is_deleting() == new.is_deleting()
        && old.addresses() == new.addresses()
}

pub(super) fn selects(service: &Service, pod: &Pod) -> bool {
    let selector = &service.spec.selector;
    !selector.is_empty() && selector.iter().all(|(key, value)| pod.labels().get(key) == Some(value))
}

fn observe(pass: &Pass, key: &ObjectKey) -> Option<Observed> {
    let service = pass.cache.services.get(key)?;
    let pods = pass.cache.pods.select(service.namespace(), |pod| selects(&service, pod));
    let slices = pack::managed_slices(&pass.cache, key, MANAGER);
    let nodes = pass.cache.nodes.all();
    let zones = nodes.iter().filter_map(|node| Some((node.name().to_owned(), node.zone()?.clone()))).collect();
    Some(Observed { service, pods, slices, zones })
}

pub fn plan(observed: &Observed, now: jiff::Timestamp) -> Plan {
    let service = observed.service.as_ref();
    if service.spec.kind == "ExternalName" || service.spec.selector.is_empty() || service.is_deleting() {
        return Plan::nothing();
    }
    let mut labels = service.labels().clone();
    if service.is_headless() {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS_LABEL);
    }
    let owner = SliceOwner {
        namespace: service.namespace().to_owned(),
        service: service.name().to_owned(),
        manager: MANAGER,
        labels,
        reference: controller_reference(Kind::Service, service),
    };
    let families =
        if service.spec.ip_families.is_empty() { vec!["IPv4".to_owned()] } else { service.spec.ip_families.clone() };
    let groups = families.iter().flat_map(|family| groups(observed, family)).collect();
    Plan::of(pack::reconcile(&owner, &observed.slices, groups, now))
}

/// Pods with the same ports share slices; a family without any still gets one empty slice.
fn groups(observed: &Observed, family: &str) -> Vec<Group> {
    let mut by_ports: BTreeMap<Vec<EndpointPort>, Vec<Endpoint>> = BTreeMap::new();
    for pod in &observed.pods {
        let address = pod.addresses().into_iter().find(|ip| family_of(ip) == family).map(str::to_owned);
        let Some(address) = address.filter(|_| !pod.is_finished()) else { continue };
        let ports = ports(&observed.service, pod);
        by_ports.entry(ports).or_default().push(endpoint(observed, pod, address));
    }
    if by_ports.is_empty() {
        by_ports.insert(Vec::new(), Vec::new());
    }
    let group = |(ports, endpoints)| Group { address_type: family.to_owned(), ports, endpoints };
    by_ports.into_iter().map(group).collect()
}

pub(super) fn family_of(ip: &str) -> &'static str {
    if ip.contains(':') { "IPv6" } else { "IPv4" }
}

fn endpoint(observed: &Observed, pod: &Pod, address: String) -> Endpoint {
    let service = &observed.service;
    let (serving, terminating) = (pod.is_ready(), pod.is_deleting());
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    let node = &pod.spec.node_name;
    Endpoint {
        addresses: vec![address],
        conditions: EndpointConditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) },
        hostname: hostname(service, pod),
        node_name: Some(node.clone()).filter(|node| !node.is_empty()),
        target_ref: Some(target_ref(pod)),
        zone: observed.zones.get(node).cloned(),
    }
}

/// A pod that names the service as its subdomain gets a DNS name of its own below it.
pub(super) fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let named = !pod.spec.hostname.is_empty() && pod.spec.subdomain == service.name();
    named.then(|| pod.spec.hostname.clone())
}

pub(super) fn target_ref(pod: &Pod) -> TargetRef {
    TargetRef {
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace().to_owned()),
        name: Some(pod.name().to_owned()),
        uid: Some(pod.uid().to_owned()),
    }
}

/// The service's ports as this pod has them. A port that the pod does not name is left out.
pub(super) fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let resolved = service.spec.ports.iter().filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone()),
            protocol: Some(protocol(&port.protocol).to_owned()),
            port: Some(target_port(port, pod)?),
            app_protocol: port.app_protocol.clone(),
        })
    });
    let mut ports: Vec<EndpointPort> = resolved.collect();
    ports.sort();
    ports
}

fn protocol(text: &str) -> &str {
    if text.is_empty() { "TCP" } else { text }
}

fn target_port(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        None | Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let mut named = pod.port_containers().flat_map(|container| &container.ports);
            let found = named.find(|own| own.name == *name && protocol(&own.protocol) == protocol(&port.protocol));
            found.map(|own| own.container_port)
        }
    }
}
