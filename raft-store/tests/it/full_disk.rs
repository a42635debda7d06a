//! A disk that fills up and gets room again, several times, under load: a small tmpfs, which only root can mount.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_raft_store::{CommitError, Config, Consistency, Range, Store, Timers};

use crate::support::{create, eventually, logged, open};

const DISK: &str = "size=96m";
const ROUNDS: usize = 4;
const VALUE_BYTES: usize = 16 << 10;

/// Unmounted when dropped, also by a panic.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` without the right to mount.
    fn mount(at: &Path) -> Option<Self> {
        let flags = nix::mount::MsFlags::empty();
        match nix::mount::mount(Some("tmpfs"), at, Some("tmpfs"), flags, Some(DISK)) {
            Ok(()) => Some(Self(at.to_owned())),
            Err(nix::errno::Errno::EPERM) if !nix::unistd::geteuid().is_root() => None,
            Err(error) => panic!("cannot mount a tmpfs: {error}"),
        }
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// Take all that is left.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.ballast()).unwrap();
        let block = vec![0x5a; 64 << 10];
        while file.write_all(&block).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(error) = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH) {
            eprintln!("cannot unmount {}: {error}", self.0.display());
        }
    }
}

/// Write until one is refused for want of space; returns how many were acknowledged. A write that was on its way when
/// the disk filled up may end without a word.
async fn write_until_refused(store: &Store, from: usize) -> usize {
    let value = "v".repeat(VALUE_BYTES);
    let mut next = from;
    loop {
        match store.commit(create(&format!("{next:06}"), &value)).await {
            Ok(_) => next += 1,
            Err(CommitError::DiskFull) => return next,
            // It may have been applied: its key is not used again for another.
            Err(CommitError::FateUnknown(_)) => {
                let deadline = async || store.get(format!("{next:06}"), Consistency::Local).await.unwrap().0.is_some();
                if deadline().await {
                    next += 1;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn config(directory: &Path) -> Config {
    Config {
        // The state is flushed often, so that the flush meets the full disk, too.
        checkpoint_log_bytes: 256 << 10,
        timers: Timers { commit_deadline: Duration::from_secs(1), ..Timers::default() },
        ..Config::single("a", directory.join("store"))
    }
}

async fn all_there(store: &Store, count: usize, consistency: Consistency) {
    for number in 0..count {
        let (found, _) = store.get(format!("{number:06}"), consistency).await.unwrap();
        assert!(found.is_some_and(|kv| kv.value.len() == VALUE_BYTES), "{number} was acknowledged and is lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers_by_itself() {
    logged();
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(directory.path()) else {
        println!("not run: only root can mount the small disk that this test fills");
        return;
    };
    let store = open(config(directory.path())).await;
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let writer = tokio::task::spawn({
            let store = store.clone();
            async move { write_until_refused(&store, acknowledged).await }
        });
        let some = acknowledged + 40 * round;
        eventually("writes", async || store.head().0 >= some as u64).await;
        disk.fill();
        acknowledged = writer.await.unwrap();
        all_there(&store, acknowledged, Consistency::Local).await;
        let page = store.range(Range { limit: 10, ..Range::default() }, Consistency::Local).await.unwrap();
        assert!(page.items.len() <= 10);

        disk.free();
        let key = format!("after/{round}");
        eventually("writes go on by themselves", async || store.commit(create(&key, "x")).await.is_ok()).await;
        all_there(&store, acknowledged, Consistency::Linearizable).await;
    }
    // One more time, and killed while the disk is full.
    disk.fill();
    let acknowledged = write_until_refused(&store, acknowledged).await;
    store.halt().await;
    let full = Store::open(config(directory.path()), quorate_env::Env::real(), quorate_env::Scope::root("full")).await;
    match full {
        Err(error) => assert!(error.to_string().contains("free some, then start this member again"), "{error}"),
        Ok(store) => store.halt().await,
    }
    disk.free();
    let store = open(config(directory.path())).await;
    all_there(&store, acknowledged, Consistency::Linearizable).await;
    for round in 0..ROUNDS {
        assert!(store.get(format!("after/{round}"), Consistency::Local).await.unwrap().0.is_some(), "{round} is lost");
    }
    store.close().await;
    drop(disk);
}
