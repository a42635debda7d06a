//! What the kernel holds, and what has to change: a shadow of the maps.
//!
//! Every element is claimed by an [`Owner`] (a service, a pod's host ports, the node). Where two owners claim one key
//! with different values the first claim stands, and the other takes over when it goes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::element::{Backend, Chain, DROP_POOL, EndpointId, Key, PoolId, Value};
use super::plan::{HostPort, Plan, Pool, PoolName, Target};
use crate::network::catalog::ServiceKey;

/// Who wants an element.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The node itself: pod address ranges.
    Node,
    Service(ServiceKey),
    /// The host ports of a sandbox.
    Sandbox(String),
}

/// Where UDP clients send to, and who may answer; `None` when nobody does any more.
pub type UdpFronts = BTreeMap<(Option<Ipv4Addr>, u16), Option<BTreeSet<Backend>>>;

/// Changes for one transaction, in the order in which they must be written: removals first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta {
    pub removed: Vec<Key>,
    pub added: Vec<(Key, Value)>,
}

impl Delta {
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// Chains the added elements lead to.
    pub fn chains(&self) -> BTreeSet<Chain> {
        self.added
            .iter()
            .filter_map(|(_, value)| match value {
                Value::Chain(chain) => Some(*chain),
                Value::Present | Value::Pool(_) | Value::Backend(_) | Value::Endpoint(_) | Value::Verdict(_) => None,
            })
            .collect()
    }
}

#[derive(Debug, Default)]
pub struct Model {
    owners: Ids<Owner>,
    claims: BTreeMap<u32, BTreeMap<Key, Value>>,
    effective: BTreeMap<Key, (u32, Value)>,
    /// Claims that lost to an earlier one.
    contested: BTreeMap<Key, BTreeMap<u32, Value>>,
    pool_ids: Ids<PoolName>,
    endpoint_ids: Ids<(PoolName, Backend)>,
    /// The slots of each pool in order. Kept, so that a change moves few slots.
    slots: BTreeMap<PoolName, Vec<Backend>>,
    /// Pools of each owner.
    pools: BTreeMap<u32, BTreeSet<PoolName>>,
    /// What the kernel had, for the keys that may have changed since the last [`Model::take_delta`].
    before: BTreeMap<Key, Option<Value>>,
}

impl Model {
    /// Set the desired state of a service. An empty plan removes it.
    pub fn set_service(&mut self, key: &ServiceKey, plan: &Plan) {
        let owner = Owner::Service(key.clone());
        let id = self.owners.of(&owner);
        let mut elements = BTreeMap::new();
        for (name, pool) in &plan.pools {
            self.pool_elements(name, pool, &mut elements);
        }
        self.forget_pools(id, plan);
        for (front, target) in &plan.fronts {
            elements.extend(self.front_element(*front, target));
        }
        elements.extend(plan.hairpin.iter().map(|address| (Key::Hairpin(*address), Value::Present)));
        elements.extend(plan.cluster_addresses.iter().map(|address| (Key::ClusterAddress(*address), Value::Present)));
        self.set(&owner, elements);
    }

    /// Set the address ranges of pods: of this node, and of all nodes.
    pub fn set_pod_ranges(&mut self, local: Option<Ipv4Net>, all: &BTreeSet<Ipv4Net>) {
        let all: BTreeSet<Ipv4Net> = all.iter().copied().chain(local).collect();
        // Ranges of a set must not overlap.
        let outermost = all
            .iter()
            .filter(|net| !all.iter().any(|other| other != *net && other.contains(*net)))
            .map(|net| Key::Pods(*net));
        let elements = outermost.chain(local.map(Key::LocalPods)).map(|key| (key, Value::Present)).collect();
        self.set(&Owner::Node, elements);
    }

    /// Publish the ports of a sandbox; none removes them.
    pub fn set_host_ports(&mut self, sandbox: &str, address: Ipv4Addr, ports: &[HostPort]) {
        let fronts = ports.iter().map(|port| {
            let key = match port.host_ip {
                Some(host_ip) if !host_ip.is_unspecified() => {
                    Key::HostPortAt(host_ip, port.protocol.into(), port.host_port)
                }
                _ => Key::HostPort(port.protocol.into(), port.host_port),
            };
            (key, Value::Backend(Backend { address, port: port.container_port }))
        });
        let hairpin = ports.first().map(|_| (Key::Hairpin(address), Value::Present));
        let elements = fronts.chain(hairpin).collect();
        self.set(&Owner::Sandbox(sandbox.to_owned()), elements);
    }

