//! A transaction's way to its answer: to the leader, again after a leader change, until the deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorate_env::clock::Instant;
use quorate_env::{Clock, Random};

use crate::apply::Reply;
use crate::entry::{self, RequestId, Submission};
use crate::error::CommitError;
use crate::leader::LeaderLink;
use crate::limits;
use crate::machine::StateMachine;
use crate::metrics::Metrics;
use crate::model::{Outcome, Transaction};
use crate::peer::link::Failure;
use crate::peer::{convert, proto};
use crate::propose::{Proposer, Refused};

/// After a refusal the next try comes after a leader change, or after this.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// See the module. Clones share the request numbers.
#[derive(Clone)]
pub(crate) struct Committer {
    proposer: Proposer,
    leader: LeaderLink,
    machine: StateMachine,
    metrics: Arc<Metrics>,
    clock: Clock,
    deadline: Duration,
    origin: u64,
    sequence: Arc<AtomicU64>,
}

/// What one try came to.
enum Attempt {
    Done { index: u64, outcome: Outcome },
    Forgotten,
    Refused(Refused),
}

impl Committer {
    pub(crate) fn new(
        proposer: Proposer,
        leader: LeaderLink,
        machine: StateMachine,
        metrics: Arc<Metrics>,
        (random, deadline): (&Random, Duration),
    ) -> Self {
        let clock = leader.clock().clone();
        let origin = random.u64();
        Self { proposer, leader, machine, metrics, clock, deadline, origin, sequence: Arc::default() }
    }

    pub(crate) async fn commit(&self, transaction: &Transaction) -> Result<Outcome, CommitError> {
        limits::check(transaction)?;
        let started = self.clock.now();
        self.metrics.pending.inc();
        let outcome = self.until_deadline(entry::encode_transaction(transaction), started).await;
        self.metrics.pending.dec();
        self.metrics.transactions.inc();
        self.metrics.commit_seconds.observe(self.clock.now().saturating_duration_since(started).as_secs_f64());
        outcome
    }

    /// A resend carries the same id, so that whichever copy is applied first is the only one.
    fn submission(&self, transaction: bytes::Bytes) -> Submission {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let id = RequestId { origin: self.origin, sequence };
        // Ties the caller's span, and so its request's id, to what every member says when it applies the transaction.
        tracing::debug!(origin = id.origin, sequence, "transaction submitted");
        Submission { id, known: self.machine.applied_index(), transaction }
    }

    async fn until_deadline(&self, transaction: bytes::Bytes, started: Instant) -> Result<Outcome, CommitError> {
        let deadline = started + self.deadline;
        let mut submission = self.submission(transaction);
        let mut maybe_applied = false;
        loop {
            let mut changes = self.leader.subscribe();
            let before = *changes.borrow_and_update();
            let attempt = tokio::select! {
                biased;
                attempt = self.attempt(&submission, deadline) => attempt,
                // Whatever the old leader was doing with it, the new one knows whether it is in the log.
                _changed = changes.wait_for(|now| now.term != before.term && now.leader.is_some()) => {
                    Attempt::Refused(Refused::Lost)
                }
                () = self.clock.sleep_until(deadline) => Attempt::Refused(Refused::Lost),
            };
            match attempt {
                Attempt::Done { index, outcome } => {
                    // An answer promises that the caller reads its own write here.
                    if !self.is_visible(index, deadline).await {
                        return Err(CommitError::FateUnknown(self.deadline));
                    }
                    return Ok(outcome);
                }
                // This member was so far behind that even the first copy looked old; it was not applied.
                Attempt::Forgotten if !maybe_applied => submission = self.submission(submission.transaction),
                Attempt::Forgotten => return Err(CommitError::FateUnknown(self.deadline)),
                Attempt::Refused(Refused::DiskFull) if !maybe_applied => return Err(CommitError::DiskFull),
                Attempt::Refused(Refused::Overloaded) if !maybe_applied => return Err(CommitError::Overloaded),
                Attempt::Refused(refused) => maybe_applied |= refused == Refused::Lost,
            }
            if self.clock.now() >= deadline {
                return Err(if maybe_applied {
                    CommitError::FateUnknown(self.deadline)
                } else {
                    CommitError::Unavailable("no leader was found in time".to_owned())
                });
            }
            let pause = self.clock.sleep(RETRY_PAUSE);
            tokio::select! {
                _changed = changes.changed() => {}
                () = pause => {}
            }
        }
    }

    async fn attempt(&self, submission: &Submission, deadline: Instant) -> Attempt {
        if self.leader.is_self() {
            return match self.proposer.submit(submission).await {
                Ok((index, Reply::Outcome(outcome))) => Attempt::Done { index, outcome },
                Ok((_, Reply::Forgotten)) => Attempt::Forgotten,
                Ok((_, Reply::Done)) => Attempt::Refused(Refused::Lost),
                Err(refused) => Attempt::Refused(refused),
            };
        }
        let Some(mut link) = self.leader.to_leader() else { return Attempt::Refused(Refused::NotLeader) };
        let request = proto::CommitRequest {
            origin: submission.id.origin,
            sequence: submission.id.sequence,
            known: submission.known,
            transaction: submission.transaction.clone(),
            cluster_tag: self.leader.cluster_tag(),
        };
        let left = deadline.saturating_duration_since(self.clock.now());
        let answer = match link.commit(request, left).await {
            Ok(answer) => answer,
            Err(Failure::NotConnected(_) | Failure::Untrusted(_)) => return Attempt::Refused(Refused::NotLeader),
            Err(_may_have_arrived) => return Attempt::Refused(Refused::Lost),
        };
        match convert::read_outcome(answer.result) {
            Ok(Ok(outcome)) => Attempt::Done { index: answer.index, outcome },
            Ok(Err(proto::Refusal::NotLeader)) => Attempt::Refused(Refused::NotLeader),
            Ok(Err(proto::Refusal::Forgotten)) => Attempt::Forgotten,
            Ok(Err(proto::Refusal::DiskFull)) => Attempt::Refused(Refused::DiskFull),
            Ok(Err(proto::Refusal::Overloaded)) => Attempt::Refused(Refused::Overloaded),
            Ok(Err(proto::Refusal::Lost | proto::Refusal::Unspecified)) | Err(_) => Attempt::Refused(Refused::Lost),
        }
    }

    /// The caller reads its own write here, also when another member leads.
    async fn is_visible(&self, index: u64, deadline: Instant) -> bool {
        if self.machine.applied_index() >= index {
            return true;
        }
        let mut applied = self.machine.subscribe_applied();
        let left = deadline.saturating_duration_since(self.clock.now());
        let visible = self.clock.timeout(left, applied.wait_for(|applied| *applied >= index)).await;
        if !matches!(visible, Ok(Ok(_))) {
            tracing::warn!(index, "a committed transaction is not applied here yet");
            return false;
        }
        true
    }
}
