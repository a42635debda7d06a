//! Three members over mutual TLS on loopback, with RocksDB: what differs from the simulated group.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_env::Clock;
use quorate_raft_store::{Consistency, Range, Revision, Store};

use crate::support::{PATIENCE, create, eventually, logged, put, then};
use crate::tls_members::{Members, open_all, try_open};

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
    back.halt().await;

    // A checkpoint that is cut off anywhere on its way is begun anew, and nothing of a half is kept.
    let survivor = stores.values().next().unwrap().clone();
    for step in 65..130 {
        let writes = (0..100).map(|number| survivor.commit(then(vec![put(&format!("{step}/{number}"), &value)])));
        for outcome in futures::future::join_all(writes).await {
            outcome.unwrap();
        }
    }
    for cut_after in (0..10).map(|step| Duration::from_millis(4 * step)) {
        let back = try_open(members.config(&dead)).await.unwrap();
        // However far it comes.
        back.wait_for_revision(survivor.head(), cut_after).await.ok();
        back.halt().await;
    }
    let back = try_open(members.config(&dead)).await.unwrap();
    back.wait_for_revision(survivor.head(), PATIENCE).await.unwrap();
    let (here, there) =
        (back.range(Range::default(), Consistency::Local), survivor.range(Range::default(), Consistency::Local));
    assert_eq!(here.await.unwrap(), there.await.unwrap());
    drop(survivor);
    back.close().await;
    for store in stores.into_values() {
        store.close().await;
    }
}
