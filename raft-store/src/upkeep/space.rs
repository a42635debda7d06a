//! Refuses writes before the disk is full, so that the log, the state and deletions always have room.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::statvfs::statvfs;
use quorate_env::Clock;

use crate::pool::Pool;

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Room for the memory tables, a compaction and the log until the next checkpoint.
const RESERVE_BYTES: u64 = 64 << 20;
/// On a small disk this part of it instead.
const RESERVE_PART: u64 = 10;

/// Keep `full` up to date.
pub(crate) async fn watch(path: PathBuf, full: Arc<AtomicBool>, pool: Pool, clock: Clock) {
    loop {
        let looked_at = path.clone();
        let Ok(room) = pool.run(move || is_short(&looked_at)).await else { return };
        match room {
            Ok(short) => {
                if full.swap(short, Ordering::AcqRel) != short {
                    if short {
                        tracing::error!(path = %path.display(), "little space left; writes are refused");
                    } else {
                        tracing::info!(path = %path.display(), "there is space again; writes go on");
                    }
                }
            }
            Err(error) => tracing::warn!(%error, path = %path.display(), "cannot tell how much space is left"),
        }
        clock.sleep(LOOK_EVERY).await;
    }
}

fn is_short(path: &std::path::Path) -> nix::Result<bool> {
    let stat = statvfs(path)?;
    let size = stat.fragment_size();
    let reserve = RESERVE_BYTES.min(stat.blocks() * size / RESERVE_PART);
    Ok(stat.blocks_available() * size < reserve)
}
