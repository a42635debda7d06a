//! One member on RocksDB: restarts, cuts of the log.

use quorate_raft_store::{Config, Consistency, Range, Revision, WatchRange};

use crate::support::{create, open, put, then};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_acknowledged_survives_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config::single("a", directory.path());
    let mut expected = 0;
    for round in 0..4 {
        let store = open(config.clone()).await;
        let page = store.range(Range::default(), Consistency::Linearizable).await.unwrap();
        assert_eq!((page.items.len(), page.revision), (expected, Revision(expected as u64)));
        let writes = (0..300).map(|number| store.commit(create(&format!("{round}/{number}"), "x")));
        for outcome in futures::future::join_all(writes).await {
            outcome.unwrap();
        }
        expected += 300;
        let mut watcher = store.watch(WatchRange::default(), Revision(0)).unwrap();
        let mut seen = Vec::new();
        while seen.len() < expected {
            seen.extend(watcher.next().await.unwrap().events.iter().map(|event| event.revision.0));
        }
        assert_eq!(seen, (1..=expected as u64).collect::<Vec<_>>());
        drop(watcher);
        // Every other end is a kill: the state was not flushed and comes back from the log.
        if round % 2 == 0 {
            store.halt().await;
        } else {
            store.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_cut_at_checkpoints_and_history_reads_as_before() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config { checkpoint_log_bytes: 256 << 10, ..Config::single("a", directory.path()) };
    let store = open(config.clone()).await;
    for step in 0..80 {
        let writes = (0..100).map(|number| store.commit(then(vec![put(&format!("k{number}"), &format!("{step}"))])));
        for outcome in futures::future::join_all(writes).await {
            outcome.unwrap();
        }
    }
    let middle = Revision(4000);
    let before = store.range(Range::default().at(middle), Consistency::Local).await.unwrap();
    store.halt().await;
    let store = open(config).await;
    assert_eq!(store.range(Range::default().at(middle), Consistency::Local).await.unwrap(), before);
    assert_eq!(store.head(), Revision(8000));
    store.close().await;
}
