//! What the node knows of Services and their endpoints: one store, read by the service proxy and by DNS.
//!
//! Pure: changes go in, the keys of the touched services come out. Objects are kept as projections ([`Service`],
//! [`Slice`]), so that the memory follows the number of addresses, not the size of the objects.
//!
//! Endpoints objects count only while a service has no EndpointSlice: somebody who writes Endpoints by hand is served
//! even when no controller mirrors them, and a mirrored pair is not counted twice.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::RwLock;

pub use self::convert::{service_from, slice_from, slice_from_endpoints};
pub use self::object::{Endpoint, EndpointPort, Group, Kind, Protocol, Service, ServiceKey, ServicePort, Slice};

mod convert;
mod object;
#[cfg(test)]
pub(crate) use self::object::samples;

/// A catalog that the owner task writes and others read.
pub type SharedCatalog = Arc<RwLock<Catalog>>;

/// One step of change, as the watches deliver it.
#[derive(Debug, Clone)]
pub enum Change {
    Service(Service),
    ServiceGone(ServiceKey),
    /// The complete list after a (re-)list.
    Services(Vec<Service>),
    Slice(SliceSource, Slice),
    SliceGone(SliceSource, ServiceKey),
    Slices(SliceSource, Vec<Slice>),
}

/// Where a [`Slice`] was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SliceSource {
    EndpointSlice,
    /// The older object, used while no EndpointSlice belongs to the service.
    Endpoints,
}

impl SliceSource {
    const ALL: [Self; 2] = [Self::EndpointSlice, Self::Endpoints];
}

/// Name of a slice object; the namespace is that of its service.
type SliceKey = (SliceSource, ServiceKey);

#[derive(Debug, Default, Clone)]
pub struct Catalog {
    services: BTreeMap<ServiceKey, Service>,
    slices: BTreeMap<SliceKey, Slice>,
    by_service: BTreeMap<ServiceKey, BTreeSet<SliceKey>>,
    /// Services that an address belongs to, as a cluster IP or as an endpoint. Serves reverse look-ups.
    by_address: BTreeMap<IpAddr, BTreeSet<ServiceKey>>,
    /// What `by_address` holds for a service, so that it can be taken out again.
    addresses_of: BTreeMap<ServiceKey, BTreeSet<IpAddr>>,
    services_listed: bool,
    slices_listed: BTreeSet<SliceSource>,
}

impl Catalog {
    /// Take in a change; returns the services whose desired state may have changed.
    pub fn apply(&mut self, change: Change) -> BTreeSet<ServiceKey> {
        let dirty = match change {
            Change::Service(service) => self.put_service(service),
            Change::ServiceGone(key) => self.drop_service(&key),
            Change::Services(list) => self.replace_services(list),
            Change::Slice(source, slice) => self.put_slice(source, slice),
            Change::SliceGone(source, key) => self.drop_slice(&(source, key)),
            Change::Slices(source, list) => self.replace_slices(source, list),
        };
        for key in &dirty {
            self.index_addresses(key);
        }
        dirty
    }

    /// Whether every kind was listed once: before, what is not here may well exist.
    pub fn is_complete(&self) -> bool {
        self.services_listed && self.slices_listed.len() == SliceSource::ALL.len()
    }

