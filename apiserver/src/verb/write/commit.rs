//! One write as one transaction.

use quorate_api::status::Status;
use quorate_raft_store::{Compare, Numbering, Op, Outcome, Revision, Transaction};

use super::Writer;
use crate::chain::stages::Stage;
use crate::fence::fenced_off;
use crate::registry::guard::Guards;

/// What an attempt came to.
#[derive(Debug)]
pub(crate) enum Step<T> {
    Done(T),
    Raced(Race),
}

/// Why an attempt was refused.
#[derive(Debug)]
pub(crate) enum Refused {
    /// By what this member had read. The newest state may say otherwise, so a judgement on an older one is repeated.
    ByState(Status),
    /// By the store, which may have made the change or may make it yet (or has no room or leader for it). Running the
    /// write again would judge it on its own result and apply it twice.
    ByStore(Status),
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::ByState(status)
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::ByState(status) | Refused::ByStore(status) => status,
        }
    }
}

/// What changed between the decision and the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Race {
    Object,
    Namespace,
    Guard,
}

impl<T> Step<T> {
    pub(crate) fn map<U, E>(self, change: impl FnOnce(T) -> Result<U, E>) -> Result<Step<U>, E> {
        match self {
            Self::Done(value) => change(value).map(Step::Done),
            Self::Raced(race) => Ok(Step::Raced(race)),
        }
    }
}

impl Writer<'_> {
    /// Commits `op` under the object's compare, the fence, the namespace's compare and the guards. Gives the revision
    /// that the object's change took.
    pub(crate) async fn commit(
        &self,
        object: Compare,
        namespace: Option<Compare>,
        op: Op,
        guards: Guards,
    ) -> Result<Step<Revision>, Refused> {
        let fence = self.call.fence.as_ref();
        let fenced = usize::from(fence.is_some());
        let spaced = usize::from(namespace.is_some());
        let compares =
            fence.map(|fence| fence.compare()).into_iter().chain([object]).chain(namespace).chain(guards.compares);
        let transaction = Transaction {
            compares: compares.collect(),
            then: [op].into_iter().chain(guards.ops).collect(),
            numbering: Numbering::PerObject,
        };
        let outcome = self.call.server.storage().commit(transaction).await.map_err(Refused::ByStore)?;
        self.call.stages.pass(Stage::Committed);
        match &outcome {
            Outcome::Committed { revision, results } => {
                Ok(Step::Done(results.first().map_or(*revision, |result| result.revision)))
            }
            Outcome::CompareFailed { index, .. } if *index < fenced => Err(Refused::ByStore(fenced_off(fence))),
            Outcome::CompareFailed { index, .. } if *index == fenced => Ok(Step::Raced(Race::Object)),
            Outcome::CompareFailed { index, .. } if *index <= fenced + spaced => Ok(Step::Raced(Race::Namespace)),
            Outcome::CompareFailed { .. } => Ok(Step::Raced(Race::Guard)),
            Outcome::BoundViolated { key, name, value, bound, .. } => {
                Err(Refused::ByState(match guards.on_violation {
                    Some(refusal) => refusal(&outcome),
                    None => Status::internal(format!(
                        "guard {} {name} would be {value}, its bound is {bound}",
                        String::from_utf8_lossy(key)
                    )),
                }))
            }
        }
    }
}
