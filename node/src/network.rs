//! The node's network: pods get addresses and cables, other nodes' pods get routes, Services get rules and names.
//!
//! Start reading at [`Network::start`], then [`dataplane`] (the one task that writes rules and routes) and [`pods`]
//! (what a call of the CNI plugin does).
//!
//! Flow: watches of Services, EndpointSlices, Endpoints and Nodes ([`feed`]) → the owner task ([`dataplane`]) → the
//! [`catalog`], which DNS reads → plans of the touched services → one nftables transaction → [`dataplane::Progress`].
//!
//! Everything happens in the network namespace of the calling process (or thread, in tests): a node that lives in a
//! namespace of its own is started inside it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use kube::Client;
use parking_lot::Mutex;
use quorate_env::{Env, Scope};

use self::catalog::SharedCatalog;
use self::dataplane::{Dataplane, Parts, Progress, Stopped};
use self::ipam::{Ipam, IpamError};
use self::netlink::NetlinkError;
use self::pods::PodNetwork;
use crate::cni;
use crate::dns::{self, DnsError};
use crate::proxy::Viewpoint;
use crate::proxy::nft::{self, NftError};
use crate::proxy::ruleset::{self, Constants};

pub mod catalog;
pub mod dataplane;
pub mod feed;
pub mod ipam;
pub mod link;
pub mod netlink;
pub mod pods;
pub mod routes;

/// What the network is told when it starts.
#[derive(Debug, Clone)]
pub struct Config {
    pub node: String,
    /// IPv4 addresses of this node; the first one is its main address.
    pub addresses: Vec<Ipv4Addr>,
    /// Addresses for pods. When absent, those of the Node object are waited for.
    pub pod_cidr: Option<Ipv4Net>,
    pub service_cidr: Option<Ipv4Net>,
    /// Names are served at this address when present.
    pub dns: Option<dns::Config>,
    /// Services are programmed.
    pub proxy: bool,
    /// Allocations are kept here.
    pub state_dir: PathBuf,
    pub cni: CniConfig,
    /// Of pod interfaces; that of the node's own interface when absent.
    pub mtu: Option<u32>,
}

