//! Short words for what every test does.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_env::{Env, Scope};
use quorate_raft_store::{
    Compare, Config, Disk, Network, Op, Outcome, Revision, SimulatedDisk, SimulatedNetwork, Store, Timers, Transaction,
};

/// Whatever a test waits for must have happened by then.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn put(key: &str, value: &str) -> Op {
    Op::Put { key: key.to_owned().into(), value: value.to_owned().into(), ttl: None }
}

pub(crate) fn delete(key: &str) -> Op {
    Op::Delete { key: key.to_owned().into() }
}

pub(crate) fn then(then: Vec<Op>) -> Transaction {
    Transaction { then, ..Transaction::default() }
}

pub(crate) fn create(key: &str, value: &str) -> Transaction {
    let compares = vec![Compare::Absent { key: key.to_owned().into() }];
    Transaction { compares, then: vec![put(key, value)], ..Transaction::default() }
}

/// The revision of a transaction that must have been committed.
pub(crate) fn revision(outcome: &Outcome) -> Revision {
    match outcome {
        Outcome::Committed { revision, .. } => *revision,
        other => panic!("not committed: {other:?}"),
    }
}

pub(crate) async fn open(config: Config) -> Store {
    let scope = Scope::root("test");
    Store::open(config, Env::real(), scope).await.expect("the store opens")
}

pub(crate) async fn in_memory() -> Store {
    open(Config::in_memory("a")).await
}

/// Show logs as RUST_LOG says; for a test that one looks into.
pub(crate) fn logged() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    // Another test of the process may have done so.
    tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init().ok();
}

/// Await a condition, with a deadline.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let clock = quorate_env::Clock::real();
    let waited = clock.timeout(PATIENCE, async {
        while !holds().await {
            clock.sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "timed out: {what}");
}

/// Members on simulated disks that outlive them, in one process.
pub(crate) struct Group {
    pub(crate) network: SimulatedNetwork,
    pub(crate) disks: BTreeMap<String, SimulatedDisk>,
    pub(crate) stores: BTreeMap<String, Store>,
    pub(crate) checkpoint_log_bytes: u64,
}

impl Group {
    pub(crate) async fn of(names: &[&str]) -> Self {
        Self::with_checkpoints(names, 32 << 20).await
    }

    pub(crate) async fn with_checkpoints(names: &[&str], checkpoint_log_bytes: u64) -> Self {
        let disks = names.iter().map(|name| ((*name).to_owned(), SimulatedDisk::default())).collect();
        let network = SimulatedNetwork::default();
        let mut group = Self { network, disks, stores: BTreeMap::new(), checkpoint_log_bytes };
        let opened = names.iter().map(|name| {
            let config = group.config(name);
            async move { ((*name).to_owned(), open(config).await) }
        });
        group.stores = futures::future::join_all(opened).await.into_iter().collect();
        group
    }

    fn config(&self, name: &str) -> Config {
        let members = self.disks.keys().map(|name| (name.clone(), format!("{name}:2380"))).collect();
        Config {
            initial_members: members,
            disk: Disk::Simulated(self.disks[name].clone()),
            network: Network::Simulated(self.network.clone()),
            checkpoint_log_bytes: self.checkpoint_log_bytes,
            // Test machines are busy; these still elect within a second.
            timers: Timers {
                heartbeat: Duration::from_millis(50),
                election_min: Duration::from_millis(300),
                election_max: Duration::from_millis(600),
                ..Timers::default()
            },
            ..Config::in_memory(name)
        }
    }

    pub(crate) fn address(name: &str) -> String {
        format!("{name}:2380")
    }

    /// The member that leads by its own word and that of most others.
    pub(crate) async fn leader(&self) -> String {
        let mut found = String::new();
        eventually("a leader", async || {
            let leaders = self.stores.iter().filter(|(_, store)| store.leadership().borrow().is_self);
            let newest = leaders.max_by_key(|(_, store)| store.leadership().borrow().term);
            found = newest.map(|(name, _)| name.clone()).unwrap_or_default();
            !found.is_empty()
        })
        .await;
        found
    }

    /// Kill a member: what it did not sync is lost.
    pub(crate) async fn kill(&mut self, name: &str) {
        let store = self.stores.remove(name).expect("runs");
        store.halt().await;
        self.disks[name].crash();
    }

    pub(crate) async fn restart(&mut self, name: &str) {
        let store = open(self.config(name)).await;
        self.stores.insert(name.to_owned(), store);
    }

    pub(crate) async fn close(self) {
        for store in self.stores.into_values() {
            store.close().await;
        }
    }
}