    /// What has to be written to bring the kernel from the state of the last call to the current one.
    pub fn take_delta(&mut self) -> Delta {
        let mut delta = Delta::default();
        for (key, old) in std::mem::take(&mut self.before) {
            let new = self.effective.get(&key).map(|(_, value)| *value);
            if old == new {
                continue;
            }
            if old.is_some() {
                delta.removed.push(key);
            }
            delta.added.extend(new.map(|value| (key, value)));
        }
        delta
    }

    /// All elements, for a load into empty maps.
    pub fn full(&self) -> Delta {
        let added = self.effective.iter().map(|(key, (_, value))| (*key, *value)).collect();
        Delta { removed: Vec::new(), added }
    }

    /// The UDP fronts of these services and those that `delta` removed, by address (`None`: a port of the node) and
    /// port; with the endpoints they lead to, or `None` when they are gone.
    pub fn udp_fronts(&self, touched: &BTreeSet<ServiceKey>, delta: &Delta) -> UdpFronts {
        let owned = touched
            .iter()
            .filter_map(|key| self.owners.by_name.get(&Owner::Service(key.clone())))
            .filter_map(|owner| self.claims.get(owner))
            .flat_map(BTreeMap::keys);
        let mut fronts = UdpFronts::new();
        for key in owned.chain(&delta.removed) {
            let Some(place) = key.udp_front() else { continue };
            let backends = fronts.entry(place).or_default();
            if let Some((_, value)) = self.effective.get(key) {
                backends.get_or_insert_default().extend(self.backends_of(*value));
            }
        }
        fronts
    }

    fn backends_of(&self, value: Value) -> Vec<Backend> {
        match value {
            Value::Backend(backend) => vec![backend],
            Value::Pool(id) => {
                self.pool_ids.name(id.0).and_then(|name| self.slots.get(name)).cloned().unwrap_or_default()
            }
            Value::Present | Value::Chain(_) | Value::Endpoint(_) | Value::Verdict(_) => Vec::new(),
        }
    }

    fn pool_elements(&mut self, name: &PoolName, pool: &Pool, elements: &mut BTreeMap<Key, Value>) {
        let id = PoolId(self.pool_ids.of(name));
        let slots = reslot(self.slots.remove(name).unwrap_or_default(), &pool.backends);
        let endpoints = u16::try_from(slots.len()).unwrap_or(u16::MAX);
        let chain = match pool.affinity {
            None => Chain::Random { endpoints },
            Some(timeout) => Chain::Sticky { endpoints, timeout },
        };
        elements.insert(Key::Pool(id), Value::Chain(chain));
        for (slot, backend) in (0..endpoints).zip(&slots) {
            let endpoint = EndpointId(self.endpoint_ids.of(&(name.clone(), *backend)));
            elements.insert(Key::Slot(id, slot), Value::Endpoint(endpoint));
            elements.insert(Key::Address(endpoint), Value::Backend(*backend));
            if pool.affinity.is_some() {
                elements.insert(Key::Sticky(endpoint), Value::Present);
            }
        }
        self.endpoint_ids.retain_in(name, |backend| pool.backends.contains(backend));
        self.slots.insert(name.clone(), slots);
    }

    fn forget_pools(&mut self, owner: u32, plan: &Plan) {
        let current: BTreeSet<PoolName> = plan.pools.keys().cloned().collect();
        let previous = self.pools.remove(&owner).unwrap_or_default();
        for name in previous.difference(&current) {
            self.slots.remove(name);
            self.pool_ids.remove(name);
            self.endpoint_ids.retain_in(name, |_| false);
        }
        if !current.is_empty() {
            self.pools.insert(owner, current);
        }
    }

    fn front_element(&mut self, front: Key, target: &Target) -> Option<(Key, Value)> {
        match target {
            Target::Pool(name) => Some((front, Value::Pool(PoolId(self.pool_ids.of(name))))),
            Target::DropPool => Some((front, Value::Pool(DROP_POOL))),
            Target::Blocked(verdict) => front.blocked().map(|key| (key, Value::Verdict(*verdict))),
        }
    }

