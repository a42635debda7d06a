//! What a kind adds to a write's transaction.

use quorate_api::object::Object;
use quorate_api::status::Status;
use quorate_env::Env;
use quorate_raft_store::{Compare, Op, Outcome};

use crate::bootstrap::Settings;
use crate::storage::Storage;

/// The write for which guards are wanted. It is asked again on every retry of the transaction.
#[derive(Debug)]
pub struct GuardRequest<'a> {
    pub storage: &'a Storage,
    pub env: &'a Env,
    /// The cluster's networks.
    pub cluster: &'a Settings,
    /// The state to be written; a guard may fill in what it allocates. Absent when the object goes away.
    pub new: Option<&'a mut Object>,
    /// The stored state; absent on create.
    pub old: Option<&'a Object>,
    pub dry_run: bool,
}

/// Added to the transaction. A failed compare makes the write run again from the start (bounded).
#[derive(Debug, Default)]
pub struct Guards {
    pub compares: Vec<Compare>,
    pub ops: Vec<Op>,
    /// Turns a violated bound of one of `ops` into an answer; without it the answer is an internal error.
    pub on_violation: Option<fn(&Outcome) -> Status>,
}

impl Guards {
    /// Both; a refusal is worded by whichever knows how.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.compares.extend(other.compares);
        self.ops.extend(other.ops);
        self.on_violation = self.on_violation.or(other.on_violation);
        self
    }
}