#[derive(Debug, Clone)]
pub struct CniConfig {
    pub binary: PathBuf,
    pub bin_dir: PathBuf,
    pub conf_dir: PathBuf,
    pub socket: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the node has no IPv4 address")]
    NoAddress,
    #[error("IP forwarding cannot be switched on ({path})")]
    Forwarding { path: &'static str, source: std::io::Error },
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    #[error(transparent)]
    Ipam(#[from] IpamError),
    #[error(transparent)]
    Dns(#[from] DnsError),
    #[error(transparent)]
    CniInstall(#[from] cni::InstallError),
    #[error(transparent)]
    CniSocket(#[from] cni::server::SocketError),
}

#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    #[error(transparent)]
    Rules(#[from] NftError),
}

impl Config {
    /// The network's part of the node's configuration.
    pub fn of(node: &crate::Config) -> Self {
        let v4 = |net: IpNet| match net {
            IpNet::V4(net) => Some(net),
            IpNet::V6(_) => None,
        };
        let dns = match node.network.dns {
            IpAddr::V4(address) if node.run_dns => {
                Some(dns::Config { address, domain: node.network.domain.clone(), upstreams: Vec::new() })
            }
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        };
        Self {
            node: node.name.clone(),
            addresses: node
                .addresses
                .iter()
                .filter_map(|address| match address {
                    IpAddr::V4(address) => Some(*address),
                    IpAddr::V6(_) => None,
                })
                .collect(),
            pod_cidr: node.network.pod_cidr.and_then(v4),
            service_cidr: v4(node.network.service_cidr),
            dns,
            proxy: node.run_proxy,
            state_dir: node.network_dir(),
            cni: CniConfig {
                binary: node.binary.clone(),
                bin_dir: node.cni_bin_dir(),
                conf_dir: node.cni_conf_dir(),
                socket: node.cni_socket(),
            },
            mtu: None,
        }
    }
}

/// The running network.
#[derive(Debug)]
pub struct Network;

/// What others may ask of the running network.
#[derive(Debug, Clone)]
pub struct Handle {
    dataplane: Dataplane,
    catalog: SharedCatalog,
    dns: Option<SocketAddr>,
}

impl Network {
    /// Make the node ready for pods, and start the tasks in `scope`. Returns when the CNI plugin is installed and
    /// answered and names are served; rules follow when the watches have delivered ([`Handle::loaded`]).
    pub async fn start(config: Config, env: &Env, scope: &Scope, client: Client) -> Result<Handle, StartError> {
        let main_address = *config.addresses.first().ok_or(StartError::NoAddress)?;
        forward_packets()?;
        let netlink = netlink::open(scope)?;
        let lo = netlink::index_of(&netlink, "lo").await?;
        netlink::set_up(&netlink, lo).await?;
        let uplink = netlink::interface_of(&netlink, main_address).await?;
        if uplink.is_none() {
            tracing::warn!(%main_address, "no interface has the node's address; pods see another source address");
        }
        let ipam = open_ipam(&config)?;
        let published = PodNetwork::published(&ipam);
        let ipam = Arc::new(Mutex::new(ipam));
        let catalog = SharedCatalog::default();

        let own_dns = config.dns.as_ref().map(|dns| dns.address);
        let parts = Parts {
            constants: Constants { services: config.service_cidr, own_dns },
            viewpoint: Viewpoint { node: config.node.clone(), local_pods: config.pod_cidr, own_dns },
            proxy: config.proxy,
            addresses: config.addresses.clone(),
            catalog: catalog.clone(),
            ipam: ipam.clone(),
            netlink: netlink.clone(),
            published,
        };
        let dns = match &config.dns {
            Some(dns) => {
                netlink::add_host_address(&netlink, lo, dns.address).await?;
                Some(dns::start(dns, catalog.clone(), env, scope).await?)
            }
            None => None,
        };
        let dataplane = dataplane::start(parts, feed::start(&client, env, scope), env, scope);
        let mtu = config.mtu.or(uplink.and_then(|(_, mtu)| mtu));
        let source = uplink.map(|_| main_address);
        let pods = Arc::new(PodNetwork { ipam, netlink, dataplane: dataplane.clone(), mtu, source });
        serve_cni(&config.cni, pods, env, scope)?;
        Ok(Handle { dataplane, catalog, dns })
    }
}

impl Network {
    /// Take away what a stopped network left in the kernel on purpose, so that pods outlive the agent: rules, routes to
    /// other nodes, the DNS address. For machines that stop being a node.
    pub async fn remove(config: &Config, env: &Env, scope: &Scope) -> Result<(), RemoveError> {
        let netlink = netlink::open(scope)?;
        for (range, next_hop, error) in routes::sync(&netlink, &BTreeMap::new()).await? {
            tracing::warn!(%range, %next_hop, %error, "a route stays");
        }
        if let Some(dns) = &config.dns {
            let lo = netlink::index_of(&netlink, "lo").await?;
            netlink::remove_host_address(&netlink, lo, dns.address).await?;
        }
        nft::run(&env.clock, &ruleset::removal()).await?;
        Ok(())
    }
}

fn open_ipam(config: &Config) -> Result<Ipam, IpamError> {
    let mut ipam = Ipam::open(&config.state_dir.join("addresses"))?;
    if let Some(range) = config.pod_cidr {
        ipam.set_range(range);
    }
    Ok(ipam)
}

fn serve_cni(config: &CniConfig, pods: Arc<PodNetwork>, env: &Env, scope: &Scope) -> Result<(), StartError> {
    // The socket first: as soon as the configuration is there, the runtime may call.
    let listener = cni::server::bind(&config.socket)?;
    cni::install(&config.binary, &config.bin_dir, &config.conf_dir, &config.socket)?;
    scope.spawn("cni", cni::server::serve(listener, pods, env.clock.clone(), scope.clone()));
    Ok(())
}

/// Packets of pods pass through this node.
fn forward_packets() -> Result<(), StartError> {
    let path = "/proc/sys/net/ipv4/ip_forward";
    let failed = |source| StartError::Forwarding { path, source };
    // Where the file system is read-only, somebody else may have done it.
    if std::fs::read_to_string(path).map_err(failed)?.trim() == "1" {
        return Ok(());
    }
    std::fs::write(path, "1").map_err(failed)
}

impl Handle {
    /// Resolves when the first rules are in force.
    pub async fn loaded(&self) -> Result<(), Stopped> {
        let mut progress = self.dataplane.progress();
        progress.wait_for(|progress| progress.generation > 0).await.map(drop).map_err(|_closed| Stopped)
    }

    /// Returns when everything that the watches had delivered before the call is in force.
    pub async fn barrier(&self) -> Result<(), Stopped> {
        self.dataplane.barrier().await
    }

    pub fn progress(&self) -> tokio::sync::watch::Receiver<Progress> {
        self.dataplane.progress()
    }

    /// Services and endpoints as this node knows them.
    pub fn catalog(&self) -> SharedCatalog {
        self.catalog.clone()
    }

    /// Where names are served.
    pub fn dns_address(&self) -> Option<SocketAddr> {
        self.dns
    }
}