    fn set(&mut self, owner: &Owner, elements: BTreeMap<Key, Value>) {
        let id = self.owners.of(owner);
        let previous = self.claims.remove(&id).unwrap_or_default();
        for key in previous.keys().filter(|key| !elements.contains_key(*key)) {
            self.unclaim(*key, id);
        }
        for (key, value) in &elements {
            if previous.get(key) != Some(value) {
                self.claim(*key, id, *value);
            }
        }
        if elements.is_empty() {
            self.owners.remove(owner);
        } else {
            self.claims.insert(id, elements);
        }
    }

    fn claim(&mut self, key: Key, owner: u32, value: Value) {
        match self.effective.get(&key) {
            Some((holder, _)) if *holder != owner => {
                self.contested.entry(key).or_default().insert(owner, value);
            }
            _ => {
                self.remember(key);
                self.effective.insert(key, (owner, value));
            }
        }
    }

    fn unclaim(&mut self, key: Key, owner: u32) {
        let held = self.effective.get(&key).is_some_and(|(holder, _)| *holder == owner);
        let mut heir = None;
        if let Some(others) = self.contested.get_mut(&key) {
            if held {
                heir = others.pop_first();
            } else {
                others.remove(&owner);
            }
            if others.is_empty() {
                self.contested.remove(&key);
            }
        }
        if held {
            self.remember(key);
            match heir {
                Some(claim) => self.effective.insert(key, claim),
                None => self.effective.remove(&key),
            };
        }
    }

    fn remember(&mut self, key: Key) {
        let current = self.effective.get(&key).map(|(_, value)| *value);
        self.before.entry(key).or_insert(current);
    }
}

/// The slots of a pool after a change: those that stay keep their slot, as far as the slots remain dense.
fn reslot(old: Vec<Backend>, wanted: &BTreeSet<Backend>) -> Vec<Backend> {
    let mut missing: BTreeSet<Backend> = wanted.clone();
    for backend in &old {
        missing.remove(backend);
    }
    let mut fresh = missing.into_iter();
    let mut slots = old;
    let mut index = 0;
    while index < slots.len() {
        if wanted.contains(&slots[index]) {
            index += 1;
        } else if let Some(backend) = fresh.next() {
            slots[index] = backend;
            index += 1;
        } else {
            slots.swap_remove(index);
        }
    }
    slots.extend(fresh);
    slots
}

/// Numbers for names: derived from the name, so that they are the same after a restart, and never shared by two.
#[derive(Debug)]
struct Ids<N> {
    by_name: BTreeMap<N, u32>,
    names: BTreeMap<u32, N>,
}

impl<N> Default for Ids<N> {
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), names: BTreeMap::new() }
    }
}

impl<N: Clone + Ord + std::fmt::Debug> Ids<N> {
    fn of(&mut self, name: &N) -> u32 {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let mut id = fnv1a(format!("{name:?}").as_bytes());
        // 0 is "no mark", and DROP_POOL is taken.
        while id <= DROP_POOL.0 || self.names.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        self.by_name.insert(name.clone(), id);
        self.names.insert(id, name.clone());
        id
    }

    fn name(&self, id: u32) -> Option<&N> {
        self.names.get(&id)
    }

    fn remove(&mut self, name: &N) {
        if let Some(id) = self.by_name.remove(name) {
            self.names.remove(&id);
        }
    }
}

impl Ids<(PoolName, Backend)> {
    /// Drop the endpoints of `pool` that `keep` refuses.
    fn retain_in(&mut self, pool: &PoolName, keep: impl Fn(&Backend) -> bool) {
        let lowest = Backend { address: Ipv4Addr::UNSPECIFIED, port: 0 };
        let gone: Vec<(PoolName, Backend)> = self
            .by_name
            .range((pool.clone(), lowest)..)
            .map(|(name, _)| name)
            .take_while(|name| name.0 == *pool)
            .filter(|name| !keep(&name.1))
            .cloned()
            .collect();
        for name in &gone {
            self.remove(name);
        }
    }
}

/// 32-bit FNV-1a.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests;
