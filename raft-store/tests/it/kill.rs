//! SIGKILL of a process that writes, at any moment, again and again: what it acknowledged is there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use quorate_raft_store::{Config, Consistency, Store};

use crate::support::{create, open};

/// Set in the child: the data directory, and how many writes were acknowledged before.
const DIRECTORY: &str = "QUORATE_TEST_KILLED_DIRECTORY";
const ACKNOWLEDGED: &str = "QUORATE_TEST_KILLED_ACKNOWLEDGED";
const ROUNDS: u64 = 25;

async fn expect_all(store: &Store, acknowledged: u64) {
    for number in 0..acknowledged {
        let (found, _) = store.get(number.to_string(), Consistency::Linearizable).await.unwrap();
        assert!(found.is_some(), "{number} of {acknowledged} was acknowledged and is lost");
    }
}

/// Writes for ever, saying what was acknowledged; runs only as the child of the test below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let acknowledged: u64 = std::env::var(ACKNOWLEDGED).unwrap().parse().unwrap();
    // Cut and flushed often, so that kills meet all of that.
    let store = open(Config { checkpoint_log_bytes: 64 << 10, ..Config::single("a", directory) }).await;
    expect_all(&store, acknowledged).await;
    let mut out = std::io::stdout();
    let value = "x".repeat(2000);
    for number in acknowledged.. {
        // The last one of the life before may have been applied without a word.
        store.commit(create(&number.to_string(), &value)).await.unwrap();
        writeln!(out, "acknowledged {number}").unwrap();
        out.flush().unwrap();
    }
}

fn spawn(directory: &std::path::Path, acknowledged: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kill::child", "--nocapture"]).stdout(Stdio::piped());
    command.env(DIRECTORY, directory).env(ACKNOWLEDGED, acknowledged.to_string()).spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_kills() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let mut child = spawn(directory.path(), acknowledged);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // At another point of the work each time.
        let mut left = 1 + round * 7 % 60;
        for line in lines.map(Result::unwrap) {
            let Some(number) = line.rsplit_once("acknowledged ").and_then(|(_, number)| number.parse::<u64>().ok())
            else {
                continue;
            };
            acknowledged = number + 1;
            left = left.saturating_sub(1);
            if left == 0 {
                // What it says after that still counts.
                child.kill().unwrap();
            }
        }
        let status = child.wait().unwrap();
        assert_eq!(left, 0, "it ended by itself after {acknowledged}: {status}");
    }
    let store = open(Config::single("a", directory.path())).await;
    expect_all(&store, acknowledged).await;
    store.close().await;
}
