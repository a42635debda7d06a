//! What plugin and agent say to each other, and the formats of the CNI specification.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::network::link::POD_GATEWAY;
use crate::proxy::plan::{HostPort, HostProtocol};

/// Versions of the specification that are spoken.
pub const VERSIONS: [&str; 4] = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"];
/// Configuration and environment of one call.
pub const MAX_REQUEST_BYTES: u64 = 1 << 20;

/// Error codes of the specification.
pub mod code {
    pub const INCOMPATIBLE_VERSION: u32 = 1;
    pub const INVALID_ENVIRONMENT: u32 = 4;
    pub const IO: u32 = 5;
    pub const DECODE: u32 = 6;
    pub const INVALID_CONFIGURATION: u32 = 7;
    pub const TRY_AGAIN: u32 = 11;
    pub const NOT_AVAILABLE: u32 = 50;
    /// From here on a plugin's own codes.
    pub const FAILED: u32 = 100;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Command {
    Add,
    Del,
    Check,
    Status,
    Gc,
}

/// One call, as the agent gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub command: Command,
    #[serde(default)]
    pub sandbox: String,
    #[serde(default)]
    pub interface: String,
    /// Absent in a DEL of a sandbox whose namespace is gone.
    #[serde(default)]
    pub namespace_path: Option<PathBuf>,
    /// `namespace/name` of the pod, for messages.
    #[serde(default)]
    pub pod: String,
    #[serde(default)]
    pub host_ports: Vec<HostPort>,
    /// Sandboxes that exist, for GC.
    #[serde(default)]
    pub alive: Vec<Attachment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    #[serde(rename = "containerID")]
    pub sandbox: String,
    #[serde(rename = "ifname")]
    pub interface: String,
}

/// The agent's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Response {
    Added(Added),
    Done,
    Failed(CniError),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Added {
    pub address: Ipv4Addr,
    pub host_interface: String,
    pub host_mac: String,
    pub pod_mac: String,
    pub mtu: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} (CNI code {code})")]
pub struct CniError {
    pub code: u32,
    pub message: String,
    #[serde(default)]
    pub details: String,
}

impl CniError {
    pub fn new(code: u32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: String::new() }
    }
}

/// The part of the plugin's configuration that is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkConfig {
    #[serde(default)]
    pub cni_version: String,
    #[serde(default)]
    pub socket: PathBuf,
    #[serde(default)]
    pub runtime_config: RuntimeConfig,
    #[serde(default)]
    pub prev_result: Option<Value>,
    #[serde(default, rename = "cni.dev/valid-attachments")]
    pub valid_attachments: Vec<Attachment>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeConfig {
    #[serde(default)]
    port_mappings: Vec<PortMapping>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PortMapping {
    #[serde(default)]
    host_port: i64,
    container_port: u16,
    #[serde(default)]
    protocol: String,
    #[serde(default, rename = "hostIP")]
    host_ip: String,
}

impl RuntimeConfig {
    /// The published ports of IPv4 addresses; mappings without a host port are the runtime's way to say "none".
    pub fn host_ports(&self) -> Result<Vec<HostPort>, CniError> {
        self.port_mappings
            .iter()
            .filter(|mapping| mapping.host_port > 0 && !mapping.host_ip.contains(':'))
            .map(PortMapping::host_port)
            .collect()
    }
}

impl PortMapping {
    fn host_port(&self) -> Result<HostPort, CniError> {
        let invalid = |what: &str| CniError::new(code::INVALID_CONFIGURATION, format!("portMappings: {what}"));
        let protocol = match self.protocol.to_ascii_lowercase().as_str() {
            "" | "tcp" => HostProtocol::Tcp,
            "udp" => HostProtocol::Udp,
            "sctp" => HostProtocol::Sctp,
            other => return Err(invalid(&format!("unknown protocol {other:?}"))),
        };
        let host_ip = match self.host_ip.as_str() {
            "" => None,
            text => Some(text.parse().map_err(|_unparsable| invalid(&format!("bad hostIP {text:?}")))?),
        };
        let host_port =
            u16::try_from(self.host_port).map_err(|_range| invalid(&format!("bad hostPort {}", self.host_port)))?;
        Ok(HostPort { host_ip, host_port, protocol, container_port: self.container_port })
    }
}

/// The result of an ADD in the words of the specification.
pub fn add_result(version: &str, interface: &str, namespace_path: &str, added: &Added) -> Value {
    let mut address = json!({
        "address": format!("{}/32", added.address),
        "gateway": POD_GATEWAY.to_string(),
        "interface": 1,
    });
    if version.starts_with("0.") {
        address["version"] = json!("4");
    }
    json!({
        "cniVersion": version,
        "interfaces": [
            {"name": added.host_interface, "mac": added.host_mac},
            {"name": interface, "mac": added.pod_mac, "sandbox": namespace_path},
        ],
        "ips": [address],
        "routes": [{"dst": "0.0.0.0/0", "gw": POD_GATEWAY.to_string()}],
        "dns": {},
    })
}

pub fn error_result(version: &str, error: &CniError) -> Value {
    let mut body = json!({"cniVersion": version, "code": error.code, "msg": error.message});
    if !error.details.is_empty() {
        body["details"] = json!(error.details);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_mappings_of_a_runtime_are_read() {
        let config: NetworkConfig = serde_json::from_value(json!({
            "cniVersion": "1.0.0", "name": "quorate", "type": "quorate-cni", "socket": "/run/x.sock",
            "runtimeConfig": {"portMappings": [
                {"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "127.0.0.1"},
                {"hostPort": 53, "containerPort": 5353, "protocol": "UDP"},
                {"hostPort": 0, "containerPort": 1},
                {"hostPort": 9, "containerPort": 9, "hostIP": "::1"}]}
        }))
        .unwrap();
        let ports = config.runtime_config.host_ports().unwrap();
        assert_eq!(ports.len(), 2);
        assert_eq!(
            (ports[0].host_ip, ports[0].host_port, ports[0].container_port),
            (Some(Ipv4Addr::LOCALHOST), 8080, 80)
        );
        assert_eq!((ports[1].protocol, ports[1].container_port), (HostProtocol::Udp, 5353));
    }

    #[test]
    fn bad_port_mappings_are_named() {
        let config: NetworkConfig = serde_json::from_value(json!({
            "runtimeConfig": {"portMappings": [{"hostPort": 70000, "containerPort": 80}]}
        }))
        .unwrap();
        let error = config.runtime_config.host_ports().unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (7, "portMappings: bad hostPort 70000"));
    }

    #[test]
    fn old_versions_name_the_family_of_an_address() {
        let added = Added {
            address: Ipv4Addr::new(10, 244, 1, 5),
            host_interface: "qpod1".into(),
            host_mac: "ee:ee:ee:ee:ee:ee".into(),
            pod_mac: "0a:58:0a:f4:01:05".into(),
            mtu: None,
        };
        let old = add_result("0.4.0", "eth0", "/run/netns/x", &added);
        assert_eq!(old["ips"][0]["version"], "4");
        let new = add_result("1.0.0", "eth0", "/run/netns/x", &added);
        assert_eq!(new["ips"], json!([{"address": "10.244.1.5/32", "gateway": "169.254.1.1", "interface": 1}]));
    }
}
