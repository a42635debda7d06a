//! Whether this member may answer: its state has passed one confirmation by the quorum, and it knows a leader or did
//! a moment ago.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quorate_env::Clock;
use quorate_env::clock::Instant;

use crate::leader::LeaderLink;
use crate::machine::StateMachine;
use crate::read_index::ReadIndexer;

/// One try of the first confirmation.
const CONFIRM_LIMIT: Duration = Duration::from_secs(2);
/// A member without a leader for so long is not ready.
const LEADERLESS_LIMIT: Duration = Duration::from_secs(5);

/// See the module.
pub(crate) struct Readiness {
    confirmed: tokio::sync::watch::Sender<bool>,
    leaderless_since: Mutex<Option<Instant>>,
    clock: Clock,
}

impl Readiness {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        let leaderless_since = Mutex::new(Some(clock.now()));
        Arc::new(Self { confirmed: tokio::sync::watch::Sender::new(false), leaderless_since, clock })
    }

    pub(crate) fn is_ready(&self) -> bool {
        let since = *self.leaderless_since.lock();
        let has_leader = since.is_none_or(|since| self.clock.now().duration_since(since) < LEADERLESS_LIMIT);
        *self.confirmed.borrow() && has_leader
    }

    pub(crate) fn subscribe(&self) -> tokio::sync::watch::Receiver<bool> {
        self.confirmed.subscribe()
    }

    /// Confirm once.
    pub(crate) async fn confirm(self: Arc<Self>, read_indexer: ReadIndexer, machine: StateMachine) {
        loop {
            let Ok(index) = read_indexer.confirm(&self.clock, CONFIRM_LIMIT).await else { continue };
            let mut applied = machine.subscribe_applied();
            if applied.wait_for(|applied| *applied >= index).await.is_ok() {
                self.confirmed.send_replace(true);
            }
            return;
        }
    }

    /// Note since when there is no leader.
    pub(crate) async fn follow(self: Arc<Self>, leader: LeaderLink) {
        let mut changes = leader.subscribe();
        loop {
            let leaderless = changes.borrow_and_update().leader.is_none();
            {
                let mut since = self.leaderless_since.lock();
                *since = if leaderless { since.or(Some(self.clock.now())) } else { None };
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}
