//! Leadership as a condition on writes: what a deposed leader's parts still send cannot commit.

use bytes::Bytes;
use quorate_api::status::Status;
use quorate_raft_store::{Compare, Consistency, Numbering, Op, Outcome, Transaction};

use crate::storage::{Storage, key, read_status};

/// Races with other members that take over at the same moment are resolved by reading again, so often at most.
const MAX_ATTEMPTS: u32 = 5;

/// Proof of having taken leadership in a term; requests that carry it commit only while it is the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    term: u64,
    value: Bytes,
}

impl Fence {
    pub fn term(&self) -> u64 {
        self.term
    }

    pub(crate) fn compare(&self) -> Compare {
        Compare::Value { key: leadership_key(), value: self.value.clone() }
    }

    /// Writes the leadership key, unless a later term already has.
    pub(crate) async fn take(storage: &Storage, term: u64, member: &str) -> Result<Self, FenceError> {
        let value = Bytes::from(format!("1 {term} {member}"));
        for _attempt in 0..MAX_ATTEMPTS {
            let (current, _revision) = storage
                .store()
                .get(leadership_key(), Consistency::Linearizable)
                .await
                .map_err(|error| FenceError::Store(read_status(error)))?;
            let compare = match &current {
                None => Compare::Absent { key: leadership_key() },
                Some(kv) if term_of(&kv.value) > term => {
                    return Err(FenceError::Deposed { term, newer: term_of(&kv.value) });
                }
                Some(kv) if kv.value == value => return Ok(Self { term, value }),
                Some(kv) => Compare::ModRevision { key: leadership_key(), revision: kv.mod_revision },
            };
            let put = Op::Put { key: leadership_key(), value: value.clone(), ttl: None };
            let transaction = Transaction { compares: vec![compare], then: vec![put], numbering: Numbering::PerObject };
            match storage.commit(transaction).await.map_err(FenceError::Store)? {
                Outcome::Committed { .. } => return Ok(Self { term, value }),
                Outcome::CompareFailed { .. } | Outcome::BoundViolated { .. } => {}
            }
        }
        Err(FenceError::Contended { attempts: MAX_ATTEMPTS })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    #[error("term {term} is over: a member has taken leadership in term {newer}")]
    Deposed { term: u64, newer: u64 },
    #[error("leadership was not written: {0}")]
    Store(Status),
    #[error("leadership changed hands {attempts} times while it was taken")]
    Contended { attempts: u32 },
}

/// The answer to a write whose fence no longer holds.
pub(crate) fn fenced_off(fence: Option<&Fence>) -> Status {
    let term = fence.map_or(0, Fence::term);
    Status::failure(
        quorate_api::status::Reason::Conflict,
        format!("leadership of term {term} is over, the write was not made"),
    )
}

fn leadership_key() -> Bytes {
    key::internal("leadership", "current")
}

fn term_of(value: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(value);
    text.split(' ').nth(1).and_then(|term| term.parse().ok()).unwrap_or(0)
}
