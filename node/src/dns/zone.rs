//! Names of the cluster domain. Pure: the catalog, a name and a type in; records out.

use std::net::{IpAddr, Ipv4Addr};

use hickory_proto::rr::rdata::{A, AAAA, CNAME, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use crate::network::catalog::{Catalog, Endpoint, Group, Kind, Service, ServiceKey, ServicePort};

/// Seconds that clients may remember an answer: endpoints change quickly.
pub const TTL_SECONDS: u32 = 5;
/// Version of the naming scheme, answered as TXT record of `dns-version`.
const SCHEMA_VERSION: &str = "1.1.0";
const SOA_REFRESH_SECONDS: i32 = 7200;
const SOA_RETRY_SECONDS: i32 = 1800;
const SOA_EXPIRE_SECONDS: i32 = 86_400;

/// The cluster domain.
#[derive(Debug, Clone)]
pub struct Zone {
    domain: Name,
    labels: Vec<String>,
    server: Ipv4Addr,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Records of the asked type (or a CNAME to follow), and addresses of the hosts they name. Both empty: the name
    /// exists, but not with this type.
    Records {
        answers: Vec<Record>,
        additionals: Vec<Record>,
    },
    NoSuchName,
    /// Not a name of this zone.
    NotOurs,
    /// Nothing is there, but not everything is known yet: "no" would be remembered by whoever asks.
    NotKnownYet,
}

impl Answer {
    fn of(answers: Vec<Record>) -> Self {
        Self::Records { answers, additionals: Vec::new() }
    }

    fn empty() -> Self {
        Self::of(Vec::new())
    }
}

impl Zone {
    /// `None` when the domain is not a DNS name.
    pub fn new(domain: &str, server: Ipv4Addr) -> Option<Self> {
        let mut name = Name::from_ascii(domain).ok()?.to_lowercase();
        name.set_fqdn(true);
        let labels = labels_of(&name);
        Some(Self { domain: name, labels, server })
    }

    /// The record that says how long "no" may be remembered.
    pub fn soa(&self) -> Record {
        let server = self.domain.prepend_label("dns").and_then(|name| name.prepend_label("ns"));
        let contact = self.domain.prepend_label("hostmaster");
        let soa = SOA::new(
            server.unwrap_or_else(|_| self.domain.clone()),
            contact.unwrap_or_else(|_| self.domain.clone()),
            1,
            SOA_REFRESH_SECONDS,
            SOA_RETRY_SECONDS,
            SOA_EXPIRE_SECONDS,
            TTL_SECONDS,
        );
        Record::from_rdata(self.domain.clone(), TTL_SECONDS, RData::SOA(soa))
    }

    /// What the zone says about `name`; records carry the name as it was asked.
    pub fn lookup(&self, catalog: &Catalog, name: &Name, kind: RecordType) -> Answer {
        let answer = self.find(catalog, name, kind);
        let is_no = match &answer {
            Answer::NoSuchName => true,
            Answer::Records { answers, .. } => answers.is_empty(),
            // An address may be that of a service.
            Answer::NotOurs => kind == RecordType::PTR,
            Answer::NotKnownYet => false,
        };
        if is_no && !catalog.is_complete() { Answer::NotKnownYet } else { answer }
    }

    fn find(&self, catalog: &Catalog, name: &Name, kind: RecordType) -> Answer {
        let labels = labels_of(name);
        if kind == RecordType::PTR
            && let Some(address) = reverse_address(name)
        {
            return self.reverse(catalog, name, address);
        }
        let Some(prefix) = labels.strip_suffix(self.labels.as_slice()) else { return Answer::NotOurs };
        let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
        match prefix.as_slice() {
            [] => self.apex(kind),
            ["svc" | "pod" | "dns"] => Answer::empty(),
            ["dns-version"] => Answer::of(match kind {
                RecordType::TXT => vec![record(name, RData::TXT(TXT::new(vec![SCHEMA_VERSION.into()])))],
                _ => Vec::new(),
            }),
            ["ns", "dns"] => Answer::of(addresses(name, kind, [IpAddr::V4(self.server)])),
            [namespace, "svc"] if catalog.has_namespace(namespace) => Answer::empty(),
            [service, namespace, "svc"] => self.service(catalog, name, kind, &ServiceKey::new(namespace, service)),
            [host, service, namespace, "svc"] => {
                host_answer(catalog, name, kind, host, &ServiceKey::new(namespace, service))
            }
            [port, protocol, service, namespace, "svc"] => {
                let (Some(port), Some(protocol)) = (port.strip_prefix('_'), protocol.strip_prefix('_')) else {
                    return Answer::NoSuchName;
                };
                self.srv(catalog, name, kind, &ServiceKey::new(namespace, service), Some((port, protocol)))
            }
            [dashed, _namespace, "pod"] => match undash(dashed) {
                Some(address) => Answer::of(addresses(name, kind, [address])),
                None => Answer::NoSuchName,
            },
            _ => Answer::NoSuchName,
        }
    }

    fn apex(&self, kind: RecordType) -> Answer {
        Answer::of(match kind {
            RecordType::SOA => vec![self.soa()],
            _ => Vec::new(),
        })
    }

    fn service(&self, catalog: &Catalog, name: &Name, kind: RecordType, key: &ServiceKey) -> Answer {
        let Some(service) = catalog.service(key) else { return Answer::NoSuchName };
        if let Kind::ExternalName(target) = &service.kind {
            let Ok(mut target) = Name::from_ascii(target) else { return Answer::empty() };
            target.set_fqdn(true);
            return Answer::of(vec![record(name, RData::CNAME(CNAME(target)))]);
        }
        if kind == RecordType::SRV {
            return self.srv(catalog, name, kind, key, None);
        }
        if !service.cluster_ips.is_empty() {
            return Answer::of(addresses(name, kind, service.cluster_ips.iter().copied()));
        }
        let hosts = published(catalog, service).map(|(_, endpoint)| endpoint.address);
        Answer::of(addresses(name, kind, hosts))
    }

    /// The ports of a service: all, or the one asked for by name and protocol.
    fn srv(
        &self,
        catalog: &Catalog,
        name: &Name,
        kind: RecordType,
        key: &ServiceKey,
        wanted: Option<(&str, &str)>,
    ) -> Answer {
        let Some(service) = catalog.service(key) else { return Answer::NoSuchName };
        let is_wanted = |port: &str, protocol: &str| wanted.is_none_or(|wanted| wanted == (port, protocol));
        let headless = service.cluster_ips.is_empty();
        let targets: Vec<(Name, u16, IpAddr)> = if headless {
            self.endpoint_targets(catalog, service, &is_wanted)
        } else {
            let ports = service.ports.iter().filter(|port| is_wanted(&port.name, port.protocol.lower()));
            ports.flat_map(|port| self.service_targets(service, port)).collect()
        };
        if targets.is_empty() {
            return if wanted.is_none() || headless { Answer::empty() } else { Answer::NoSuchName };
        }
        if kind != RecordType::SRV {
            return Answer::empty();
        }
        let mut answers: Vec<Record> = Vec::new();
        let mut additionals: Vec<Record> = Vec::new();
        for (target, port, address) in targets {
            let weight = 100;
            let answer = record(name, RData::SRV(SRV::new(0, weight, port, target.clone())));
            if !answers.contains(&answer) {
                answers.push(answer);
            }
            let additional = address_record(&target, address);
            if !additionals.contains(&additional) {
                additionals.push(additional);
            }
        }
        Answer::Records { answers, additionals }
    }

    fn service_targets(&self, service: &Service, port: &ServicePort) -> Vec<(Name, u16, IpAddr)> {
        let Some(target) = self.service_name(&service.key) else { return Vec::new() };
        service.cluster_ips.iter().map(|address| (target.clone(), port.port, *address)).collect()
    }

    fn endpoint_targets(
        &self,
        catalog: &Catalog,
        service: &Service,
        is_wanted: &dyn Fn(&str, &str) -> bool,
    ) -> Vec<(Name, u16, IpAddr)> {
        published(catalog, service)
            .flat_map(|(group, endpoint)| {
                let target = self.endpoint_name(&service.key, endpoint);
                group
                    .ports
                    .iter()
                    .filter(|port| is_wanted(&port.name, port.protocol.lower()))
                    .filter_map(move |port| Some((target.clone()?, port.port?, endpoint.address)))
            })
            .collect()
    }

    fn reverse(&self, catalog: &Catalog, name: &Name, address: IpAddr) -> Answer {
        let names: Vec<Name> = catalog
            .services_at(address)
            .flat_map(|service| {
                let own = service.cluster_ips.contains(&address).then(|| self.service_name(&service.key));
                let endpoints = published(catalog, service)
                    .filter(|(_, endpoint)| endpoint.address == address)
                    .map(|(_, endpoint)| self.endpoint_name(&service.key, endpoint));
                own.into_iter().chain(endpoints).flatten().collect::<Vec<_>>()
            })
            .collect();
        if names.is_empty() {
            return Answer::NotOurs;
        }
        Answer::of(names.into_iter().map(|target| record(name, RData::PTR(PTR(target)))).collect())
    }

    fn service_name(&self, key: &ServiceKey) -> Option<Name> {
        let labels = [key.name.as_str(), key.namespace.as_str(), "svc"].map(str::as_bytes);
        Name::from_labels(labels).ok()?.append_domain(&self.domain).ok()
    }

    fn endpoint_name(&self, key: &ServiceKey, endpoint: &Endpoint) -> Option<Name> {
        let host = endpoint_label(endpoint);
        self.service_name(key)?.prepend_label(host.as_str()).ok()
    }
}

fn labels_of(name: &Name) -> Vec<String> {
    name.iter().map(|label| String::from_utf8_lossy(label).to_ascii_lowercase()).collect()
}

/// The endpoints that names lead to.
fn published<'a>(catalog: &'a Catalog, service: &'a Service) -> impl Iterator<Item = (&'a Group, &'a Endpoint)> {
    catalog.groups_of(&service.key).flat_map(move |group| {
        group
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.ready || service.publish_not_ready)
            .map(move |endpoint| (group, endpoint))
    })
}

