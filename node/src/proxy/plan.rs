//! What one Service wants from the maps. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use ipnet::Ipv4Net;

use super::element::{Backend, Key, Verdict};
use crate::network::catalog::{Group, Kind, Protocol, Service, ServicePort};

/// Endpoints of one port that are programmed; the rest gets no traffic from this node.
pub const MAX_BACKENDS: usize = 4096;

/// From where a service is looked at.
#[derive(Debug, Clone, Default)]
pub struct Viewpoint {
    /// This node's name: its endpoints are the local ones.
    pub node: String,
    /// Pods of this node have their addresses here.
    pub local_pods: Option<Ipv4Net>,
    /// An address whose port 53 this node answers itself.
    pub own_dns: Option<Ipv4Addr>,
}

/// The desired state of one service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub pools: BTreeMap<PoolName, Pool>,
    pub fronts: BTreeMap<Key, Target>,
    pub hairpin: BTreeSet<Ipv4Addr>,
    pub cluster_addresses: BTreeSet<Ipv4Addr>,
    /// Endpoints of the port with the most that get no traffic from this node.
    pub left_out: usize,
}

/// Names a pool for good: its id in the kernel derives from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolName(pub String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub affinity: Option<Duration>,
    pub backends: BTreeSet<Backend>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Pool(PoolName),
    /// Into the pool that drops. Only for the fronts of outside clients, which are looked up before the common ones.
    DropPool,
    /// Not translated but refused or dropped by the filter.
    Blocked(Verdict),
}

/// Desired state of `service`, given its endpoints.
pub fn plan<'a>(service: &Service, groups: impl Iterator<Item = &'a Group>, from: &Viewpoint) -> Plan {
    let mut plan = Plan::default();
    if matches!(service.kind, Kind::ExternalName(_)) {
        return plan;
    }
    // Headless: clients learn the endpoints from DNS.
    if cluster_ips(service).next().is_none() {
        return plan;
    }
    let groups: Vec<&Group> = groups.collect();
    plan.cluster_addresses = cluster_ips(service).filter(|address| from.own_dns != Some(*address)).collect();
    for port in &service.ports {
        plan.add_port(service, port, &Endpoints::of(&groups, port, from), from);
    }
    plan
}

fn cluster_ips(service: &Service) -> impl Iterator<Item = Ipv4Addr> + '_ {
    service.cluster_ips.iter().filter_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    })
}

/// The endpoints of one port that may get traffic.
struct Endpoints {
    all: BTreeSet<Backend>,
    local: BTreeSet<Backend>,
    left_out: usize,
}

struct Candidate {
    backend: Backend,
    local: bool,
    ready: bool,
    last_resort: bool,
}

impl Endpoints {
    fn of(groups: &[&Group], port: &ServicePort, from: &Viewpoint) -> Self {
        let candidates: Vec<Candidate> = groups.iter().flat_map(|group| candidates(group, port, from)).collect();
        let mut all = usable(candidates.iter());
        let mut local = usable(candidates.iter().filter(|candidate| candidate.local));
        let left_out = all.len().saturating_sub(MAX_BACKENDS);
        for backends in [&mut all, &mut local] {
            if let Some(first_left_out) = backends.iter().nth(MAX_BACKENDS).copied() {
                backends.split_off(&first_left_out);
            }
        }
        Self { all, local, left_out }
    }
}

fn candidates<'a>(group: &'a Group, port: &ServicePort, from: &'a Viewpoint) -> impl Iterator<Item = Candidate> + 'a {
    let number = group
        .ports
        .iter()
        .find(|candidate| candidate.name == port.name && candidate.protocol == port.protocol)
        .and_then(|found| found.port);
    number.into_iter().flat_map(move |number| {
        group.endpoints.iter().filter_map(move |endpoint| {
            let IpAddr::V4(address) = endpoint.address else { return None };
            Some(Candidate {
                backend: Backend { address, port: number },
                local: endpoint.node.as_deref() == Some(&from.node),
                ready: endpoint.ready,
                last_resort: endpoint.serving && endpoint.terminating,
            })
        })
    })
}

/// The ready ones; when there is none, those that still serve while they terminate.
fn usable<'a>(candidates: impl Iterator<Item = &'a Candidate> + Clone) -> BTreeSet<Backend> {
    let ready: BTreeSet<Backend> =
        candidates.clone().filter(|candidate| candidate.ready).map(|candidate| candidate.backend).collect();
    if !ready.is_empty() {
        return ready;
    }
    candidates.filter(|candidate| candidate.last_resort).map(|candidate| candidate.backend).collect()
}

