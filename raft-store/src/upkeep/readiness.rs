//! Whether this member may answer: its state has passed a confirmation by the quorum since it started, and the quorum
//! goes on confirming. Who leads says less: a member that is cut off holds on to the leader that it knew.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quorate_env::Clock;
use quorate_env::clock::Instant;

use crate::error::ReadError;
use crate::machine::StateMachine;
use crate::read_index::ReadIndexer;

/// One try of a confirmation.
const CONFIRM_LIMIT: Duration = Duration::from_secs(2);
const CONFIRM_EVERY: Duration = Duration::from_secs(1);
/// A member that the quorum has not confirmed for so long is not ready.
const UNCONFIRMED_LIMIT: Duration = Duration::from_secs(5);

/// When things held last; before the first time, the start.
struct Last {
    /// The quorum confirmed.
    confirmed: Instant,
    /// What it confirmed was applied here.
    applied: Instant,
}

/// See the module.
pub(crate) struct Readiness {
    confirmed: tokio::sync::watch::Sender<bool>,
    last: Mutex<Last>,
    clock: Clock,
}

impl Readiness {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        let last = Mutex::new(Last { confirmed: clock.now(), applied: clock.now() });
        Arc::new(Self { confirmed: tokio::sync::watch::Sender::new(false), last, clock })
    }

    pub(crate) fn is_ready(&self) -> bool {
        *self.confirmed.borrow() && self.is_recent(self.last.lock().applied)
    }

    /// A quorum answered a moment ago, or there was no time for it yet.
    pub(crate) fn has_quorum(&self) -> bool {
        self.is_recent(self.last.lock().confirmed)
    }

    fn is_recent(&self, at: Instant) -> bool {
        self.clock.now().saturating_duration_since(at) < UNCONFIRMED_LIMIT
    }

    pub(crate) fn subscribe(&self) -> tokio::sync::watch::Receiver<bool> {
        self.confirmed.subscribe()
    }

    /// Confirm again and again.
    pub(crate) async fn run(self: Arc<Self>, read_indexer: ReadIndexer, machine: StateMachine) {
        loop {
            let index = match read_indexer.confirm(&self.clock, CONFIRM_LIMIT).await {
                Ok(index) => index,
                Err(ReadError::Timeout(_)) => continue,
                // Answered at once from now on: trying again would never let go of the thread.
                Err(_closing) => return,
            };
            self.last.lock().confirmed = self.clock.now();
            let mut applied = machine.subscribe_applied();
            let reached = applied.wait_for(|applied| *applied >= index);
            match self.clock.timeout(CONFIRM_LIMIT, reached).await {
                Ok(Ok(_)) => {}
                Ok(Err(_closed)) => return,
                Err(_behind) => continue,
            }
            self.last.lock().applied = self.clock.now();
            self.confirmed.send_if_modified(|confirmed| !std::mem::replace(confirmed, true));
            self.clock.sleep(CONFIRM_EVERY).await;
        }
    }
}
