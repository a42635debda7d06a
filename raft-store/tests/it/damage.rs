//! Data directories that must not be opened: used, damaged, of another version. Each message names the next step.

use std::net::TcpListener;
use std::path::Path;

use quorate_env::{Env, Scope};
use quorate_raft_store::{Config, OpenError, Store};

use crate::support::{create, open};

async fn refused(config: Config) -> OpenError {
    match Store::open(config, Env::real(), Scope::root("test")).await {
        Err(error) => error,
        Ok(store) => {
            store.halt().await;
            panic!("opened");
        }
    }
}

/// A lone member's directory with some data, of which `flushed` or not.
async fn written(directory: &Path, flushed: bool) {
    let store = open(Config::single("a", directory)).await;
    for number in 0..50 {
        store.commit(create(&format!("{number}"), &"x".repeat(1000))).await.unwrap();
    }
    if flushed {
        store.close().await;
    } else {
        store.halt().await;
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The file of a directory whose name begins or ends so, the longest of them.
fn file_like(directory: &Path, part: &str) -> std::path::PathBuf {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let alike = files.filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(part) || name.ends_with(part)
    });
    alike.max_by_key(|path| path.metadata().unwrap().len()).unwrap_or_else(|| panic!("{part} in {directory:?}"))
}

fn flip_in_the_middle(path: &Path) {
    let mut content = std::fs::read(path).unwrap();
    let middle = content.len() / 2;
    for byte in &mut content[middle..middle + 8] {
        *byte ^= 0x55;
    }
    std::fs::write(path, content).unwrap();
}

type Damage = (&'static str, fn(&Path));

const DAMAGES: [Damage; 9] = [
    ("the format is no number", |store| std::fs::write(store.join("FORMAT"), "x").unwrap()),
    ("the pointer to the state names nothing", |store| std::fs::write(store.join("state/STATE"), "x").unwrap()),
    ("the pointer to the state is gone", |store| std::fs::remove_file(store.join("state/STATE")).unwrap()),
    ("the state is gone", |store| std::fs::remove_dir_all(file_like(&store.join("state"), "state-")).unwrap()),
    ("the log is gone", |store| std::fs::remove_dir_all(store.join("raft")).unwrap()),
    ("the log's CURRENT is gone", |store| std::fs::remove_file(store.join("raft/CURRENT")).unwrap()),
    ("the log's manifest is damaged", |store| flip_in_the_middle(&file_like(&store.join("raft"), "MANIFEST-"))),
    ("the log's tail is not the damaged part", |store| flip_in_the_middle(&file_like(&store.join("raft"), ".log"))),
    ("the state's manifest is damaged", |store| {
        flip_in_the_middle(&file_like(&file_like(&store.join("state"), "state-"), "MANIFEST-"));
    }),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_told_and_nothing_starts_anew_over_it() {
    let directory = tempfile::tempdir().unwrap();
    let sound = directory.path().join("sound");
    written(&sound, false).await;
    for (number, (what, damage)) in DAMAGES.into_iter().enumerate() {
        let damaged = directory.path().join(number.to_string());
        copy(&sound, &damaged);
        damage(&damaged);
        let error = refused(Config::single("a", &damaged)).await;
        assert!(matches!(&error, OpenError::Damaged { path, .. } if *path == damaged), "{what}: {error}");
        assert!(error.to_string().contains("put a copy from before the damage in its place"), "{what}: {error}");
    }
    let copied = directory.path().join("copied");
    copy(&sound, &copied);
    let store = open(Config::single("a", copied)).await;
    assert_eq!(store.head().0, 50, "what was not damaged opens with all that was acknowledged");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_table_of_the_state_is_told() {
    let directory = tempfile::tempdir().unwrap();
    written(directory.path(), true).await;
    let state = file_like(&directory.path().join("state"), "state-");
    let table = file_like(&state, ".sst");
    let content = std::fs::read(&table).unwrap();
    std::fs::write(&table, &content[..content.len() / 2]).unwrap();
    let error = refused(Config::single("a", directory.path())).await;
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_serves_one_process_and_its_own_member() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(Config::single("a", directory.path())).await;
    let error = refused(Config::single("a", directory.path())).await;
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("stop it, or give this member a directory of its own"), "{error}");
    store.close().await;
    let error = refused(Config::single("b", directory.path())).await;
    assert!(error.to_string().contains("belongs to member a"), "{error}");
    std::fs::write(directory.path().join("FORMAT"), "7\n").unwrap();
    let error = refused(Config::single("a", directory.path())).await;
    assert!(matches!(error, OpenError::NewerFormat { found: 7, .. }), "{error}");
    assert!(error.to_string().contains("start it with a newer version of quorate"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_in_use_is_told_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = Config { peer_listen: Some(address), ..Config::single("a", directory.path()) };
    let error = refused(config.clone()).await;
    assert!(matches!(error, OpenError::Listen { .. }), "{error}");
    assert!(error.to_string().contains("--listen-peer"), "{error}");
    drop(taken);
    open(config).await.close().await;
}
