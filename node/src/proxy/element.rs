//! Elements of the maps, typed, and how nft spells them.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::Ipv4Net;

use crate::network::catalog::Protocol;

/// Names a pool of endpoints in the kernel (a packet mark while the first packet is looked up).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u32);

/// The pool that drops: a front of policy `Local` without an endpoint on this node.
pub const DROP_POOL: PoolId = PoolId(1);

/// Names one endpoint of one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u32);

/// Where a connection is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Backend {
    pub address: Ipv4Addr,
    pub port: u16,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} . {}", self.address, self.port)
    }
}

/// A map or set, and a key in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    ClusterIp(Ipv4Addr, Protocol, u16),
    /// External and load balancer addresses, for every client unless `ExternalLocal` has the key too.
    External(Ipv4Addr, Protocol, u16),
    /// The same, for clients outside of the cluster, where the policy is `Local`.
    ExternalLocal(Ipv4Addr, Protocol, u16),
    NodePort(Protocol, u16),
    NodePortLocal(Protocol, u16),
    HostPort(Protocol, u16),
    HostPortAt(Ipv4Addr, Protocol, u16),
    Blocked(Ipv4Addr, Protocol, u16),
    BlockedNodePort(Protocol, u16),
    Pool(PoolId),
    Slot(PoolId, u16),
    Address(EndpointId),
    /// An endpoint that clients may stick to.
    Sticky(EndpointId),
    /// A pod that may be sent back to itself by the proxy.
    Hairpin(Ipv4Addr),
    /// A cluster IP of some service: its other ports are refused.
    ClusterAddress(Ipv4Addr),
    /// Pods of any node.
    Pods(Ipv4Net),
    /// Pods of this node.
    LocalPods(Ipv4Net),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// Sets have keys only.
    Present,
    Pool(PoolId),
    Chain(Chain),
    Backend(Backend),
    Endpoint(EndpointId),
    Verdict(Verdict),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Refuse, so that the client knows at once.
    Deny,
    Drop,
}

/// A chain that many pools share: it depends on the number of endpoints only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chain {
    Random { endpoints: u16 },
    Sticky { endpoints: u16, timeout: Duration },
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random { endpoints } => write!(f, "random_{endpoints}"),
            Self::Sticky { endpoints, timeout } => write!(f, "sticky_{endpoints}_{}", timeout.as_secs()),
        }
    }
}

impl Key {
    /// Name of the map or set.
    pub fn container(&self) -> &'static str {
        match self {
            Self::ClusterIp(..) => "cluster_ips",
            Self::External(..) => "external",
            Self::ExternalLocal(..) => "external_local",
            Self::NodePort(..) => "node_ports",
            Self::NodePortLocal(..) => "node_ports_local",
            Self::HostPort(..) => "host_ports",
            Self::HostPortAt(..) => "host_ports_at",
            Self::Blocked(..) => "blocked",
            Self::BlockedNodePort(..) => "blocked_node_ports",
            Self::Pool(..) => "pools",
            Self::Slot(..) => "slots",
            Self::Address(..) => "addresses",
            Self::Sticky(..) => "sticky",
            Self::Hairpin(..) => "hairpin",
            Self::ClusterAddress(..) => "cluster_addresses",
            Self::Pods(..) => "pods",
            Self::LocalPods(..) => "local_pods",
        }
    }

    /// Address (`None`: this node's) and port of a front of UDP, whose flows outlive a change of the maps in connection
    /// tracking.
    pub fn udp_front(&self) -> Option<(Option<Ipv4Addr>, u16)> {
        let (address, protocol, port) = match self {
            Self::ClusterIp(address, protocol, port)
            | Self::External(address, protocol, port)
            | Self::ExternalLocal(address, protocol, port)
            | Self::HostPortAt(address, protocol, port) => (Some(*address), protocol, port),
            Self::NodePort(protocol, port) | Self::NodePortLocal(protocol, port) | Self::HostPort(protocol, port) => {
                (None, protocol, port)
            }
            Self::Blocked(..)
            | Self::BlockedNodePort(..)
            | Self::Pool(..)
            | Self::Slot(..)
            | Self::Address(..)
            | Self::Sticky(..)
            | Self::Hairpin(..)
            | Self::ClusterAddress(..)
            | Self::Pods(..)
            | Self::LocalPods(..) => return None,
        };
        (*protocol == Protocol::Udp).then_some((address, *port))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClusterIp(address, protocol, port)
            | Self::External(address, protocol, port)
            | Self::ExternalLocal(address, protocol, port)
            | Self::HostPortAt(address, protocol, port)
            | Self::Blocked(address, protocol, port) => write!(f, "{address} . {} . {port}", protocol.lower()),
            Self::NodePort(protocol, port)
            | Self::NodePortLocal(protocol, port)
            | Self::HostPort(protocol, port)
            | Self::BlockedNodePort(protocol, port) => write!(f, "{} . {port}", protocol.lower()),
            Self::Pool(id) => write!(f, "{:#x}", id.0),
            Self::Slot(id, slot) => write!(f, "{:#x} . {slot}", id.0),
            Self::Address(id) | Self::Sticky(id) => write!(f, "{:#x}", id.0),
            Self::Hairpin(address) => write!(f, "{address} . {address}"),
            Self::ClusterAddress(address) => write!(f, "{address}"),
            Self::Pods(net) | Self::LocalPods(net) => write!(f, "{net}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Present => Ok(()),
            Self::Pool(id) => write!(f, " : {:#x}", id.0),
            Self::Chain(chain) => write!(f, " : goto {chain}"),
            Self::Backend(backend) => write!(f, " : {backend}"),
            Self::Endpoint(id) => write!(f, " : {:#x}", id.0),
            Self::Verdict(Verdict::Deny) => f.write_str(" : goto deny"),
            Self::Verdict(Verdict::Drop) => f.write_str(" : drop"),
        }
    }
}
