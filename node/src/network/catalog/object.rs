//! Projections of Service and EndpointSlice: the fields that the proxy and DNS use.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Namespace and name of a Service (or of a slice).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    pub namespace: String,
    pub name: String,
}

impl ServiceKey {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    /// As Kubernetes spells it; absent means TCP.
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("" | "TCP") => Some(Self::Tcp),
            Some("UDP") => Some(Self::Udp),
            Some("SCTP") => Some(Self::Sctp),
            Some(_) => None,
        }
    }

    /// As nft and DNS spell it.
    pub fn lower(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// ClusterIP, NodePort and LoadBalancer differ only in which addresses they carry.
    Addressed,
    ExternalName(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub key: ServiceKey,
    pub kind: Kind,
    /// Empty for headless services.
    pub cluster_ips: Vec<IpAddr>,
    pub external_ips: Vec<Ipv4Addr>,
    /// Addresses of `status.loadBalancer.ingress` whose traffic arrives with them as its destination.
    pub ingress_ips: Vec<Ipv4Addr>,
    pub ports: Vec<ServicePort>,
    /// How long a client sticks to its endpoint.
    pub affinity: Option<Duration>,
    pub internal_local: bool,
    pub external_local: bool,
    /// Names of endpoints that are not ready are served as well.
    pub publish_not_ready: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// Empty when the only port has no name.
    pub name: String,
    pub protocol: Protocol,
    pub port: u16,
    pub node_port: Option<u16>,
}

/// An EndpointSlice or an Endpoints object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    pub key: ServiceKey,
    pub service: ServiceKey,
    /// One for an EndpointSlice, one a subset for an Endpoints object.
    pub groups: Vec<Group>,
}

/// Endpoints that share their ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub ports: Vec<EndpointPort>,
    pub endpoints: Vec<Endpoint>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointPort {
    pub name: String,
    pub protocol: Protocol,
    /// Absent for headless services without ports.
    pub port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub address: IpAddr,
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
    pub hostname: Option<String>,
    pub node: Option<String>,
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    pub(crate) fn service(name: &str, cluster_ip: &str) -> Service {
        Service {
            key: ServiceKey::new("default", name),
            kind: Kind::Addressed,
            cluster_ips: vec![cluster_ip.parse().unwrap()],
            external_ips: Vec::new(),
            ingress_ips: Vec::new(),
            ports: vec![ServicePort { name: "http".into(), protocol: Protocol::Tcp, port: 80, node_port: None }],
            affinity: None,
            internal_local: false,
            external_local: false,
            publish_not_ready: false,
        }
    }

    pub(crate) fn slice(name: &str, service: &str, endpoints: impl Into<Vec<Endpoint>>) -> Slice {
        let ports = vec![EndpointPort { name: "http".into(), protocol: Protocol::Tcp, port: Some(8080) }];
        Slice {
            key: ServiceKey::new("default", name),
            service: ServiceKey::new("default", service),
            groups: vec![Group { ports, endpoints: endpoints.into() }],
        }
    }

    pub(crate) fn endpoint(address: &str) -> Endpoint {
        Endpoint {
            address: address.parse().unwrap(),
            ready: true,
            serving: true,
            terminating: false,
            hostname: None,
            node: Some("n1".into()),
        }
    }
}
