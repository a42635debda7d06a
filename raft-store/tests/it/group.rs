//! Three members: death, partition, catch-up, resends.

use std::collections::BTreeMap;

use quorate_raft_store::{CommitError, Consistency, Range, Revision, Store, WatchRange};

use crate::support::{Group, create, eventually, put, revision, then};

async fn state_of(store: &Store) -> BTreeMap<Vec<u8>, (Vec<u8>, u64)> {
    let page = store.range(Range::default(), Consistency::Local).await.unwrap();
    page.items.into_iter().map(|kv| (kv.key.to_vec(), (kv.value.to_vec(), kv.mod_revision.0))).collect()
}

async fn all_agree(group: &Group) {
    let head = group.stores.values().map(|store| store.head()).max().unwrap();
    for store in group.stores.values() {
        store.wait_for_revision(head, crate::support::PATIENCE).await.unwrap();
    }
    let states: Vec<_> = futures::future::join_all(group.stores.values().map(state_of)).await;
    assert!(states.windows(2).all(|pair| pair[0] == pair[1]), "members differ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_commits_and_reads_its_own_writes() {
    let group = Group::of(&["a", "b", "c"]).await;
    for (number, (name, store)) in group.stores.iter().enumerate() {
        let outcome = store.commit(create(name, "x")).await.unwrap();
        assert_eq!(revision(&outcome), Revision(number as u64 + 1));
        assert!(store.get(name.clone(), Consistency::Local).await.unwrap().0.is_some(), "reads its own write");
    }
    for store in group.stores.values() {
        let page = store.range(Range::default(), Consistency::Linearizable).await.unwrap();
        assert_eq!(page.items.len(), 3);
        eventually("ready", async || store.status().ready).await;
        eventually("introductions", async || store.status().members.iter().all(|member| member.alive)).await;
    }
    eventually("a cluster id", async || group.stores.values().all(|store| store.status().cluster_id.is_some())).await;
    all_agree(&group).await;
    group.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_write_is_lost_or_doubled_when_leaders_die() {
    let mut group = Group::of(&["a", "b", "c"]).await;
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let leader = group.leader().await;
        let survivor = group.stores.keys().find(|name| **name != leader).unwrap().clone();
        let store = group.stores[&survivor].clone();
        let mut writer = tokio::task::JoinSet::new();
        writer.spawn(async move {
            let mut done = Vec::new();
            for number in 0..60 {
                let key = format!("{round}/{number}");
                // A resend that was applied twice would fail its compare.
                let outcome = store.commit(create(&key, "x")).await.expect("within the deadline");
                done.push((key, revision(&outcome)));
            }
            done
        });
        eventually("some writes", async || {
            let page = group.stores[&survivor].range(Range::prefix(format!("{round}/")), Consistency::Local).await;
            page.unwrap().items.len() > 10
        })
        .await;
        group.kill(&leader).await;
        acknowledged.extend(writer.join_next().await.unwrap().unwrap());
        group.restart(&leader).await;
    }
    let store = group.stores.values().next().unwrap();
    let page = store.range(Range::default(), Consistency::Linearizable).await.unwrap();
    let found: BTreeMap<_, _> = page.items.iter().map(|kv| (kv.key.clone(), kv.mod_revision)).collect();
    for (key, revision) in &acknowledged {
        assert_eq!(found.get(key.as_bytes()), Some(revision), "{key}");
    }
    assert_eq!((found.len(), store.head()), (acknowledged.len(), Revision(acknowledged.len() as u64)));
    all_agree(&group).await;
    group.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_isolated_leader_serves_nothing_stale_and_comes_back() {
    let group = Group::of(&["a", "b", "c"]).await;
    let old = group.leader().await;
    group.stores[&old].commit(create("before", "x")).await.unwrap();
    group.network.isolate(&Group::address(&old));
    let others: Vec<&Store> = group.stores.iter().filter(|(name, _)| **name != old).map(|(_, store)| store).collect();
    eventually("a new leader", async || others.iter().any(|store| store.leadership().borrow().is_self)).await;
    others[0].commit(create("meanwhile", "x")).await.unwrap();
    let isolated = group.stores[&old].clone();
    let stale = quorate_env::Clock::real()
        .timeout(std::time::Duration::from_millis(700), isolated.get("meanwhile", Consistency::Linearizable))
        .await;
    assert!(!matches!(stale, Ok(Ok(_))), "answered without a quorum: {stale:?}");
    group.network.heal();
    isolated.get("meanwhile", Consistency::Linearizable).await.unwrap().0.expect("seen after the heal");
    all_agree(&group).await;
    group.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_away_catches_up_by_checkpoint_and_its_watchers_are_told() {
    let mut group = Group::with_checkpoints(&["a", "b", "c"], 256 << 10).await;
    let leader = group.leader().await;
    let away = group.stores.keys().find(|name| **name != leader).unwrap().clone();
    let store = group.stores[&leader].clone();
    group.kill(&away).await;
    let big = "x".repeat(64);
    // More entries than the leader keeps behind a checkpoint.
    for step in 0..60 {
        let writes = (0..100).map(|number| store.commit(then(vec![put(&format!("{step}/{number}"), &big)])));
        for outcome in futures::future::join_all(writes).await {
            outcome.unwrap();
        }
    }
    group.restart(&away).await;
    let back = group.stores[&away].clone();
    back.wait_for_revision(store.head(), crate::support::PATIENCE).await.unwrap();
    let mut watcher = back.watch(WatchRange::prefix("0/"), Revision(0)).unwrap();
    let mut seen = 0;
    while seen < 100 {
        seen += watcher.next().await.unwrap().events.len();
    }
    all_agree(&group).await;
    group.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_without_a_quorum_says_so_and_returns() {
    let group = Group::of(&["a", "b", "c"]).await;
    eventually("ready", async || group.stores.values().all(|store| store.status().ready)).await;
    eventually("introductions", async || {
        group.stores.values().all(|store| store.status().members.iter().all(|member| member.alive))
    })
    .await;
    // Both kinds of survivor: the leader and a follower.
    for cut_off in ["a", "b", "c"] {
        group.network.isolate(&Group::address(cut_off));
        let store = &group.stores[cut_off];
        eventually("unready", async || !store.status().ready && store.status().leader.is_none()).await;
        let error = store.commit(create("nowhere", "x")).await.unwrap_err();
        assert!(matches!(error, CommitError::Unavailable(_)), "{error}");
        assert!(error.to_string().contains("no quorum: 1 of 3 members reachable"), "{error}");
        let error = store.get("nowhere", Consistency::Linearizable).await.unwrap_err();
        assert!(error.to_string().contains("no quorum"), "{error}");
        group.network.heal();
        eventually("ready again", async || store.status().ready && store.status().leader.is_some()).await;
    }
    all_agree(&group).await;
    group.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_returns_from_a_partition_disturbs_nobody() {
    let group = Group::of(&["a", "b", "c"]).await;
    let leader = group.leader().await;
    let away = group.stores.keys().find(|name| **name != leader).unwrap().clone();
    let before = group.stores[&leader].status();
    group.network.isolate(&Group::address(&away));
    for number in 0..50 {
        group.stores[&leader].commit(create(&format!("{number}"), "x")).await.unwrap();
    }
    eventually("it knows", async || !group.stores[&away].status().ready).await;
    group.network.heal();
    group.stores[&away].wait_for_revision(Revision(50), crate::support::PATIENCE).await.unwrap();
    let after = group.stores[&leader].status();
    assert_eq!((after.leader, after.term), (before.leader, before.term), "an election for nothing");
    all_agree(&group).await;
    group.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_with_a_stalled_disk_stalls_nobody() {
    let group = Group::of(&["a", "b", "c"]).await;
    let leader = group.leader().await;
    let stalled = group.stores.keys().find(|name| **name != leader).unwrap().clone();
    group.disks[&stalled].set_full(true);
    for number in 0..200 {
        group.stores[&leader].commit(create(&format!("{number}"), "x")).await.unwrap();
    }
    assert!(group.stores[&leader].leadership().borrow().is_self, "leadership was lost by another's disk");
    group.disks[&stalled].set_full(false);
    group.stores[&stalled].wait_for_revision(Revision(200), crate::support::PATIENCE).await.unwrap();
    all_agree(&group).await;
    group.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_with_a_full_disk_lets_another_lead() {
    let group = Group::of(&["a", "b", "c"]).await;
    let leader = group.leader().await;
    eventually("introductions", async || group.stores[&leader].status().members.iter().all(|member| member.alive))
        .await;
    group.disks[&leader].set_full(true);
    let other = group.stores.keys().find(|name| **name != leader).unwrap();
    let mut number = 0;
    eventually("writes with another leader", async || {
        number += 1;
        let written = group.stores[other].commit(create(&format!("{number}"), "x")).await;
        let others = group.stores.iter().filter(|(name, _)| **name != leader);
        written.is_ok() && others.into_iter().any(|(_, store)| store.leadership().borrow().is_self)
    })
    .await;
    group.disks[&leader].set_full(false);
    all_agree(&group).await;
    group.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_handed_over() {
    let group = Group::of(&["a", "b", "c"]).await;
    let leader = group.leader().await;
    group.stores[&leader].commit(create("a", "x")).await.unwrap();
    eventually("introductions", async || group.stores[&leader].status().members.iter().all(|member| member.alive))
        .await;
    assert!(group.stores[&leader].transfer_leadership().await, "another member leads");
    group.stores[&leader].commit(create("b", "x")).await.unwrap();
    group.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_miss_nothing_while_the_leader_dies() {
    let mut group = Group::of(&["a", "b", "c"]).await;
    let leader = group.leader().await;
    let survivor = group.stores.keys().find(|name| **name != leader).unwrap().clone();
    let store = group.stores[&survivor].clone();
    let mut watcher = store.watch(WatchRange::default(), Revision(0)).unwrap();
    let mut writer = tokio::task::JoinSet::new();
    writer.spawn(async move {
        for number in 0..100 {
            store.commit(create(&format!("{number}"), "x")).await.expect("within the deadline");
        }
    });
    let mut seen = Vec::new();
    while seen.len() < 100 {
        if seen.len() > 20 && group.stores.contains_key(&leader) {
            group.kill(&leader).await;
        }
        seen.extend(watcher.next().await.unwrap().events.iter().map(|event| event.revision.0));
    }
    assert_eq!(seen, (1..=100).collect::<Vec<_>>());
    writer.join_next().await.unwrap().unwrap();
    group.close().await;
}
