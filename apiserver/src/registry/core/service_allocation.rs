//! Cluster IPs and node ports, taken and given back in the service's own transaction.
//!
//! Each is a key of its own that names its holder. Taking one compares its absence, so two services can never hold the
//! same one, and a service that goes away frees its own in the same step: nothing to repair afterwards. A dry run
//! chooses like a real one, and its transaction is never committed.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;

use bytes::Bytes;
use ipnet::Ipv4Net;
use quorate_api::field::FieldError;
use quorate_api::name::GroupKind;
use quorate_api::object::Object;
use quorate_api::status::Status;
use quorate_raft_store::{Compare, Consistency, Op, Range, Revision, prefix_end};
use serde_json::{Value, json};

use super::super::defaulting::{ensure, set, text};
use super::super::guard::{GuardRequest, Guards};
use super::super::rules::At;
use super::service::{is_headless, needs_cluster_ip, needs_health_check_port, needs_node_ports};
use crate::storage::{Storage, key, read_status};

/// Addresses chosen by us come from above the first ones, which are left to those who ask for one by number: one in
/// `LEFT_STEP`, within these bounds. A network of no more than `LEFT_MIN` addresses leaves none.
const LEFT_STEP: u64 = 16;
const LEFT_MIN: u64 = 16;
const LEFT_MAX: u64 = 256;
const FIRST_PORT: u16 = 30_000;
const LAST_PORT: u16 = 32_767;
/// Random choices before all that is taken is read.
const BLIND_CHOICES: usize = 16;

const IPS: &str = "allocations/ip";
const PORTS: &str = "allocations/port";

const NOT_CONFIGURED: &str = "not configured on this cluster";

pub(crate) fn guard(request: GuardRequest<'_>) -> Pin<Box<dyn Future<Output = Result<Guards, Status>> + Send + '_>> {
    Box::pin(allocate(request))
}

/// The network of cluster IPs. Offsets count from its own address.
#[derive(Clone, Copy, Debug)]
struct Network(Ipv4Net);

impl Network {
    /// All but the first and the last address, which are the network's own and its broadcast.
    fn hosts(self) -> std::ops::Range<u64> {
        let size = 1_u64 << (self.0.max_prefix_len() - self.0.prefix_len());
        1..size.saturating_sub(1).max(1)
    }

    /// The first offset that is given out unasked, as long as there is one.
    fn first_chosen(self) -> u64 {
        let hosts = self.hosts();
        let size = hosts.end + 1;
        let left = if size <= LEFT_MIN { 0 } else { (size / LEFT_STEP).clamp(LEFT_MIN, LEFT_MAX) };
        (hosts.start + left).min(hosts.end)
    }

    fn address(self, offset: u64) -> String {
        let offset = u32::try_from(offset).unwrap_or_default();
        Ipv4Addr::from(u32::from(self.0.network()).wrapping_add(offset)).to_string()
    }

    fn has(self, ip: &str) -> bool {
        let Ok(ip) = ip.parse::<Ipv4Addr>() else { return false };
        let offset = u32::from(ip).wrapping_sub(u32::from(self.0.network()));
        self.hosts().contains(&offset.into())
    }
}

/// What a service holds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Holdings {
    ips: BTreeSet<String>,
    ports: BTreeSet<u16>,
}

impl Holdings {
    fn of(service: Option<&Object>) -> Self {
        let Some(spec) = service.and_then(|service| service.get("/spec")) else { return Self::default() };
        let mut held = Self::default();
        if needs_cluster_ip(spec) && !is_headless(spec) {
            held.ips.extend(strings(spec.get("clusterIPs")).filter(|ip| ip.parse::<Ipv4Addr>().is_ok()));
        }
        // A port may stay set on a service that needs none; it is held all the same.
        let ports = spec.get("ports").and_then(Value::as_array).into_iter().flatten();
        held.ports.extend(ports.filter_map(|port| number(port, "nodePort")));
        held.ports.extend(number(spec, "healthCheckNodePort"));
        held
    }
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = String> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned))
}

