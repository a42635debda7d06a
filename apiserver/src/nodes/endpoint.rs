//! Where a node's server listens, as the node has written it into its own object.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use quorate_api::object::Object;
use serde_json::Value;

use super::NodeError;

/// What nodes listen on unless they say otherwise.
const DEFAULT_PORT: u16 = 10250;
/// Kinds of addresses that are dialled, best first.
const KINDS: [&str; 2] = ["InternalIP", "ExternalIP"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint(SocketAddr);

impl Endpoint {
    pub(crate) fn of(node: &Object) -> Result<Self, NodeError> {
        let none = Vec::new();
        let addresses = node.get("/status/addresses").and_then(Value::as_array).unwrap_or(&none);
        let of_kind = |kind: &str| {
            let mut own = addresses.iter().filter(|address| text(address, "type") == kind);
            own.find_map(|address| text(address, "address").parse::<IpAddr>().ok())
        };
        let ip = KINDS.into_iter().find_map(of_kind);
        let ip = ip.ok_or_else(|| NodeError::NoAddress { node: node.name().to_owned(), known: list(addresses) })?;
        let port = node.get("/status/daemonEndpoints/kubeletEndpoint/Port").and_then(Value::as_u64);
        let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
        Ok(Self(SocketAddr::new(ip, port.unwrap_or(DEFAULT_PORT))))
    }

    /// Somewhere else than a node's own server.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self(address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0
    }

    pub(super) fn late(&self, doing: &'static str, limit: Duration) -> NodeError {
        NodeError::Late { address: self.0, doing, limit }
    }

    pub(super) fn broken(&self, source: hyper::Error) -> NodeError {
        NodeError::Broken { address: self.0, source }
    }
}

fn text<'a>(address: &'a Value, key: &str) -> &'a str {
    address.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list(addresses: &[Value]) -> String {
    let mut out = String::new();
    for address in addresses {
        let separator = if out.is_empty() { "" } else { " " };
        // Writing to a String cannot fail.
        let _infallible = write!(out, "{separator}{}={}", text(address, "type"), text(address, "address"));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(status: Value) -> Result<String, String> {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status});
        let endpoint = Endpoint::of(&Object::from_value(node).unwrap());
        endpoint.map(|endpoint| endpoint.0.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_internal_address_and_the_reported_port() {
        let addresses = json!([
            {"type": "Hostname", "address": "n1"},
            {"type": "ExternalIP", "address": "192.0.2.1"},
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "InternalIP", "address": "fd00::1"},
        ]);
        assert_eq!(of(json!({"addresses": addresses})), Ok("10.0.0.1:10250".into()));
        let ports = json!({"kubeletEndpoint": {"Port": 10350}});
        assert_eq!(of(json!({"addresses": addresses, "daemonEndpoints": ports})), Ok("10.0.0.1:10350".into()));
        let six = json!([{"type": "InternalIP", "address": "fd00::1"}]);
        assert_eq!(of(json!({"addresses": six})), Ok("[fd00::1]:10250".into()));
    }

    #[test]
    fn a_node_without_an_address() {
        let addresses = json!([{"type": "Hostname", "address": "n1"}]);
        let refused = of(json!({"addresses": addresses})).unwrap_err();
        assert_eq!(refused, "no preferred addresses found for node \"n1\"; known addresses: [Hostname=n1]");
    }
}
