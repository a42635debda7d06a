//! Ctrl-C and failures: what was started is ended all the same.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use tokio::signal::unix::{SignalKind, signal};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static FAILED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT and SIGTERM end waiting, not the process.
pub fn watch() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let wait = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        INTERRUPTED.store(true, Ordering::SeqCst);
    };
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(wait).context("a thread for signals").map(drop)
}

pub fn check() -> Result<()> {
    ensure!(!INTERRUPTED.load(Ordering::SeqCst), "interrupted");
    Ok(())
}

/// The run has failed: its files are kept, and what its processes may have left is swept up.
pub fn note_failure() {
    FAILED.store(true, Ordering::SeqCst);
}

pub fn has_failed() -> bool {
    FAILED.load(Ordering::SeqCst)
}