fn number(of: &Value, name: &str) -> Option<u16> {
    of.get(name).and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)
}

async fn allocate(request: GuardRequest<'_>) -> Result<Guards, Status> {
    let before = Holdings::of(request.old);
    let Some(service) = request.new else {
        let mut guards = Guards::default();
        release(&before, &Holdings::default(), &mut guards);
        return Ok(guards);
    };
    let mut allocation = Allocation {
        storage: request.storage,
        random: &request.env.random,
        network: Network(request.cluster.service_cidr),
        holder: format!("{}/{}", service.namespace().unwrap_or_default(), service.name()),
        before: &before,
        errors: Vec::new(),
        guards: Guards::default(),
        taken: Holdings::default(),
    };
    allocation.cluster_ip(service).await?;
    allocation.node_ports(service).await?;
    allocation.health_check_port(service).await?;
    let Allocation { mut guards, errors, .. } = allocation;
    if !errors.is_empty() {
        return Err(Status::invalid(&GroupKind::new("", "Service"), service.name(), &errors));
    }
    release(&before, &Holdings::of(Some(service)), &mut guards);
    Ok(guards)
}

/// Gives back what is held no longer.
fn release(before: &Holdings, after: &Holdings, guards: &mut Guards) {
    let ips = before.ips.difference(&after.ips).map(|ip| ip_key(ip));
    let ports = before.ports.difference(&after.ports).map(|port| port_key(*port));
    guards.ops.extend(ips.chain(ports).map(|key| Op::Delete { key }));
}

fn ip_key(ip: &str) -> Bytes {
    key::internal(IPS, ip)
}

fn port_key(port: u16) -> Bytes {
    key::internal(PORTS, &port.to_string())
}

/// One service's allocation under way.
struct Allocation<'a> {
    storage: &'a Storage,
    random: &'a quorate_env::Random,
    network: Network,
    holder: String,
    before: &'a Holdings,
    errors: Vec<FieldError>,
    guards: Guards,
    taken: Holdings,
}

enum Request {
    Granted,
    Held,
}

