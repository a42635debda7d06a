//! Linearizable reads: one confirmation by the quorum for all that wait for one.

use std::sync::Arc;
use std::time::Duration;

use openraft::ReadPolicy;
use parking_lot::Mutex;
use quorate_env::{Clock, Scope};
use tokio::sync::{mpsc, oneshot};

use crate::error::ReadError;
use crate::fatal;
use crate::leader::LeaderLink;
use crate::raft::Raft;

/// So many reads may wait for a confirmation; further ones wait for a place.
const WAITING_READS: usize = 8192;
/// One round of a confirmation.
const ROUND_LIMIT: Duration = Duration::from_millis(500);
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Where a waiting read gets its index; `None` if no leader confirmed one.
type Waiting = oneshot::Sender<Option<u64>>;

/// Gives out log indexes such that a state that has applied them shows all writes acknowledged before.
#[derive(Clone)]
pub(crate) struct ReadIndexer {
    raft: Raft,
    waiting: mpsc::Sender<Waiting>,
    receiver: Arc<Mutex<Option<mpsc::Receiver<Waiting>>>>,
}

impl ReadIndexer {
    pub(crate) fn new(raft: Raft) -> Self {
        let (waiting, receiver) = mpsc::channel(WAITING_READS);
        Self { raft, waiting, receiver: Arc::new(Mutex::new(Some(receiver))) }
    }

    /// Confirm with the quorum that this member leads; `None` if it does not.
    pub(crate) async fn local(&self) -> Option<u64> {
        let linearizer = self.raft.get_read_linearizer(ReadPolicy::ReadIndex).await.ok()?;
        Some(linearizer.read_log_id().index())
    }

    /// Answer waiting reads, all that wait with one round, until the scope ends.
    pub(crate) async fn run(self, leader: LeaderLink, scope: Scope) {
        let _guard = fatal::AbortOnPanic("read index");
        let Some(mut receiver) = self.receiver.lock().take() else { return };
        let mut batch = Vec::new();
        while !scope.is_cancelled() {
            let received = tokio::select! {
                received = receiver.recv_many(&mut batch, WAITING_READS) => received,
                () = scope.cancelled() => return,
            };
            if received == 0 {
                return;
            }
            let index = self.round(&leader).await;
            for waiting in batch.drain(..) {
                // The reader may have gone.
                waiting.send(index).ok();
            }
        }
    }

    async fn round(&self, leader: &LeaderLink) -> Option<u64> {
        if leader.is_self() {
            return leader.clock().timeout(ROUND_LIMIT, self.local()).await.ok().flatten();
        }
        leader.read_index(ROUND_LIMIT).await
    }

    /// An index to wait for, confirmed after this call began.
    pub(crate) async fn confirm(&self, clock: &Clock, deadline: Duration) -> Result<u64, ReadError> {
        let tries = async {
            loop {
                let (answer, answered) = oneshot::channel();
                if self.waiting.send(answer).await.is_err() {
                    return Err(ReadError::Unavailable("the store is closing".to_owned()));
                }
                match answered.await {
                    Ok(Some(index)) => return Ok(index),
                    Ok(None) => clock.sleep(RETRY_PAUSE).await,
                    Err(_closed) => return Err(ReadError::Unavailable("the store is closing".to_owned())),
                }
            }
        };
        clock.timeout(deadline, tries).await.unwrap_or(Err(ReadError::Timeout(deadline)))
    }
}
