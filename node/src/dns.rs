//! The cluster's names, served on every node: authoritative for the cluster domain, a relay for everything else.
//!
//! Pods ask the cluster DNS address, which lies on the loopback interface of their own node: no translation, no
//! connection tracking, no trip to another machine. Answers come straight out of the [`catalog`](crate::network::catalog),
//! the store that the service rules are made from.
//!
//! Start reading at [`zone::Zone::lookup`] (pure: name and type in, records out), then [`handler`] (the protocol side),
//! then [`upstream`] (the relay).
//!
//! Served: services (A, AAAA), headless services and their hosts, `SRV` of named ports, `PTR` of service and endpoint
//! addresses, `CNAME` of ExternalName services, `a-b-c-d.NAMESPACE.pod`. A name without records of the asked type gets an
//! empty answer, an unknown one NXDOMAIN, both with the zone's SOA, so that resolvers may remember it.
//!
//! Bounds: [`upstream::MAX_RELAYED`], [`TCP_IDLE`], [`handler::MAX_UDP_PAYLOAD`].

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use hickory_server::Server;
use quorate_env::{Env, Scope};
use tokio::net::{TcpListener, UdpSocket};

use self::handler::Handler;
use self::upstream::Upstream;
use self::zone::Zone;
use crate::network::catalog::SharedCatalog;

pub mod handler;
pub mod upstream;
pub mod zone;

pub const PORT: u16 = 53;
/// A TCP connection that asks nothing is closed after this.
pub const TCP_IDLE: Duration = Duration::from_secs(10);
/// Answers that wait for a slow TCP client.
const TCP_RESPONSES: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The cluster DNS address.
    pub address: Ipv4Addr,
    /// For example `cluster.local`.
    pub domain: String,
    /// Resolvers for all other names; those of the machine's `/etc/resolv.conf` when empty.
    pub upstreams: Vec<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
pub enum DnsError {
    #[error("the cluster domain {0:?} is not a DNS name")]
    Domain(String),
    #[error("DNS cannot listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
}

/// Listen on the address, which must belong to this node, and serve until the scope ends.
pub async fn start(config: &Config, catalog: SharedCatalog, env: &Env, scope: &Scope) -> Result<SocketAddr, DnsError> {
    let zone = Zone::new(&config.domain, config.address).ok_or_else(|| DnsError::Domain(config.domain.clone()))?;
    let address = SocketAddr::from((config.address, PORT));
    let failed = |source| DnsError::Listen { address, source };
    let udp = UdpSocket::bind(address).await.map_err(failed)?;
    let tcp = TcpListener::bind(address).await.map_err(failed)?;
    let upstreams =
        if config.upstreams.is_empty() { upstream::of_machine(config.address).await } else { config.upstreams.clone() };
    tracing::info!(%address, domain = config.domain, ?upstreams, "serving names");
    let mut server = Server::new(Handler::new(zone, catalog, Upstream::new(upstreams, env.clone())));
    server.register_socket(udp);
    server.register_listener(tcp, TCP_IDLE, TCP_RESPONSES);
    let token = scope.clone();
    scope.spawn("dns", async move {
        tokio::select! {
            () = token.cancelled() => {}
            ended = server.block_until_done() => tracing::error!(?ended, "the DNS server ended"),
        }
        if let Err(error) = server.shutdown_gracefully().await {
            tracing::warn!(%error, "the DNS server did not end cleanly");
        }
    });
    Ok(address)
}
