//! The way of an entry into the log of the leader.

use std::sync::Arc;

use bytes::Bytes;
use openraft::errors::ClientWriteError;
use quorate_env::Clock;
use tokio::sync::Semaphore;

use crate::apply::Reply;
use crate::entry::Submission;
use crate::log::Writer;
use crate::raft::{Answer, Body, Raft, Written};
use crate::room::Room;

/// So many entries may be on their way at once; further ones are refused.
const MAX_IN_FLIGHT: usize = 16_384;

/// Puts entries into the log, if this member leads. The library batches what waits while a sync is in flight.
#[derive(Clone)]
pub(crate) struct Proposer {
    raft: Raft,
    writer: Writer,
    room: Arc<Room>,
    in_flight: Arc<Semaphore>,
    clock: Clock,
}

/// Why an entry has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Not proposed.
    NotLeader,
    /// Proposed, but what became of it is not known.
    Lost,
    /// Not proposed.
    DiskFull,
    /// Not proposed.
    Overloaded,
}

impl Proposer {
    pub(crate) fn new(raft: Raft, writer: Writer, room: Arc<Room>, clock: Clock) -> Self {
        Self { raft, writer, room, in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)), clock }
    }

    /// Milliseconds since 1970.
    pub(crate) fn wall_ms(&self) -> u64 {
        u64::try_from(self.clock.wall().as_millisecond()).unwrap_or_default()
    }

    /// Whether writes are refused for want of space.
    pub(crate) fn is_disk_full(&self) -> bool {
        self.writer.is_full() || self.room.is_full()
    }

    /// Returns the entry's index and what applying it answered, here.
    pub(crate) async fn submit(&self, submission: &Submission) -> Result<(u64, Reply), Refused> {
        if self.is_disk_full() {
            return Err(Refused::DiskFull);
        }
        self.propose(submission.encode(self.wall_ms())).await
    }

    pub(crate) async fn propose(&self, body: Bytes) -> Result<(u64, Reply), Refused> {
        let Ok(_permit) = self.in_flight.try_acquire() else { return Err(Refused::Overloaded) };
        let (answer, answered) = Answer::<Written>::new();
        if self.raft.client_write_ff(Body(body), Some(answer)).await.is_err() {
            return Err(Refused::NotLeader);
        }
        match answered.await {
            Ok(Ok(written)) => Ok((written.log_id.index, written.data)),
            Ok(Err(ClientWriteError::ForwardToLeader(_))) => Err(Refused::NotLeader),
            Ok(Err(_)) | Err(_) => Err(Refused::Lost),
        }
    }
}
