//! Refuses writes before the disk is full, so that the log, the state and deletions always have room.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use quorate_env::Clock;

use crate::pool::Pool;
use crate::room::{self, Room};

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Keep `room` up to date.
pub(crate) async fn watch(path: PathBuf, room: Arc<Room>, pool: Pool, clock: Clock) {
    loop {
        let looked_at = path.clone();
        let Ok(short) = pool.run(move || room::is_short(&looked_at)).await else { return };
        match short {
            Ok(short) => {
                if room.set_short(short) {
                    if short {
                        tracing::error!(path = %path.display(), "little space left; writes are refused, reads go on");
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
