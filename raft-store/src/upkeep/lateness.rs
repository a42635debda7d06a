//! A member that was not scheduled for a while has missed heartbeats by its own fault: it must not call an election
//! for that before the leader had a chance to be heard.

use std::time::Duration;

use quorate_env::Clock;

use crate::raft::Raft;

/// Elections are held back for at most so many times the patience in one go.
const MOST_PATIENCES: u32 = 3;
const TICK: Duration = Duration::from_millis(10);

/// Hold elections back for `patience` after this thread ran more than `tolerated` late.
pub(crate) async fn run(raft: Raft, clock: Clock, tolerated: Duration, patience: Duration) {
    let mut held_until = None;
    let mut held_since = None;
    loop {
        let before = clock.now();
        clock.sleep(TICK).await;
        let now = clock.now();
        let late = now.saturating_duration_since(before + TICK);
        if late > tolerated {
            // On a machine that is late all the time somebody must lead nevertheless.
            let since = *held_since.get_or_insert(now);
            if now.saturating_duration_since(since) < patience * MOST_PATIENCES {
                if held_until.is_none() {
                    raft.runtime_config().elect(false);
                }
                held_until = Some(now + patience);
            }
        } else if held_until.is_none() {
            held_since = None;
        }
        if held_until.is_some_and(|until| now >= until) {
            raft.runtime_config().elect(true);
            held_until = None;
        }
    }
}
