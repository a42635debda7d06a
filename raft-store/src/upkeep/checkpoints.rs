//! Flushes the state after so many bytes of log, so that a restart replays little and the log can be cut.

use std::time::Duration;

use quorate_env::Clock;

use crate::log::Writer;
use crate::raft::Raft;

const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(crate) async fn run(raft: Raft, writer: Writer, every_bytes: u64, clock: Clock) {
    loop {
        clock.sleep(LOOK_EVERY).await;
        if writer.bytes() < every_bytes {
            continue;
        }
        writer.reset_bytes();
        if raft.trigger().snapshot().await.is_err() {
            return;
        }
    }
}
