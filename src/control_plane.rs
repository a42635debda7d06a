//! A member, put together: store → API server → listeners → what the leader runs.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use quorate_apiserver::bootstrap::{self, Settings};
use quorate_apiserver::pki::Pki;
use quorate_apiserver::pod_cidr::PodNetwork;
use quorate_apiserver::server::{self, Server};
use quorate_env::{Env, Scope};
use quorate_raft_store::{Config as StoreConfig, PeerTls, Store};
use tokio::net::TcpListener;

use crate::cli::{ApiFlags, Part};
use crate::leader_parts::{self, LeaderParts};
use crate::{places, shutdown, version};

/// The tenth address of the service network is DNS's, by custom.
const DNS_HOST: u32 = 10;
const CLUSTER_DOMAIN: &str = "cluster.local";

/// What a member is told beside its [`ApiFlags`].
#[derive(Debug)]
pub(crate) struct Membership {
    pub name: String,
    pub zone: String,
    pub data_dir: PathBuf,
    /// Absent for a member that is alone for good.
    pub listen_peer: Option<SocketAddr>,
    /// Name → address of all members; empty for one that is alone.
    pub initial_members: BTreeMap<String, String>,
    /// Where nodes and clients reach this member.
    pub advertise: SocketAddr,
    /// Every address that the API is served on.
    pub listen: Vec<SocketAddr>,
}

/// A running member.
pub(crate) struct ControlPlane {
    pub server: Server,
    pub pki: Arc<Pki>,
    store: Store,
    leader: LeaderParts,
    api: Scope,
    serving: Scope,
    store_scope: Scope,
}

impl ControlPlane {
    pub(crate) async fn start(
        flags: &ApiFlags,
        membership: Membership,
        metrics: &prometheus::Registry,
        env: &Env,
    ) -> anyhow::Result<Self> {
        places::create_private_dir(&membership.data_dir)?;
        let listeners = bind(&membership.listen).await?;
        let pki = Arc::new(open_pki(flags, &membership, env)?);
        let cluster = settings(flags, membership.advertise)?;
        let (store_scope, api) = (Scope::root("store"), Scope::root("api"));
        let store = Store::open(store_config(&membership, &pki)?, env.clone(), store_scope.clone()).await?;
        let config = server::Config {
            legacy_apis: flags.legacy_apis,
            pki: Some(Arc::clone(&pki)),
            cluster: cluster.clone(),
            metrics: metrics.clone(),
            git_commit: version::COMMIT.to_owned(),
            build_date: String::new(),
        };
        let server = Server::open(config, store.clone(), env.clone(), api.clone()).await?;
        bootstrap::start(&server, &api);
        let serving = Scope::root("serving");
        serve(&server, &pki, &cluster, flags, &membership, listeners, &serving)?;
        let leader = leader_parts::start(flags, &server, &store, &pki, metrics, env)?;
        tracing::info!(name = membership.name, zone = membership.zone, listen = ?membership.listen, "member started");
        Ok(Self { server, pki, store, leader, api, serving, store_scope })
    }

    /// Resolves when `/readyz` would say ok.
    pub(crate) async fn ready(&self) {
        /// Between two looks while a member starts.
        const LOOK: std::time::Duration = std::time::Duration::from_millis(2);
        while !self.server.ready() {
            self.server.env().clock.sleep(LOOK).await;
        }
    }

    /// The order of [`shutdown`]; `before_close` ends what lives in this process and still needs the API.
    pub(crate) async fn stop(self, env: &Env) {
        self.server.begin_drain();
        env.clock.sleep(shutdown::UNREADY).await;
        self.server.close();
        report_unfinished(self.serving.close(shutdown::DRAIN).await);
        self.leader.stop().await;
        if env.clock.timeout(shutdown::HAND_OVER, self.store.transfer_leadership()).await.is_err() {
            tracing::warn!("leadership was not handed over in time");
        }
        report_unfinished(self.api.close(shutdown::CLOSE).await);
        if env.clock.timeout(shutdown::CLOSE, self.store.close()).await.is_err() {
            tracing::warn!("the store did not close in time; its log is durable");
        }
        report_unfinished(self.store_scope.close(shutdown::CLOSE).await);
    }
}

