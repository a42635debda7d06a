//! One member: transactions, counters, expiry, watches.

use std::time::Duration;

use quorate_raft_store::{
    Change, CommitError, Compare, Config, Consistency, Delta, Disk, Numbering, Op, Outcome, Range, ReadError, Revision,
    Seconds, SimulatedDisk, Timers, Transaction, WatchEnd, WatchRange,
};

use crate::support::{create, delete, eventually, in_memory, open, put, revision, then};

#[tokio::test]
async fn objects_of_a_transaction_take_consecutive_revisions() {
    let store = in_memory().await;
    let outcome = store.commit(then(vec![put("a", "1"), put("b", "1"), delete("c")])).await.unwrap();
    let Outcome::Committed { revision, results } = outcome else { panic!("{outcome:?}") };
    assert_eq!(revision, Revision(2));
    assert_eq!(results.iter().map(|result| result.revision.0).collect::<Vec<_>>(), [1, 2, 2]);

    let mut one = then(vec![put("a", "2"), delete("b")]);
    one.numbering = Numbering::PerTransaction;
    let Outcome::Committed { revision, results } = store.commit(one).await.unwrap() else { panic!() };
    assert_eq!(revision, Revision(3));
    assert_eq!(results.iter().map(|result| result.revision.0).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(results[1].previous.as_ref().unwrap().mod_revision, Revision(2));

    let mut watcher = store.watch(WatchRange::default(), Revision(0)).unwrap();
    let mut seen = Vec::new();
    while watcher.progress() < Revision(3) || seen.is_empty() {
        let batch = watcher.next().await.unwrap();
        seen.extend(batch.events.iter().map(|event| (event.revision.0, event.key.clone())));
    }
    assert_eq!(seen, [(1, "a".into()), (2, "b".into()), (3, "a".into()), (3, "b".into())]);
    store.close().await;
}

#[tokio::test]
async fn a_failed_compare_changes_nothing_and_names_the_current_value() {
    let store = in_memory().await;
    store.commit(create("a", "1")).await.unwrap();
    let outcome = store.commit(create("a", "2")).await.unwrap();
    let Outcome::CompareFailed { index: 0, current: Some(current), revision } = outcome else { panic!("{outcome:?}") };
    assert_eq!((current.value, revision), ("1".into(), Revision(1)));

    let stale = Compare::ModRevision { key: "a".into(), revision: Revision(0) };
    let transaction = Transaction { compares: vec![stale], then: vec![put("b", "")], ..Transaction::default() };
    assert!(matches!(store.commit(transaction).await.unwrap(), Outcome::CompareFailed { .. }));
    assert_eq!(store.get("b", Consistency::Linearizable).await.unwrap().0, None);
    store.close().await;
}

#[tokio::test]
async fn a_violated_bound_fails_the_whole_transaction() {
    let store = in_memory().await;
    let add = |by: i64| {
        let delta = Delta { name: "cpu".into(), by, min: Some(0), max: Some(10) };
        then(vec![put("pod", "x"), Op::Add { key: "node".into(), deltas: vec![delta] }])
    };
    for by in [4, 6] {
        assert!(matches!(store.commit(add(by)).await.unwrap(), Outcome::Committed { .. }));
    }
    let violated = store.commit(add(1)).await.unwrap();
    let expected = Outcome::BoundViolated { op: 1, key: "node".into(), name: "cpu".into(), value: 11, bound: 10 };
    assert_eq!((violated, store.head()), (expected, Revision(2)));
    assert_eq!(store.counters("node").await.unwrap(), [("cpu".to_owned(), 10)].into());
    store.commit(add(-10)).await.unwrap();
    assert_eq!(store.counters("node").await.unwrap(), [].into());
    store.close().await;
}

#[tokio::test]
async fn limits_are_told() {
    let store = in_memory().await;
    let huge = then(vec![put("a", &"x".repeat(9 << 20))]);
    assert!(matches!(store.commit(huge).await, Err(CommitError::TooLarge { .. })));
    let many = then((0..5000).map(|number| put(&number.to_string(), "")).collect());
    assert!(matches!(store.commit(many).await, Err(CommitError::TooMany { .. })));
    let twice = then(vec![put("a", ""), delete("a")]);
    assert_eq!(store.commit(twice).await, Err(CommitError::DuplicateKey("a".into())));
    store.close().await;
}

#[tokio::test]
async fn keys_with_a_time_to_live_are_deleted_and_watched() {
    let timers = Timers { expire_every: Duration::from_millis(50), ..Timers::default() };
    let store = open(Config { timers, ..Config::in_memory("a") }).await;
    let short = Op::Put { key: "event".into(), value: "x".into(), ttl: Some(Seconds(1)) };
    let renewed = Op::Put { key: "renewed".into(), value: "x".into(), ttl: Some(Seconds(1)) };
    store.commit(then(vec![short, renewed])).await.unwrap();
    store.commit(then(vec![put("renewed", "for ever")])).await.unwrap();
    let mut watcher = store.watch(WatchRange::key("event"), Revision(1)).unwrap();
    let batch = watcher.next().await.unwrap();
    assert_eq!(batch.events[0].change, Change::Delete);
    assert_eq!(batch.events[0].previous.as_ref().unwrap().value, "x");
    assert!(store.get("renewed", Consistency::Local).await.unwrap().0.is_some());
    store.close().await;
}

#[tokio::test]
async fn compacted_history_is_refused_and_the_rest_kept() {
    let store = in_memory().await;
    for number in 0..10 {
        store.commit(then(vec![put("a", &number.to_string()), put("b", "x")])).await.unwrap();
    }
    store.compact(Revision(15)).await.unwrap();
    let at = |revision| store.range(Range::prefix("").at(Revision(revision)), Consistency::Local);
    assert_eq!(at(14).await, Err(ReadError::Compacted { at: Revision(15) }));
    assert_eq!(at(21).await, Err(ReadError::FutureRevision { head: Revision(20) }));
    let page = at(15).await.unwrap();
    assert_eq!(page.items.iter().map(|item| item.mod_revision.0).collect::<Vec<_>>(), [15, 14]);
    assert!(matches!(store.watch(WatchRange::default(), Revision(14)), Err(ReadError::Compacted { .. })));
    let mut watcher = store.watch(WatchRange::default(), Revision(15)).unwrap();
    assert_eq!(watcher.next().await.unwrap().events[0].previous.as_ref().unwrap().mod_revision, Revision(14));
    store.close().await;
}

#[tokio::test]
async fn a_watch_of_the_future_and_progress_without_events() {
    let store = in_memory().await;
    let mut future = store.watch(WatchRange::prefix("a/"), Revision(3)).unwrap();
    let mut quiet = store.watch(WatchRange::prefix("z/"), Revision(0)).unwrap();
    for number in 1..=5 {
        let outcome = store.commit(then(vec![put(&format!("a/{number}"), "x")])).await.unwrap();
        assert_eq!(revision(&outcome), Revision(number));
    }
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(future.next().await.unwrap().events.iter().map(|event| event.revision.0));
    }
    assert_eq!(seen, [4, 5]);
    // It joins the live watchers at its first poll.
    let clock = quorate_env::Clock::real();
    assert!(clock.timeout(Duration::from_millis(20), quiet.next()).await.is_err());
    eventually("progress", async || quiet.progress() == Revision(5)).await;
    store.close().await;
    assert_eq!(quiet.next().await, Err(WatchEnd::Closed));
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_answers_reads() {
    let disk = SimulatedDisk::default();
    let timers = Timers { commit_deadline: Duration::from_millis(600), ..Timers::default() };
    let store = open(Config { disk: Disk::Simulated(disk.clone()), timers, ..Config::in_memory("a") }).await;
    store.commit(then(vec![put("a", "1")])).await.unwrap();
    disk.set_full(true);
    let first = store.commit(then(vec![put("a", "2")])).await;
    assert!(matches!(first, Err(CommitError::FateUnknown(_) | CommitError::DiskFull)), "{first:?}");
    assert_eq!(store.commit(then(vec![put("a", "3")])).await, Err(CommitError::DiskFull));
    assert_eq!(store.get("a", Consistency::Local).await.unwrap().0.unwrap().value, "1");
    disk.set_full(false);
    eventually("writes go on", async || store.commit(then(vec![put("a", "4")])).await.is_ok()).await;
    assert_eq!(store.get("a", Consistency::Linearizable).await.unwrap().0.unwrap().value, "4");
    store.close().await;
}