fn host_answer(catalog: &Catalog, name: &Name, kind: RecordType, host: &str, key: &ServiceKey) -> Answer {
    let Some(service) = catalog.service(key) else { return Answer::NoSuchName };
    let found: Vec<IpAddr> = published(catalog, service)
        .filter(|(_, endpoint)| endpoint_label(endpoint) == host)
        .map(|(_, endpoint)| endpoint.address)
        .collect();
    if found.is_empty() {
        return Answer::NoSuchName;
    }
    Answer::of(addresses(name, kind, found))
}

/// The hostname of the pod, or its address with dashes.
fn endpoint_label(endpoint: &Endpoint) -> String {
    match &endpoint.hostname {
        Some(hostname) if !hostname.is_empty() => hostname.to_ascii_lowercase(),
        _ => endpoint.address.to_string().replace(['.', ':'], "-"),
    }
}

fn undash(label: &str) -> Option<IpAddr> {
    let v4 = label.replace('-', ".").parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    v4.or_else(|| label.replace('-', ":").parse().ok().map(IpAddr::V6))
}

fn reverse_address(name: &Name) -> Option<IpAddr> {
    let net = name.parse_arpa_name().ok()?;
    let is_host = net.prefix_len() == net.max_prefix_len();
    is_host.then(|| net.addr())
}

fn record(name: &Name, data: RData) -> Record {
    Record::from_rdata(name.clone(), TTL_SECONDS, data)
}

fn address_record(name: &Name, address: IpAddr) -> Record {
    match address {
        IpAddr::V4(address) => record(name, RData::A(A(address))),
        IpAddr::V6(address) => record(name, RData::AAAA(AAAA(address))),
    }
}

/// Each address once, of the asked family.
fn addresses(name: &Name, kind: RecordType, all: impl IntoIterator<Item = IpAddr>) -> Vec<Record> {
    let asked = |address: &IpAddr| match kind {
        RecordType::A => address.is_ipv4(),
        RecordType::AAAA => address.is_ipv6(),
        RecordType::ANY => true,
        _ => false,
    };
    let unique: std::collections::BTreeSet<IpAddr> = all.into_iter().filter(asked).collect();
    unique.into_iter().map(|address| address_record(name, address)).collect()
}

#[cfg(test)]
mod tests;
