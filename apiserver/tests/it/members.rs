//! Several members, some of them cut off: what they refuse to say or to do twice.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use quorate_apiserver::{Config, Server};
use quorate_env::{Env, Scope};
use quorate_raft_store::{Config as StoreConfig, Disk, Network, SimulatedDisk, SimulatedNetwork, Store, Timers};
use serde_json::json;

use crate::world::{CONFIG_MAPS, World};

const NAMES: [&str; 3] = ["m1", "m2", "m3"];
/// Time within which whatever a test waits for must have happened.
const PATIENCE: Duration = Duration::from_secs(30);

/// Members on simulated disks that outlive them, in one process.
struct Group {
    env: Env,
    network: SimulatedNetwork,
    disks: BTreeMap<&'static str, SimulatedDisk>,
    members: BTreeMap<&'static str, (World, Scope)>,
}

fn address(name: &str) -> String {
    format!("{name}:2380")
}

impl Group {
    /// Three members, and the namespace `a`.
    async fn new() -> Self {
        let env = Env::real();
        let disks = NAMES.map(|name| (name, SimulatedDisk::default())).into();
        let mut group = Self { env, network: SimulatedNetwork::default(), disks, members: BTreeMap::new() };
        let opened = futures::future::join_all(NAMES.map(|name| group.open(name))).await;
        group.members = NAMES.into_iter().zip(opened).collect();
        group.world(group.leader().await).namespace("a").await;
        group
    }

    async fn open(&self, name: &str) -> (World, Scope) {
        let config = StoreConfig {
            initial_members: NAMES.map(|name| (name.to_owned(), address(name))).into(),
            disk: Disk::Simulated(self.disks[name].clone()),
            network: Network::Simulated(self.network.clone()),
            // Test machines are busy; these still elect within a second, and an unknown fate is known to be so soon.
            timers: Timers {
                heartbeat: Duration::from_millis(50),
                election_min: Duration::from_millis(300),
                election_max: Duration::from_millis(600),
                commit_deadline: Duration::from_secs(1),
                read_deadline: Duration::from_secs(1),
                ..Timers::default()
            },
            ..StoreConfig::in_memory(name)
        };
        let scope = Scope::root(name);
        let store = Store::open(config, self.env.clone(), scope.child("store")).await.unwrap();
        let server = Server::open(Config::default(), store, self.env.clone(), scope.child("api")).await.unwrap();
        (World::of(server), scope)
    }

    fn world(&self, name: &str) -> &World {
        &self.members[name].0
    }

    async fn eventually(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let waited = self.env.clock.timeout(PATIENCE, async {
            while !holds().await {
                self.env.clock.sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(waited.await.is_ok(), "timed out: {what}");
    }

    async fn leader(&self) -> &'static str {
        let mut found = None;
        self.eventually("a leader", async || {
            let leads = |name: &&str| self.world(name).server.storage().store().leadership().borrow().is_self;
            found = NAMES.into_iter().find(leads);
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    /// Ends a member without a farewell; its disk stays.
    async fn kill(&mut self, name: &str) {
        let (world, scope) = self.members.remove(name).unwrap();
        world.server.storage().store().clone().halt().await;
        scope.close(PATIENCE).await;
    }
}

#[tokio::test]
async fn a_write_of_unknown_fate_is_not_made_again() {
    let group = Group::new().await;
    let leader = group.leader().await;
    let world = group.world(leader);
    world.config_map("c", &json!({"k": "v"})).await.expect(201);
    let path = format!("{CONFIG_MAPS}/c");
    group.network.isolate(&address(leader));
    // The leader still leads by its own word, takes the change into its log and cannot learn what becomes of it.
    let add = json!([{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/x"]}]);
    let (patched, deleted) = tokio::join!(
        world.patch(&path, "application/json-patch+json", &add),
        world.delete(&path, &serde_json::Value::Null),
    );
    for answer in [patched, deleted] {
        let answer = answer.expect(504);
        assert!(answer.message().contains("fate is unknown"), "judged a second time: {}", answer.message());
    }
}

#[tokio::test]
async fn a_member_that_has_not_caught_up_says_nothing_old() {
    let mut group = Group::new().await;
    let leader = group.leader().await;
    let behind = NAMES.into_iter().find(|name| *name != leader).unwrap();
    group.world(leader).config_map("c", &json!({"k": "old"})).await.expect(201);
    let path = format!("{CONFIG_MAPS}/c");
    let local = format!("{path}?resourceVersion=0");
    group.eventually("replication", async || group.world(behind).get(&local).await.code == 200).await;
    group.kill(behind).await;
    group.world(leader).merge(&path, &json!({"data": {"k": "new"}})).await.expect(200);

    group.network.isolate(&address(behind));
    let reopened = group.open(behind).await;
    group.members.insert(behind, reopened);
    let world = group.world(behind);
    let list = format!("{CONFIG_MAPS}?resourceVersion=0");
    let watch = format!("{CONFIG_MAPS}?watch=1&resourceVersion=0");
    let change = json!({"data": {"k": "newest"}});
    let (read, listed, watched, changed) =
        tokio::join!(world.get(&local), world.get(&list), world.get(&watch), world.merge(&path, &change));
    for refused in [read, listed, watched, changed] {
        let refused = refused.expect(503);
        assert_eq!(refused.headers["retry-after"], "1");
        assert_eq!(refused.field("/reason"), "ServiceUnavailable");
    }
    for path in ["/livez", "/version", "/metrics", "/quorate/v1/status"] {
        world.call(Method::GET, path, &[], "").await.expect(200);
    }
    world.get("/readyz").await.expect(500);

    group.network.heal();
    group.eventually("the member catches up", async || world.get("/readyz").await.code == 200).await;
    assert_eq!(world.get(&local).await.expect(200).field("/data/k"), "new");
}
