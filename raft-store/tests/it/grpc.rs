//! Three members over mutual TLS on loopback, with RocksDB: what differs from the simulated group.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};

use quorate_env::{Clock, Env, Scope};
use quorate_raft_store::{Config, Consistency, OpenError, PeerTls, Range, Revision, Store};

use crate::support::{PATIENCE, create, eventually, logged, put, then};

/// A CA, and leaves for loopback.
struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: rcgen::Issuer::new(params, key), pem }
    }

    fn tls(&self) -> PeerTls {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        PeerTls { ca_pem: self.pem.clone(), cert_pem: leaf.pem(), key_pem: key.serialize_pem() }
    }
}

struct Members {
    authority: Authority,
    list: BTreeMap<String, String>,
    directory: tempfile::TempDir,
}

impl Members {
    fn new(names: &[&str]) -> Self {
        let listeners: Vec<TcpListener> = names.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let list = names.iter().zip(&listeners).map(|(name, listener)| ((*name).to_owned(), address(listener)));
        Self { authority: Authority::new(), list: list.collect(), directory: tempfile::tempdir().unwrap() }
    }

    fn config(&self, name: &str) -> Config {
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

async fn try_open(config: Config) -> Result<Store, OpenError> {
    Store::open(config, Env::real(), Scope::root("test")).await
}

async fn open_all(members: &Members) -> BTreeMap<String, Store> {
    let opened = members.list.keys().map(|name| {
        let config = members.config(name);
        async move { (name.clone(), try_open(config).await.unwrap()) }
    });
    futures::future::join_all(opened).await.into_iter().collect()
}

fn leader(stores: &BTreeMap<String, Store>) -> Option<String> {
    stores.iter().find(|(_, store)| store.leadership().borrow().is_self).map(|(name, _)| name.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_over_mutual_tls_survives_its_leader_and_sends_checkpoints() {
    logged();
    let members = Members::new(&["a", "b", "c"]);
    let mut stores = open_all(&members).await;
    for (name, store) in &stores {
        store.commit(create(name, "x")).await.unwrap();
        store.get(name.clone(), Consistency::Linearizable).await.unwrap().0.expect("its own write");
    }
    eventually("introductions", async || {
        let status = stores["a"].status();
        status.members.len() == 3
            && status.members.iter().all(|member| member.alive && member.zone == format!("zone-{}", member.name))
    })
    .await;

    let dead = leader(&stores).unwrap();
    let clock = Clock::real();
    let killed = clock.now();
    stores.remove(&dead).unwrap().halt().await;
    let survivor = stores.values().next().unwrap().clone();
    survivor.commit(create("after", "x")).await.unwrap();
    println!("writes resumed {:?} after the leader stopped", clock.now() - killed);

    let value = "x".repeat(100);
    for step in 0..65 {
        let writes = (0..100).map(|number| survivor.commit(then(vec![put(&format!("{step}/{number}"), &value)])));
        for outcome in futures::future::join_all(writes).await {
            outcome.unwrap();
        }
    }
    let back = try_open(members.config(&dead)).await.unwrap();
    back.wait_for_revision(survivor.head(), PATIENCE).await.unwrap();
    let (here, there) =
        (back.range(Range::default(), Consistency::Local), survivor.range(Range::default(), Consistency::Local));
    assert_eq!(here.await.unwrap(), there.await.unwrap());
    assert_eq!(back.head(), Revision(6504));
    drop(survivor);
    back.close().await;
    for store in stores.into_values() {
        store.close().await;
    }
}
