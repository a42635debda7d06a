//! Whether the disk has room: writes are refused while it has not, and what is in the log already waits for some.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use nix::sys::statvfs::statvfs;
use quorate_env::Clock;

use crate::disk::DiskError;

/// What found the disk full is tried again after this.
pub(crate) const RETRY_FULL: Duration = Duration::from_millis(200);
/// Room for the memory tables, a compaction and the log until the next checkpoint.
const RESERVE_BYTES: u64 = 64 << 20;
/// On a small disk this part of it instead.
const RESERVE_PART: u64 = 10;

/// Less than the reserve is left at `path`.
pub(crate) fn is_short(path: &Path) -> nix::Result<bool> {
    let stat = statvfs(path)?;
    let size = stat.fragment_size();
    let reserve = RESERVE_BYTES.min(stat.blocks() * size / RESERVE_PART);
    Ok(stat.blocks_available() * size < reserve)
}

/// See the module. Shared by all that write or ask.
#[derive(Debug, Default)]
pub(crate) struct Room {
    short: AtomicBool,
    refused: AtomicBool,
    closing: AtomicBool,
}

impl Room {
    /// Writes are to be refused.
    pub(crate) fn is_full(&self) -> bool {
        self.short.load(Ordering::Acquire) || self.refused.load(Ordering::Acquire)
    }

    /// Returns whether that is news.
    pub(crate) fn set_short(&self, short: bool) -> bool {
        self.short.swap(short, Ordering::AcqRel) != short
    }

    /// Nobody waits for room any more.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Try until there is room, on a thread that may wait; a full disk is an error only while closing.
    pub(crate) fn wait<T>(&self, mut attempt: impl FnMut() -> Result<T, DiskError>) -> Result<T, DiskError> {
        loop {
            match self.judge(attempt()) {
                Some(result) => return result,
                None => std::thread::sleep(RETRY_FULL),
            }
        }
    }

    /// As [`Room::wait`], in a task.
    pub(crate) async fn wait_async<T>(
        &self,
        clock: &Clock,
        mut attempt: impl FnMut() -> BoxFuture<'static, Result<T, DiskError>>,
    ) -> Result<T, DiskError> {
        loop {
            match self.judge(attempt().await) {
                Some(result) => return result,
                None => clock.sleep(RETRY_FULL).await,
            }
        }
    }

    /// `None` to try again.
    fn judge<T>(&self, result: Result<T, DiskError>) -> Option<Result<T, DiskError>> {
        match result {
            Err(DiskError::Full(text)) if !self.is_closing() => {
                if !self.refused.swap(true, Ordering::AcqRel) {
                    tracing::error!(text, "no space left for the state; writes wait until there is some, reads go on");
                }
                None
            }
            result => {
                if self.refused.swap(false, Ordering::AcqRel) {
                    tracing::info!("there is space for the state again; writes go on");
                }
                Some(result)
            }
        }
    }
}
