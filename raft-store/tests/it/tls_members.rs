//! Members over mutual TLS on loopback, with RocksDB.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};

use quorate_env::{Env, Scope};
use quorate_raft_store::{Config, OpenError, PeerTls, Store};

/// A CA, and leaves for loopback.
pub(crate) struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: rcgen::Issuer::new(params, key), pem }
    }

    pub(crate) fn tls(&self) -> PeerTls {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        PeerTls { ca_pem: self.pem.clone(), cert_pem: leaf.pem(), key_pem: key.serialize_pem() }
    }
}

/// What members on loopback are told, and their directories.
pub(crate) struct Members {
    pub(crate) authority: Authority,
    pub(crate) list: BTreeMap<String, String>,
    pub(crate) directory: tempfile::TempDir,
}

impl Members {
    pub(crate) fn new(names: &[&str]) -> Self {
        let listeners: Vec<TcpListener> = names.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let list = names.iter().zip(&listeners).map(|(name, listener)| ((*name).to_owned(), address(listener)));
        Self { authority: Authority::new(), list: list.collect(), directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn config(&self, name: &str) -> Config {
        let address: SocketAddr = self.list[name].parse().unwrap();
        Config {
            zone: format!("zone-{name}"),
            peer_listen: Some(address),
            peer_advertise: address.to_string(),
            api_advertise: format!("{name}:6443"),
            initial_members: self.list.clone(),
            peer_tls: Some(self.authority.tls()),
            checkpoint_log_bytes: 512 << 10,
            ..Config::single(name, self.directory.path().join(name))
        }
    }
}

pub(crate) async fn try_open(config: Config) -> Result<Store, OpenError> {
    Store::open(config, Env::real(), Scope::root("test")).await
}

pub(crate) async fn open_all(members: &Members) -> BTreeMap<String, Store> {
    let opened = members.list.keys().map(|name| {
        let config = members.config(name);
        async move { (name.clone(), try_open(config).await.unwrap()) }
    });
    futures::future::join_all(opened).await.into_iter().collect()
}
