//! Hand-made Endpoints of services without a selector, mirrored into slices, so that readers need only know slices.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_api::name::ObjectKey;

use super::controller_reference;
use super::endpointslice::family_of;
use super::endpointslice::pack::{self, Group, SliceOwner};
use crate::action::Plan;
use crate::cache::{Cache, Change};
use crate::projection::{
    Endpoint, EndpointAddress, EndpointConditions, EndpointPort, EndpointSlice, Endpoints, Projected, Service,
};
use crate::resource::Kind;
use crate::runner::{Pass, Pure};

#[cfg(test)]
mod tests;

pub const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Old leader elections keep their records in Endpoints; nobody serves there.
const ELECTION_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
/// Addresses of one subset at most, of each readiness.
const MAX_ADDRESSES: usize = 1000;

#[derive(Clone, Debug)]
pub struct Observed {
    pub service: Option<Arc<Service>>,
    pub endpoints: Option<Arc<Endpoints>>,
    pub slices: Vec<Arc<EndpointSlice>>,
}

pub fn controller() -> Pure {
    Pure {
        name: "endpoint_slice_mirroring",
        account: "endpointslicemirroring-controller",
        component: "endpoint-slice-mirroring-controller",
        wakes,
        plan: |pass, key| plan(&observe(pass, key), pass.now),
    }
}

fn wakes(_cache: &Cache, change: &Change) -> Vec<ObjectKey> {
    match change {
        Change::Service(delta) => vec![delta.key.clone()],
        Change::Endpoints(delta) => vec![delta.key.clone()],
        Change::EndpointSlice(delta) => pack::service_of_slice(delta, MANAGER),
        _ => Vec::new(),
    }
}

fn observe(pass: &Pass, key: &ObjectKey) -> Observed {
    Observed {
        service: pass.cache.services.get(key),
        endpoints: pass.cache.endpoints.get(key),
        slices: pack::managed_slices(&pass.cache, key, MANAGER),
    }
}

pub fn plan(observed: &Observed, now: jiff::Timestamp) -> Plan {
    let serves = observed.service.as_ref().is_some_and(|service| {
        service.spec.selector.is_empty() && service.spec.kind != "ExternalName" && !service.is_deleting()
    });
    let mirrored = observed.endpoints.as_ref().filter(|endpoints| serves && wants_mirror(endpoints));
    let Some(endpoints) = mirrored else {
        return Plan::of(observed.slices.iter().map(|slice| pack::delete(slice)).collect());
    };
    let owner = SliceOwner {
        namespace: endpoints.namespace().to_owned(),
        service: endpoints.name().to_owned(),
        manager: MANAGER,
        labels: endpoints.labels().clone(),
        reference: controller_reference(Kind::Endpoints, endpoints.as_ref()),
    };
    Plan::of(pack::reconcile(&owner, &observed.slices, groups(endpoints), now))
}

fn wants_mirror(endpoints: &Endpoints) -> bool {
    !endpoints.is_deleting()
        && endpoints.labels().get(SKIP_LABEL).is_none_or(|skip| skip != "true")
        && !endpoints.annotations().contains_key(ELECTION_ANNOTATION)
}

fn groups(endpoints: &Endpoints) -> Vec<Group> {
    let mut groups: BTreeMap<(String, Vec<EndpointPort>), Vec<Endpoint>> = BTreeMap::new();
    for subset in &endpoints.subsets {
        let mut ports: Vec<EndpointPort> = subset.ports.iter().map(named).collect();
        ports.sort();
        let ready = subset.addresses.iter().take(MAX_ADDRESSES).map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().take(MAX_ADDRESSES).map(|address| (address, false));
        for (address, ready) in ready.chain(not_ready) {
            let key = (family_of(&address.ip).to_owned(), ports.clone());
            groups.entry(key).or_default().push(endpoint(address, ready));
        }
    }
    let group = |((address_type, ports), endpoints)| Group { address_type, ports, endpoints };
    groups.into_iter().map(group).collect()
}

fn named(port: &EndpointPort) -> EndpointPort {
    EndpointPort { name: Some(port.name.clone().unwrap_or_default()), ..port.clone() }
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: EndpointConditions { ready: Some(ready), serving: None, terminating: None },
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        zone: None,
    }
}
