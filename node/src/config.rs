//! What an agent is told when it starts, and where it keeps its files.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use tokio::sync::watch;

/// The port of the node's own HTTPS server, as clients of the Kubernetes API expect it.
pub const SERVER_PORT: u16 = 10250;
/// Name of the CNI plugin's file below [`Config::cni_bin_dir`]; a link to the `quorate` binary, which acts as the plugin
/// when it is called by this name (or as `loopback`).
pub const CNI_PLUGIN: &str = "quorate-cni";

#[derive(Clone, Debug)]
pub struct Config {
    /// The Node object's name.
    pub name: String,
    /// The addresses other nodes and the API server reach this node by; the first one is the node's main address.
    pub addresses: Vec<IpAddr>,
    pub zone: Option<String>,
    /// Further labels of the Node object.
    pub labels: BTreeMap<String, String>,
    /// Everything the agent writes lives below this directory.
    pub root_dir: PathBuf,
    pub runtime: RuntimeChoice,
    /// Image archives that a private containerd is given before the node is ready.
    pub image_archives: Vec<PathBuf>,
    pub network: ClusterNetwork,
    pub server: ServerConfig,
    /// Cgroups of the pods are made below this cgroup, so that several nodes can share one machine.
    pub cgroup_root: String,
    /// The `quorate` binary that acts as CNI plugin.
    pub binary: PathBuf,
    pub max_pods: u32,
    /// Services are not programmed when false (an external proxy does it).
    pub run_proxy: bool,
    /// Names are not served when false (an external DNS server does it).
    pub run_dns: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeChoice {
    /// A containerd that somebody else runs.
    External { address: PathBuf },
    /// A containerd started, watched and stopped by the agent, with its files below the root directory.
    Private,
    /// Containers in memory: for scale tests and where containers cannot be had.
    Simulated,
}

/// The cluster's address plan as the node needs it.
#[derive(Clone, Debug)]
pub struct ClusterNetwork {
    /// Addresses of this node's pods. When absent, the agent waits for `spec.podCIDR` of its Node object.
    pub pod_cidr: Option<IpNet>,
    pub service_cidr: IpNet,
    /// The cluster IP of DNS.
    pub dns: IpAddr,
    /// For example `cluster.local`.
    pub domain: String,
}

#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// No server when absent (simulated nodes).
    pub listen: Option<SocketAddr>,
    pub tls: Option<ServerTls>,
}

/// The node's serving certificate, which may be renewed, and the authority whose client certificates are let in.
#[derive(Clone)]
pub struct ServerTls {
    pub ca_pem: String,
    pub leaf: watch::Receiver<Leaf>,
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Leaf {
    pub cert_pem: String,
    pub key_pem: String,
}

impl std::fmt::Debug for Leaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Leaf")
    }
}

impl ServerTls {
    /// A certificate that stays the same.
    pub fn fixed(ca_pem: String, leaf: Leaf) -> Self {
        Self { ca_pem, leaf: watch::Sender::new(leaf).subscribe() }
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls")
    }
}

impl Config {
    /// The node's main address.
    pub fn address(&self) -> Option<IpAddr> {
        self.addresses.first().copied()
    }

    pub fn pods_dir(&self) -> PathBuf {
        self.root_dir.join("pods")
    }

    pub fn pod_dir(&self, uid: &str) -> PathBuf {
        self.pods_dir().join(uid)
    }

    pub fn pod_logs_dir(&self) -> PathBuf {
        self.root_dir.join("logs")
    }

    pub fn containerd_dir(&self) -> PathBuf {
        self.root_dir.join("containerd")
    }

    /// Directory of the CNI plugins that containerd calls.
    pub fn cni_bin_dir(&self) -> PathBuf {
        self.root_dir.join("cni/bin")
    }

    pub fn cni_conf_dir(&self) -> PathBuf {
        self.root_dir.join("cni/net.d")
    }

    /// The unix socket on which the agent answers the CNI plugin; its path is the `socket` key of the plugin's
    /// configuration.
    pub fn cni_socket(&self) -> PathBuf {
        self.root_dir.join("cni/agent.sock")
    }

    /// Where the network part keeps its allocations.
    pub fn network_dir(&self) -> PathBuf {
        self.root_dir.join("network")
    }

    pub fn is_below_root(&self, path: &Path) -> bool {
        path.starts_with(&self.root_dir)
    }
}