impl Allocation<'_> {
    async fn cluster_ip(&mut self, service: &mut Object) -> Result<(), Status> {
        let spec = service.get("/spec").cloned().unwrap_or_default();
        if !needs_cluster_ip(&spec) || is_headless(&spec) {
            return Ok(());
        }
        let at = At::top(service, "spec");
        if at.field("ipFamilies").index(0).text() == "IPv6" {
            let family = at.field("ipFamilies").index(0);
            self.errors.push(FieldError::invalid(family.path(), "IPv6", NOT_CONFIGURED));
            return Ok(());
        }
        let all = at.field("clusterIPs");
        for ip in all.items() {
            self.requested_ip(&ip, all.value().cloned().unwrap_or_default()).await?;
        }
        if !all.is_empty() {
            return Ok(());
        }
        let ip = self.free_ip().await?;
        let spec = ensure(service.as_map_mut(), "spec");
        set(spec, "clusterIP", ip.clone());
        set(spec, "clusterIPs", json!([ip]));
        Ok(())
    }

    async fn requested_ip(&mut self, at: &At<'_>, all: Value) -> Result<(), Status> {
        let ip = at.text();
        if self.before.ips.contains(ip) {
            return Ok(());
        }
        let mut refuse = |why: String| {
            let detail = format!("failed to allocate IP {ip}: {why}");
            self.errors.push(FieldError::invalid(at.path(), all.clone(), detail));
        };
        let network = self.network;
        if !network.has(ip) {
            refuse(format!(
                "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {}",
                network.0.trunc()
            ));
            return Ok(());
        }
        if let Request::Held = self.request_by_number(ip_key(ip)).await? {
            let detail = format!("failed to allocate IP {ip}: provided IP is already allocated");
            self.errors.push(FieldError::invalid(at.path(), all, detail));
        }
        Ok(())
    }

    async fn free_ip(&mut self) -> Result<String, Status> {
        let network = self.network;
        let hosts = network.hosts();
        let chosen = network.first_chosen()..hosts.end;
        for _ in 0..if chosen.is_empty() { 0 } else { BLIND_CHOICES } {
            let ip = network.address(self.choose(chosen.start, chosen.end));
            if let Request::Granted = self.request(ip_key(&ip), Consistency::Local).await? {
                return Ok(ip);
            }
        }
        let held = self.all_held(IPS).await?;
        // What is left to requests is better than nothing.
        let left = hosts.start..chosen.start;
        let free = chosen.chain(left).map(|offset| network.address(offset)).find(|ip| !held.contains(ip));
        let ip = free.ok_or_else(|| Status::internal("failed to allocate a serviceIP: range is full"))?;
        self.take(ip_key(&ip));
        Ok(ip)
    }

    async fn node_ports(&mut self, service: &mut Object) -> Result<(), Status> {
        let spec = service.get("/spec").cloned().unwrap_or_default();
        let wanted = needs_node_ports(&spec);
        let count = spec.get("ports").and_then(Value::as_array).map_or(0, Vec::len);
        for index in 0..count {
            let path = At::top(service, "spec").field("ports").index(index);
            let port = number(&spec["ports"][index], "nodePort");
            match port {
                Some(port) => self.requested_port(&path.field("nodePort"), port).await?,
                None if wanted => {
                    let port = self.shared_port(service, index).await?;
                    let spec = ensure(service.as_map_mut(), "spec");
                    set(&mut spec["ports"][index], "nodePort", port);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// A port that is served over several protocols gets one number for all of them.
    async fn shared_port(&mut self, service: &Object, index: usize) -> Result<u16, Status> {
        let ports = service.get("/spec/ports").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let own = &ports[index];
        let same = |other: &&Value| {
            other.get("port") == own.get("port")
                && text(other, "protocol") != text(own, "protocol")
                && number(other, "nodePort").is_some()
        };
        match ports.iter().find(same).and_then(|other| number(other, "nodePort")) {
            Some(port) => Ok(port),
            None => self.free_port().await,
        }
    }

    async fn health_check_port(&mut self, service: &mut Object) -> Result<(), Status> {
        let spec = service.get("/spec").cloned().unwrap_or_default();
        if !needs_health_check_port(&spec) {
            return Ok(());
        }
        match number(&spec, "healthCheckNodePort") {
            Some(port) => {
                let at = At::top(service, "spec").field("healthCheckNodePort");
                self.requested_port(&at, port).await
            }
            None => {
                let port = self.free_port().await?;
                set(ensure(service.as_map_mut(), "spec"), "healthCheckNodePort", port);
                Ok(())
            }
        }
    }

    async fn requested_port(&mut self, at: &At<'_>, port: u16) -> Result<(), Status> {
        if self.before.ports.contains(&port) || self.taken.ports.contains(&port) {
            return Ok(());
        }
        let refusal = if !(FIRST_PORT..=LAST_PORT).contains(&port) {
            let range = format!("{FIRST_PORT}-{LAST_PORT}");
            format!("provided port is not in the valid range. The range of valid ports is {range}")
        } else if let Request::Held = self.request_by_number(port_key(port)).await? {
            "provided port is already allocated".to_owned()
        } else {
            self.taken.ports.insert(port);
            return Ok(());
        };
        self.errors.push(FieldError::invalid(at.path(), port, refusal));
        Ok(())
    }

    async fn free_port(&mut self) -> Result<u16, Status> {
        for _ in 0..BLIND_CHOICES {
            let port = self.choose(FIRST_PORT.into(), u64::from(LAST_PORT) + 1);
            let port = u16::try_from(port).unwrap_or(LAST_PORT);
            if self.before.ports.contains(&port) || self.taken.ports.contains(&port) {
                continue;
            }
            if let Request::Granted = self.request(port_key(port), Consistency::Local).await? {
                self.taken.ports.insert(port);
                return Ok(port);
            }
        }
        let held = self.all_held(PORTS).await?;
        let free =
            (FIRST_PORT..=LAST_PORT).find(|port| !held.contains(&port.to_string()) && !self.taken.ports.contains(port));
        let port = free.ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?;
        self.take(port_key(port));
        self.taken.ports.insert(port);
        Ok(port)
    }

    fn choose(&self, from: u64, to: u64) -> u64 {
        from + self.random.below(to - from)
    }

    /// Takes a key unless somebody else holds it. What this member has not seen yet fails the compare, and the write
    /// is tried again.
    async fn request(&mut self, key: Bytes, consistency: Consistency) -> Result<Request, Status> {
        let (found, _) = self.storage.store().get(key.clone(), consistency).await.map_err(read_status)?;
        match found {
            Some(held) if held.value != self.holder => Ok(Request::Held),
            Some(own) => {
                self.guards.compares.push(Compare::Value { key, value: own.value });
                Ok(Request::Granted)
            }
            None => {
                self.take(key);
                Ok(Request::Granted)
            }
        }
    }

    /// For a key that the client chose: it is refused by the newest state only, since its last holder may have gone
    /// a moment ago by another member.
    async fn request_by_number(&mut self, key: Bytes) -> Result<Request, Status> {
        match self.request(key.clone(), Consistency::Local).await? {
            Request::Held => self.request(key, Consistency::Linearizable).await,
            Request::Granted => Ok(Request::Granted),
        }
    }

    fn take(&mut self, key: Bytes) {
        self.guards.compares.push(Compare::Absent { key: key.clone() });
        self.guards.ops.push(Op::Put { key, value: Bytes::from(self.holder.clone()), ttl: None });
    }

    async fn all_held(&self, area: &str) -> Result<BTreeSet<String>, Status> {
        let prefix = key::internal(area, "");
        let end = prefix_end(&prefix);
        let (mut start, mut revision): (Bytes, Option<Revision>) = (prefix.clone(), None);
        let mut held = BTreeSet::new();
        loop {
            let range = Range { start, end: end.clone(), revision, keys_only: true, ..Range::default() };
            let page = self.storage.page(range, Consistency::Linearizable).await?;
            revision = Some(page.revision);
            for item in &page.items {
                held.insert(String::from_utf8_lossy(&item.key[prefix.len()..]).into_owned());
            }
            match page.next_start() {
                Some(next) => start = next,
                None => return Ok(held),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_network_are_not_given_out() {
        let network = |text: &str| Network(text.parse().unwrap());
        let wide = network("10.96.0.0/16");
        assert!(wide.has("10.96.0.1"));
        assert!(wide.has("10.96.255.254"));
        for ip in ["10.96.0.0", "10.96.255.255", "10.95.0.1", "10.97.0.1", "::1"] {
            assert!(!wide.has(ip), "{ip}");
        }
        // (network, first address chosen unasked, hosts)
        for (text, first, count) in [
            ("10.96.0.0/16", "10.96.1.1", 65_534),
            ("10.43.0.0/24", "10.43.0.17", 254),
            ("10.43.0.16/28", "10.43.0.17", 14),
            ("10.43.0.0/32", "10.43.0.1", 0),
        ] {
            let network = network(text);
            assert_eq!(network.address(network.first_chosen()), first, "{text}");
            assert_eq!(network.hosts().count(), count, "{text}");
        }
    }

    #[test]
    fn what_is_no_longer_held_is_given_back() {
        let service = |spec: Value| Object::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap();
        let before = Holdings::of(Some(&service(json!({
            "type": "NodePort", "clusterIPs": ["10.96.1.1"], "ports": [{"nodePort": 30080}, {"nodePort": 30081}]
        }))));
        let after = Holdings::of(Some(&service(json!({
            "type": "ClusterIP", "clusterIPs": ["10.96.1.1"], "ports": [{"nodePort": 30081}]
        }))));
        let mut guards = Guards::default();
        release(&before, &after, &mut guards);
        assert_eq!(guards.ops, [Op::Delete { key: port_key(30_080) }]);
        assert_eq!(Holdings::of(Some(&service(json!({"type": "ExternalName"})))), Holdings::default());
    }
}
