//! Random histories against a plain model: ranges at every revision, compaction, watch replay.

use std::collections::BTreeMap;

use proptest::prelude::*;
use quorate_raft_store::{
    Change, Config, Consistency, Disk, Numbering, Op, Range, ReadError, Revision, SimulatedDisk, Store, Transaction,
    WatchRange,
};

use crate::support::open;

type State = BTreeMap<Vec<u8>, (Vec<u8>, u64, u64, u64)>;

/// Every revision's state, and what changed to get there.
struct Model {
    states: Vec<State>,
    changes: Vec<(u64, Vec<u8>, bool)>,
}

impl Model {
    fn new() -> Self {
        Self { states: vec![State::new()], changes: Vec::new() }
    }

    fn head(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    fn apply(&mut self, transaction: &Transaction) {
        let mut state = self.states.last().unwrap().clone();
        let mut revision = self.head();
        let mut changed = false;
        for op in &transaction.then {
            let key = op.key().to_vec();
            if matches!(op, Op::Delete { .. }) && !state.contains_key(&key) {
                continue;
            }
            if transaction.numbering == Numbering::PerObject || !changed {
                revision += 1;
            }
            changed = true;
            match op {
                Op::Put { value, .. } => {
                    let (create, version) =
                        state.get(&key).map_or((revision, 0), |(_, create, _, version)| (*create, *version));
                    state.insert(key.clone(), (value.to_vec(), create, revision, version + 1));
                    self.changes.push((revision, key, true));
                }
                Op::Delete { .. } => {
                    state.remove(&key);
                    self.changes.push((revision, key, false));
                }
                Op::Add { .. } => unreachable!("not generated"),
            }
            self.states.resize(usize::try_from(revision).unwrap(), State::new());
            self.states.push(state.clone());
        }
    }
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), Just(b'a')], 1..3)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (key(), proptest::collection::vec(any::<u8>(), 0..4))
            .prop_map(|(key, value)| Op::Put { key: key.into(), value: value.into(), ttl: None }),
        1 => key().prop_map(|key| Op::Delete { key: key.into() }),
    ]
}

fn transaction() -> impl Strategy<Value = Transaction> {
    (proptest::collection::vec(op(), 1..4), any::<bool>()).prop_map(|(mut then, per_transaction)| {
        then.sort_by(|a, b| a.key().cmp(b.key()));
        then.dedup_by(|a, b| a.key() == b.key());
        let numbering = if per_transaction { Numbering::PerTransaction } else { Numbering::PerObject };
        Transaction { then, numbering, ..Transaction::default() }
    })
}

async fn read_all(store: &Store, revision: u64, limit: usize) -> Result<State, ReadError> {
    let mut range = Range::default().at(Revision(revision)).limit(limit);
    let mut state = State::new();
    loop {
        let page = store.range(range.clone(), Consistency::Local).await?;
        assert!(limit == 0 || page.items.len() <= limit);
        for kv in &page.items {
            let record = (kv.value.to_vec(), kv.create_revision.0, kv.mod_revision.0, kv.version);
            assert_eq!(state.insert(kv.key.to_vec(), record), None);
        }
        match page.next_start() {
            Some(start) => range.start = start,
            None => return Ok(state),
        }
    }
}

async fn check(store: &Store, model: &Model, compacted: u64) {
    for revision in 0..=model.head() {
        let read = read_all(store, revision, usize::try_from(revision % 4).unwrap()).await;
        if revision < compacted {
            assert_eq!(read, Err(ReadError::Compacted { at: Revision(compacted) }));
        } else {
            assert_eq!(read.unwrap(), model.states[usize::try_from(revision).unwrap()], "at {revision}");
        }
    }
    for after in (compacted..=model.head()).step_by(3) {
        check_watch(store, model, after).await;
    }
}

async fn check_watch(store: &Store, model: &Model, after: u64) {
    let expected: Vec<_> = model.changes.iter().filter(|(revision, ..)| *revision > after).collect();
    let mut watcher = store.watch(WatchRange::default(), Revision(after)).unwrap();
    let mut seen = Vec::new();
    while seen.len() < expected.len() {
        let batch = watcher.next().await.unwrap();
        seen.extend(batch.events);
    }
    for (event, (revision, key, put)) in seen.iter().zip(&expected) {
        assert_eq!((event.revision.0, event.key.to_vec()), (*revision, key.clone()));
        let now = model.states[usize::try_from(*revision).unwrap()].get(key);
        match &event.change {
            Change::Put(kv) => {
                assert_eq!(now.unwrap(), &(kv.value.to_vec(), kv.create_revision.0, kv.mod_revision.0, kv.version));
            }
            Change::Delete => assert!(!put && now.is_none()),
        }
        if let Some(previous) = &event.previous {
            let before = &model.states[usize::try_from(previous.mod_revision.0).unwrap()][key];
            assert_eq!(before.0, previous.value.to_vec());
        }
    }
}

async fn run(history: Vec<Transaction>, compact_at: usize, reopen: bool) {
    let disk = SimulatedDisk::default();
    let config = Config { disk: Disk::Simulated(disk.clone()), ..Config::in_memory("a") };
    let mut store = open(config.clone()).await;
    let mut model = Model::new();
    let mut compacted = 0;
    for (number, transaction) in history.iter().enumerate() {
        store.commit(transaction.clone()).await.unwrap();
        model.apply(transaction);
        assert_eq!(store.head().0, model.head());
        if number == compact_at {
            compacted = model.head() / 2;
            store.compact(Revision(compacted)).await.unwrap();
        }
    }
    if reopen {
        // Nothing was flushed: all comes back from the log, and watches have no ring to read from.
        store.halt().await;
        disk.crash();
        store = open(config).await;
    }
    check(&store, &model, compacted).await;
    store.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_history_reads_as_the_model(
        history in proptest::collection::vec(transaction(), 1..30), compact_at in 0usize..60, reopen: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(history, compact_at, reopen));
    }
}