    pub fn service(&self, key: &ServiceKey) -> Option<&Service> {
        self.services.get(key)
    }

    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.values()
    }

    pub fn has_namespace(&self, namespace: &str) -> bool {
        let first = ServiceKey { namespace: namespace.to_owned(), name: String::new() };
        self.services.range(first..).next().is_some_and(|(key, _)| key.namespace == namespace)
    }

    /// The endpoints that count for a service: those of its EndpointSlices, or else of its Endpoints.
    pub fn groups_of(&self, service: &ServiceKey) -> impl Iterator<Item = &Group> {
        let keys = self.by_service.get(service);
        let source = keys.and_then(BTreeSet::first).map(|key| key.0);
        keys.into_iter()
            .flatten()
            .filter(move |key| Some(key.0) == source)
            .filter_map(|key| self.slices.get(key))
            .flat_map(|slice| &slice.groups)
    }

    /// Services that have this cluster IP or this endpoint.
    pub fn services_at(&self, address: IpAddr) -> impl Iterator<Item = &Service> {
        self.by_address.get(&address).into_iter().flatten().filter_map(|key| self.services.get(key))
    }

    fn put_service(&mut self, service: Service) -> BTreeSet<ServiceKey> {
        let key = service.key.clone();
        if self.services.get(&key) == Some(&service) {
            return BTreeSet::new();
        }
        self.services.insert(key.clone(), service);
        BTreeSet::from([key])
    }

    fn drop_service(&mut self, key: &ServiceKey) -> BTreeSet<ServiceKey> {
        self.services.remove(key).map(|service| service.key).into_iter().collect()
    }

    fn replace_services(&mut self, list: Vec<Service>) -> BTreeSet<ServiceKey> {
        self.services_listed = true;
        let kept: BTreeSet<ServiceKey> = list.iter().map(|service| service.key.clone()).collect();
        let gone: Vec<ServiceKey> = self.services.keys().filter(|key| !kept.contains(*key)).cloned().collect();
        let mut dirty: BTreeSet<ServiceKey> = gone.iter().flat_map(|key| self.drop_service(key)).collect();
        dirty.extend(list.into_iter().flat_map(|service| self.put_service(service)));
        dirty
    }

    fn put_slice(&mut self, source: SliceSource, slice: Slice) -> BTreeSet<ServiceKey> {
        let key = (source, slice.key.clone());
        if self.slices.get(&key) == Some(&slice) {
            return BTreeSet::new();
        }
        // The label that names the service may have changed.
        let mut dirty = self.drop_slice(&key);
        dirty.insert(slice.service.clone());
        self.by_service.entry(slice.service.clone()).or_default().insert(key.clone());
        self.slices.insert(key, slice);
        dirty
    }

    fn drop_slice(&mut self, key: &SliceKey) -> BTreeSet<ServiceKey> {
        let Some(slice) = self.slices.remove(key) else { return BTreeSet::new() };
        if let Some(keys) = self.by_service.get_mut(&slice.service) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_service.remove(&slice.service);
            }
        }
        BTreeSet::from([slice.service])
    }

    fn replace_slices(&mut self, source: SliceSource, list: Vec<Slice>) -> BTreeSet<ServiceKey> {
        self.slices_listed.insert(source);
        let kept: BTreeSet<SliceKey> = list.iter().map(|slice| (source, slice.key.clone())).collect();
        let gone: Vec<SliceKey> =
            self.slices.keys().filter(|key| key.0 == source && !kept.contains(*key)).cloned().collect();
        let mut dirty: BTreeSet<ServiceKey> = gone.iter().flat_map(|key| self.drop_slice(key)).collect();
        dirty.extend(list.into_iter().flat_map(|slice| self.put_slice(source, slice)));
        dirty
    }

    fn index_addresses(&mut self, key: &ServiceKey) {
        let current = self.addresses_to_index(key);
        let previous = self.addresses_of.remove(key).unwrap_or_default();
        for address in previous.difference(&current) {
            if let Some(keys) = self.by_address.get_mut(address) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_address.remove(address);
                }
            }
        }
        for address in current.difference(&previous) {
            self.by_address.entry(*address).or_default().insert(key.clone());
        }
        if !current.is_empty() {
            self.addresses_of.insert(key.clone(), current);
        }
    }

    fn addresses_to_index(&self, key: &ServiceKey) -> BTreeSet<IpAddr> {
        let Some(service) = self.services.get(key) else { return BTreeSet::new() };
        let endpoints = self.groups_of(key).flat_map(|group| &group.endpoints).map(|endpoint| endpoint.address);
        service.cluster_ips.iter().copied().chain(endpoints).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::object::samples::{endpoint, service, slice};
    use super::*;

    fn key(name: &str) -> ServiceKey {
        ServiceKey::new("default", name)
    }

    fn endpoint_addresses(catalog: &Catalog, name: &str) -> Vec<String> {
        catalog
            .groups_of(&key(name))
            .flat_map(|group| &group.endpoints)
            .map(|endpoint| endpoint.address.to_string())
            .collect()
    }

    #[test]
    fn endpoints_objects_count_only_without_slices() {
        let mut catalog = Catalog::default();
        catalog.apply(Change::Service(service("web", "10.96.0.5")));
        catalog.apply(Change::Slice(SliceSource::Endpoints, slice("web", "web", [endpoint("10.0.0.1")])));
        assert_eq!(endpoint_addresses(&catalog, "web"), ["10.0.0.1"]);
        catalog.apply(Change::Slice(SliceSource::EndpointSlice, slice("web-x", "web", [endpoint("10.0.0.2")])));
        assert_eq!(endpoint_addresses(&catalog, "web"), ["10.0.0.2"]);
        catalog.apply(Change::SliceGone(SliceSource::EndpointSlice, key("web-x")));
        assert_eq!(endpoint_addresses(&catalog, "web"), ["10.0.0.1"]);
    }

    #[test]
    fn a_relist_removes_what_is_gone_and_names_only_what_changed() {
        let mut catalog = Catalog::default();
        catalog.apply(Change::Services(vec![service("a", "10.96.0.1"), service("b", "10.96.0.2")]));
        let dirty = catalog.apply(Change::Services(vec![service("b", "10.96.0.2"), service("c", "10.96.0.3")]));
        assert_eq!(dirty, BTreeSet::from([key("a"), key("c")]));
        assert!(catalog.service(&key("a")).is_none());
    }

    #[test]
    fn a_slice_that_moves_to_another_service_touches_both() {
        let mut catalog = Catalog::default();
        catalog.apply(Change::Slice(SliceSource::EndpointSlice, slice("s", "a", [endpoint("10.0.0.1")])));
        let dirty = catalog.apply(Change::Slice(SliceSource::EndpointSlice, slice("s", "b", [endpoint("10.0.0.1")])));
        assert_eq!(dirty, BTreeSet::from([key("a"), key("b")]));
        assert_eq!(endpoint_addresses(&catalog, "a"), Vec::<String>::new());
    }

    #[test]
    fn reverse_index_follows_services_and_endpoints() {
        let mut catalog = Catalog::default();
        catalog.apply(Change::Slice(SliceSource::EndpointSlice, slice("s", "web", [endpoint("10.0.0.1")])));
        catalog.apply(Change::Service(service("web", "10.96.0.5")));
        let names = |catalog: &Catalog, address: &str| -> Vec<String> {
            catalog.services_at(address.parse().unwrap()).map(|service| service.key.name.clone()).collect()
        };
        assert_eq!(names(&catalog, "10.96.0.5"), ["web"]);
        assert_eq!(names(&catalog, "10.0.0.1"), ["web"]);
        catalog.apply(Change::ServiceGone(key("web")));
        assert!(names(&catalog, "10.0.0.1").is_empty() && catalog.by_address.is_empty());
    }
}