pub(crate) fn report_unfinished(tasks: Vec<String>) {
    for task in tasks {
        tracing::warn!(task, "did not end in time");
    }
}

async fn bind(addresses: &[SocketAddr]) -> anyhow::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for address in addresses {
        let listener = TcpListener::bind(address).await;
        listeners.push(listener.with_context(|| {
            format!(
                "{address} cannot be listened on; is another member or API server running? (--listen chooses another)"
            )
        })?);
    }
    Ok(listeners)
}

/// One member alone makes its own authorities; several must share them, so they are made once and copied.
fn open_pki(flags: &ApiFlags, membership: &Membership, env: &Env) -> anyhow::Result<Pki> {
    let dir = flags.pki_dir.clone().unwrap_or_else(|| membership.data_dir.join("pki"));
    if membership.initial_members.len() <= 1 {
        return Ok(Pki::open_or_create(&dir, env)?);
    }
    Pki::open(&dir, env).with_context(|| {
        let dir = dir.display();
        format!("members share their certificate authorities: run `quorate pki create --dir {dir}` once and copy the directory to every member")
    })
}

fn settings(flags: &ApiFlags, advertise: SocketAddr) -> anyhow::Result<Settings> {
    let service_cidr: ipnet::Ipv4Net = flags.service_cidr.parse().context("--service-cidr")?;
    let pod_network =
        PodNetwork { cidr: flags.cluster_cidr.parse().context("--cluster-cidr")?, ..PodNetwork::default() };
    let dns = std::net::Ipv4Addr::from(u32::from(service_cidr.network()) + DNS_HOST);
    if !service_cidr.contains(&dns) {
        bail!("--service-cidr {service_cidr}: too small, it has no tenth address for DNS");
    }
    Ok(Settings {
        service_cidr,
        pod_network,
        cluster_dns: IpAddr::V4(dns),
        cluster_domain: CLUSTER_DOMAIN.to_owned(),
        api_port: advertise.port(),
        api_url: format!("https://{advertise}"),
    })
}

fn store_config(membership: &Membership, pki: &Pki) -> anyhow::Result<StoreConfig> {
    let advertised = membership.initial_members.get(&membership.name).cloned();
    let peer_tls = match membership.listen_peer {
        None => None,
        Some(listen) => {
            let names = [listen.ip().to_string(), host_of(advertised.as_deref().unwrap_or_default())];
            let leaf = pki.member(&membership.name, &names)?;
            let ca_pem = pki.peer().pem().to_owned();
            Some(PeerTls { ca_pem, cert_pem: leaf.certificate, key_pem: leaf.key })
        }
    };
    Ok(StoreConfig {
        zone: membership.zone.clone(),
        peer_listen: membership.listen_peer,
        peer_advertise: advertised.or(membership.listen_peer.map(|a| a.to_string())).unwrap_or_default(),
        api_advertise: membership.advertise.to_string(),
        initial_members: membership.initial_members.clone(),
        peer_tls,
        ..StoreConfig::single(&membership.name, membership.data_dir.join("store"))
    })
}

fn host_of(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _port)| host);
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

fn serve(
    server: &Server,
    pki: &Arc<Pki>,
    cluster: &Settings,
    flags: &ApiFlags,
    membership: &Membership,
    listeners: Vec<TcpListener>,
    scope: &Scope,
) -> anyhow::Result<()> {
    let mut names: Vec<String> = membership.listen.iter().map(|address| address.ip().to_string()).collect();
    names.push(membership.advertise.ip().to_string());
    names.push(membership.name.clone());
    names.extend(flags.tls_san.iter().cloned());
    names.sort();
    names.dedup();
    for listener in listeners {
        let (server, tls) = (server.clone(), pki.server_config(&names, cluster.api_service_ip())?);
        scope.spawn("listener", async move { server.serve(listener, tls).await });
    }
    Ok(())
}

/// Whether `part` was left out by `--without`.
pub(crate) fn is_without(flags: &[Part], part: Part) -> bool {
    flags.contains(&part)
}