impl Plan {
    fn add_port(&mut self, service: &Service, port: &ServicePort, endpoints: &Endpoints, from: &Viewpoint) {
        self.left_out = self.left_out.max(endpoints.left_out);
        let everyone = self.target(service, port, "cluster", &endpoints.all);
        let inside = if service.internal_local {
            self.local_target(service, port, endpoints, Target::Blocked(Verdict::Drop))
        } else {
            everyone.clone()
        };
        let outside = (service.external_local && !endpoints.all.is_empty())
            .then(|| self.local_target(service, port, endpoints, Target::DropPool));

        for address in cluster_ips(service) {
            let answered_here = from.own_dns == Some(address) && port.port == 53;
            if !answered_here {
                self.front(Key::ClusterIp(address, port.protocol, port.port), &inside);
            }
        }
        for address in service.external_ips.iter().chain(&service.ingress_ips) {
            self.front(Key::External(*address, port.protocol, port.port), &everyone);
            if let Some(outside) = &outside {
                self.front(Key::ExternalLocal(*address, port.protocol, port.port), outside);
            }
        }
        if let Some(node_port) = port.node_port {
            self.front(Key::NodePort(port.protocol, node_port), &everyone);
            if let Some(outside) = &outside {
                self.front(Key::NodePortLocal(port.protocol, node_port), outside);
            }
        }
        let hairpins = endpoints.all.iter().map(|backend| backend.address);
        self.hairpin.extend(hairpins.filter(|address| from.local_pods.is_some_and(|pods| pods.contains(address))));
        self.drop_unused_pools();
    }

    fn target(&mut self, service: &Service, port: &ServicePort, scope: &str, backends: &BTreeSet<Backend>) -> Target {
        if backends.is_empty() {
            return Target::Blocked(Verdict::Deny);
        }
        let name = PoolName(format!("{}:{}/{}/{scope}", service.key, port.port, port.protocol.lower()));
        self.pools.insert(name.clone(), Pool { affinity: service.affinity, backends: backends.clone() });
        Target::Pool(name)
    }

    /// The endpoints of this node only; `otherwise` when there are some, but elsewhere.
    fn local_target(
        &mut self,
        service: &Service,
        port: &ServicePort,
        endpoints: &Endpoints,
        otherwise: Target,
    ) -> Target {
        if endpoints.local.is_empty() && !endpoints.all.is_empty() {
            return otherwise;
        }
        self.target(service, port, "local", &endpoints.local)
    }

    fn front(&mut self, key: Key, target: &Target) {
        self.fronts.insert(key, target.clone());
    }

    /// With `internalTrafficPolicy: Local` and no outside front nobody may ask for all endpoints.
    fn drop_unused_pools(&mut self) {
        let used: BTreeSet<&PoolName> = self
            .fronts
            .values()
            .filter_map(|target| match target {
                Target::Pool(name) => Some(name),
                Target::DropPool | Target::Blocked(_) => None,
            })
            .collect();
        self.pools.retain(|name, _| used.contains(name));
    }
}

impl Key {
    /// The element that blocks this front in the filter, where that is possible.
    pub(super) fn blocked(self) -> Option<Key> {
        match self {
            Key::ClusterIp(address, protocol, port) | Key::External(address, protocol, port) => {
                Some(Key::Blocked(address, protocol, port))
            }
            Key::NodePort(protocol, port) => Some(Key::BlockedNodePort(protocol, port)),
            Key::ExternalLocal(..)
            | Key::NodePortLocal(..)
            | Key::HostPort(..)
            | Key::HostPortAt(..)
            | Key::Blocked(..)
            | Key::BlockedNodePort(..)
            | Key::Pool(..)
            | Key::Slot(..)
            | Key::Address(..)
            | Key::Sticky(..)
            | Key::Hairpin(..)
            | Key::ClusterAddress(..)
            | Key::Pods(..)
            | Key::LocalPods(..) => None,
        }
    }
}

/// A published port of one pod.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HostPort {
    pub host_ip: Option<Ipv4Addr>,
    pub host_port: u16,
    pub protocol: HostProtocol,
    pub container_port: u16,
}

/// [`Protocol`] with the spelling of the CNI port mappings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostProtocol {
    Tcp,
    Udp,
    Sctp,
}

impl From<HostProtocol> for Protocol {
    fn from(protocol: HostProtocol) -> Self {
        match protocol {
            HostProtocol::Tcp => Self::Tcp,
            HostProtocol::Udp => Self::Udp,
            HostProtocol::Sctp => Self::Sctp,
        }
    }
}

#[cfg(test)]
mod tests;
