use std::collections::BTreeSet;

use bytes::Bytes;
use quorate_raft_store::{Config, Numbering, Op, Store, Transaction};
use serde_json::json;

use super::*;
use crate::storage::stored::{HeaderFields, encode};

/// The keys that are there.
#[derive(Default)]
struct Keys(RwLock<BTreeSet<Bytes>>);

impl View for Keys {
    type State = BTreeSet<Bytes>;

    fn state(&self) -> &RwLock<Self::State> {
        &self.0
    }

    fn put(&self, state: &mut Self::State, stored: &Stored) {
        state.insert(stored.key.clone());
    }

    fn delete(&self, state: &mut Self::State, key: &[u8]) {
        state.remove(key);
    }
}

async fn storage(config: Config, env: Env) -> Storage {
    Storage::new(Store::open(config, env, Scope::root("test")).await.unwrap())
}

async fn write(storage: &Storage, key: &'static str, value: Option<Bytes>) {
    let key = Bytes::from(key);
    let op = match value {
        Some(value) => Op::Put { key, value, ttl: None },
        None => Op::Delete { key },
    };
    let transaction = Transaction { compares: Vec::new(), then: vec![op], numbering: Numbering::PerObject };
    storage.commit(transaction).await.unwrap();
}

fn object() -> Bytes {
    let object = quorate_api::object::Object::from_value(json!({"metadata": {"name": "x", "uid": "u"}})).unwrap();
    encode(&object, &HeaderFields::default()).into()
}

fn range() -> WatchRange {
    WatchRange { start: Bytes::from("a"), end: Bytes::from("b") }
}

/// A reading that fails leaves the view as it was: nobody is judged by a part of it.
#[tokio::test]
async fn a_reading_that_fails_takes_nothing_away() {
    let home = tempfile::tempdir().unwrap();
    // On a real disk, since one in memory can still be read when its store is closed.
    let storage = storage(Config::single("m1", home.path()), Env::real()).await;
    write(&storage, "a/1", Some(object())).await;
    let view = Keys::default();
    load(&storage, &range(), &view).await.unwrap();
    assert_eq!(view.0.read().len(), 1);
    storage.store().clone().close().await;
    assert!(load(&storage, &range(), &view).await.is_err(), "a closed store has no answers");
    assert_eq!(view.0.read().len(), 1, "what was known is still known");
}

/// What went meanwhile is gone after the next reading, and what cannot be read keeps nothing else out.
#[tokio::test(start_paused = true)]
async fn a_new_reading_takes_the_place_of_the_old_one() {
    let env = Env::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 7);
    let storage = storage(Config::in_memory("m1"), env).await;
    write(&storage, "a/1", Some(object())).await;
    let view = Keys::default();
    load(&storage, &range(), &view).await.unwrap();
    write(&storage, "a/1", None).await;
    write(&storage, "a/2", Some(Bytes::from("damage"))).await;
    write(&storage, "a/3", Some(object())).await;
    load(&storage, &range(), &view).await.unwrap();
    assert_eq!(view.0.read().iter().collect::<Vec<_>>(), [&Bytes::from("a/3")]);
}
