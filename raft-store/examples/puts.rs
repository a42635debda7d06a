//! Measures one member in process: time to the first write, durable puts a second, linearizable gets a second, restart.
//! `cargo run --release -p quorate-raft-store --example puts -- [DIRECTORY] [CALLERS] [PUTS]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorate_env::clock::Instant;
use quorate_env::{Clock, Env, Scope};
use quorate_raft_store::{Config, Consistency, Op, Store, Transaction};

const VALUE_BYTES: usize = 1024;

#[expect(clippy::print_stdout, reason = "its purpose is to print figures")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| "/var/tmp/quorate-puts".to_owned());
    let callers = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let puts = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let Ok(runtime) = runtime else { return println!("no runtime") };
    for line in runtime.block_on(measure(&directory, callers, puts)) {
        println!("{line}");
    }
}

fn put(key: u64) -> Transaction {
    let op = Op::Put { key: format!("key/{key:08}").into(), value: vec![b'x'; VALUE_BYTES].into(), ttl: None };
    Transaction { then: vec![op], ..Transaction::default() }
}

async fn open(directory: &str) -> Result<Store, String> {
    let opened = Store::open(Config::single("a", directory), Env::real(), Scope::root("puts")).await;
    opened.map_err(|error| format!("{error}: {:?}", std::error::Error::source(&error)))
}

async fn measure(directory: &str, callers: u64, puts: u64) -> Vec<String> {
    let clock = Clock::real();
    let mut lines = Vec::new();
    let started = clock.now();
    let store = match open(directory).await {
        Ok(store) => store,
        Err(error) => return vec![error],
    };
    lines.push(format!("open: {:?}", clock.now() - started));
    let first = store.commit(put(0)).await;
    lines.push(format!("first write after: {:?} ({})", clock.now() - started, first.is_ok()));
    lines.push(format!("memory: {} MB", resident_mb()));

    let mut single = Vec::new();
    for key in 0..200 {
        let before = clock.now();
        drop(store.commit(put(key)).await);
        single.push(clock.now() - before);
    }
    single.sort();
    lines.push(format!("one put at a time: p50 {:?}", single[single.len() / 2]));

    let (rate, cpu) =
        many(&clock, callers, puts, async |store: &Store, key| store.commit(put(key)).await.is_ok(), &store).await;
    lines.push(format!("{callers} callers: {rate:.0} puts/s, {cpu:.4} ms CPU a put"));
    let get = async |store: &Store, key| {
        store.get(format!("key/{key:08}"), Consistency::Linearizable).await.is_ok_and(|(found, _)| found.is_some())
    };
    let (rate, cpu) = many(&clock, callers, puts, get, &store).await;
    lines.push(format!("{callers} callers: {rate:.0} linearizable gets/s, {cpu:.4} ms CPU a get"));
    lines.push(format!("memory: {} MB", resident_mb()));
    store.halt().await;
    let started = clock.now();
    match open(directory).await {
        Ok(store) => {
            let read = store.get("key/00000001", Consistency::Linearizable).await;
            lines.push(format!("restart after a kill, to a read: {:?} ({})", clock.now() - started, read.is_ok()));
            lines.push(format!("memory: {} MB", resident_mb()));
            store.close().await;
        }
        Err(error) => lines.push(error),
    }
    lines
}

/// Rate and CPU milliseconds of an operation by many callers at once.
async fn many(
    clock: &Clock,
    callers: u64,
    total: u64,
    operation: impl AsyncFn(&Store, u64) -> bool,
    store: &Store,
) -> (f64, f64) {
    let next = Arc::new(AtomicU64::new(0));
    let failed = AtomicU64::new(0);
    let (started, cpu): (Instant, Duration) = (clock.now(), cpu_time());
    let caller = async || {
        loop {
            let key = next.fetch_add(1, Ordering::Relaxed);
            if key >= total {
                return;
            }
            if !operation(store, key).await {
                failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    futures::future::join_all((0..callers).map(|_| caller())).await;
    let done = total - failed.load(Ordering::Relaxed);
    #[expect(clippy::cast_precision_loss, reason = "a figure to print")]
    let done = done as f64;
    (done / (clock.now() - started).as_secs_f64(), cpu_time().saturating_sub(cpu).as_secs_f64() * 1000.0 / done)
}

/// The process's resident memory.
fn resident_mb() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or_default();
    pages * 4096 / (1 << 20)
}

/// The process's CPU time.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}
