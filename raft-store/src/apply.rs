//! The state machine: what one entry does, as a pure function of (state, entry). No clock, no randomness, no
//! configuration and no unordered iteration may enter here, because every member must get the same state.

pub(crate) mod counters;
pub(crate) mod dedup;
pub(crate) mod overlay;

use std::sync::Arc;

use bytes::Bytes;

use crate::disk::{DiskError, Family};
use crate::entry::{Command, Entry, RequestId};
use crate::model::{Change, Compare, Event, KeyValue, Numbering, Op, OpResult, Outcome, Revision, Transaction};
use crate::record::{Changed, Current, Old, expiry_key, old_key, revision_key};
use dedup::{Dedup, Remembered};
use overlay::Overlay;

/// The scalars of the replicated state; stored as one record.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub(crate) struct Scalars {
    pub(crate) revision: u64,
    /// History up to and including this revision may be gone.
    pub(crate) compacted: u64,
    /// Milliseconds since 1970, the greatest that any entry carried.
    pub(crate) clock: u64,
    /// Set by the first entry of the first leader.
    pub(crate) cluster: Option<u128>,
    pub(crate) feature_level: u32,
}

/// The replicated state beside the families: small, and kept in memory.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) scalars: Scalars,
    pub(crate) dedup: Dedup,
}

/// What the proposer is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Outcome(Outcome),
    /// The request is older than what is remembered: if it was sent before, that copy may have been applied.
    Forgotten,
    Done,
}

/// What an entry did, beside its writes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) reply: Reply,
    pub(crate) events: Vec<Arc<Event>>,
}

impl Effect {
    fn only(reply: Reply) -> Self {
        Self { reply, events: Vec::new() }
    }
}

/// Apply `entry`, which stands at `index` of the log.
pub(crate) fn apply(
    machine: &mut Machine,
    state: &mut Overlay<'_>,
    index: u64,
    entry: Entry,
) -> Result<Effect, DiskError> {
    machine.scalars.clock = machine.scalars.clock.max(entry.at_ms);
    match entry.command {
        Command::Transact { id, known, transaction } => {
            tracing::debug!(origin = id.origin, sequence = id.sequence, index, "transaction applied");
            transact_once(machine, state, index, Request { id, known }, &transaction)
        }
        Command::Compact { revision } => {
            let wanted = revision.0.min(machine.scalars.revision);
            machine.scalars.compacted = machine.scalars.compacted.max(wanted);
            Ok(Effect::only(Reply::Done))
        }
        Command::Expire { keys } => expire(machine, state, &keys),
        Command::Found { cluster } => {
            machine.scalars.cluster.get_or_insert(cluster);
            Ok(Effect::only(Reply::Done))
        }
        Command::Enrol { name, incarnation } => {
            let key = enrolment_key(&name);
            if state.get(Family::Meta, &key)?.is_none() {
                state.batch.put(Family::Meta, key, incarnation.to_be_bytes().to_vec());
            }
            Ok(Effect::only(Reply::Done))
        }
        Command::RaiseFeatureLevel { level } => {
            machine.scalars.feature_level = machine.scalars.feature_level.max(level);
            Ok(Effect::only(Reply::Done))
        }
    }
}

/// Where family `meta` has a member's data directory on record.
pub(crate) fn enrolment_key(name: &str) -> Vec<u8> {
    format!("member/{name}").into_bytes()
}

/// How a transaction reached the log.
struct Request {
    id: RequestId,
    /// The log index that the sender had applied when it first sent the request.
    known: u64,
}

/// Apply a transaction unless its first copy was applied already; then answer what that one answered.
fn transact_once(
    machine: &mut Machine,
    state: &mut Overlay<'_>,
    index: u64,
    request: Request,
    transaction: &Transaction,
) -> Result<Effect, DiskError> {
    if let Some(remembered) = machine.dedup.get(request.id) {
        let outcome = recall(state, transaction, &remembered)?;
        return Ok(Effect::only(Reply::Outcome(outcome)));
    }
    if request.known < machine.dedup.forgotten_through() {
        return Ok(Effect::only(Reply::Forgotten));
    }
    let mut events = Vec::with_capacity(transaction.then.len());
    let outcome = transact(machine, state, transaction, &mut events)?;
    // Only what changed something is remembered: anything else may as well be judged again.
    if let Outcome::Committed { revision, results } = &outcome {
        let previous = results.iter().map(|result| result.previous.as_ref().map_or(0, |kv| kv.mod_revision.0));
        machine.dedup.remember(state, index, request.id, Remembered::new(*revision, previous));
    }
    Ok(Effect { reply: Reply::Outcome(outcome), events })
}

/// Evaluate a transaction on the state and write what it does.
fn transact(
    machine: &mut Machine,
    state: &mut Overlay<'_>,
    transaction: &Transaction,
    events: &mut Vec<Arc<Event>>,
) -> Result<Outcome, DiskError> {
    for (index, compare) in transaction.compares.iter().enumerate() {
        let current = state.current(compare.key())?;
        if !holds(compare, current.as_ref()) {
            let current = current.map(|record| record.into_key_value(compare.key().clone()));
            return Ok(Outcome::CompareFailed { index, current, revision: Revision(machine.scalars.revision) });
        }
    }
    // Counters are the only operations that can fail, so they are judged before anything is written.
    if let Some(violation) = counters::add_all(state, &transaction.then)? {
        return Ok(violation);
    }
    let mut numbers = Numbers::new(transaction.numbering, machine.scalars.revision);
    let mut results = Vec::with_capacity(transaction.then.len());
    for op in &transaction.then {
        let result = match op {
            Op::Put { key, value, ttl } => {
                let expires = ttl.map_or(0, |ttl| machine.scalars.clock + 1000 * u64::from(ttl.0));
                put(state, &mut numbers, Put { key, value, expires }, events)?
            }
            Op::Delete { key } => delete(state, &mut numbers, key, events)?,
            Op::Add { .. } => OpResult { revision: numbers.head(), previous: None },
        };
        results.push(result);
    }
    machine.scalars.revision = numbers.head().0;
    Ok(Outcome::Committed { revision: numbers.head(), results })
}

fn holds(compare: &Compare, current: Option<&Current>) -> bool {
    match compare {
        Compare::Absent { .. } => current.is_none(),
        Compare::Present { .. } => current.is_some(),
        Compare::ModRevision { revision, .. } => current.map_or(Revision(0), |record| record.modified) == *revision,
        Compare::Value { value, .. } => current.is_some_and(|record| record.value == *value),
    }
}

/// Gives out revisions as the transaction's numbering asks.
struct Numbers {
    numbering: Numbering,
    head: u64,
    changes: u32,
}

impl Numbers {
    fn new(numbering: Numbering, head: u64) -> Self {
        Self { numbering, head, changes: 0 }
    }

    fn head(&self) -> Revision {
        Revision(self.head)
    }

    /// The revision and its sub-index for one more changed key.
    fn next(&mut self) -> (Revision, u32) {
        let sub = match self.numbering {
            Numbering::PerObject => {
                self.head += 1;
                0
            }
            Numbering::PerTransaction => {
                self.head += u64::from(self.changes == 0);
                self.changes
            }
        };
        self.changes += 1;
        (self.head(), sub)
    }
}

struct Put<'a> {
    key: &'a Bytes,
    value: &'a Bytes,
    expires: u64,
}

fn put(
    state: &mut Overlay<'_>,
    numbers: &mut Numbers,
    put: Put<'_>,
    events: &mut Vec<Arc<Event>>,
) -> Result<OpResult, DiskError> {
    let key = put.key;
    let current = state.current(key)?;
    let (revision, sub) = numbers.next();
    let record = Current {
        create: current.as_ref().map_or(revision, |current| current.create),
        modified: revision,
        version: current.as_ref().map_or(0, |current| current.version) + 1,
        expires: put.expires,
        value: put.value.clone(),
    };
    let previous = supersede(state, key, current, revision);
    state.batch.put(Family::Current, key.clone(), record.encode());
    if put.expires > 0 {
        state.batch.put(Family::Expiry, expiry_key(put.expires, key), revision.0.to_be_bytes().to_vec());
    }
    log_change(state, key, false, previous.as_ref(), (revision, sub));
    let change = Change::Put(record.into_key_value(key.clone()));
    events.push(Arc::new(Event { revision, key: key.clone(), change, previous: previous.clone() }));
    Ok(OpResult { revision, previous })
}

fn delete(
    state: &mut Overlay<'_>,
    numbers: &mut Numbers,
    key: &Bytes,
    events: &mut Vec<Arc<Event>>,
) -> Result<OpResult, DiskError> {
    let Some(current) = state.current(key)? else {
        return Ok(OpResult { revision: numbers.head(), previous: None });
    };
    let (revision, sub) = numbers.next();
    let previous = supersede(state, key, Some(current), revision);
    state.batch.delete(Family::Current, key.clone());
    log_change(state, key, true, previous.as_ref(), (revision, sub));
    let event = Event { revision, key: key.clone(), change: Change::Delete, previous: previous.clone() };
    events.push(Arc::new(event));
    Ok(OpResult { revision, previous })
}

/// Move the head record, if any, into history that ends at `end`.
fn supersede(state: &mut Overlay<'_>, key: &Bytes, current: Option<Current>, end: Revision) -> Option<KeyValue> {
    let current = current?;
    let old = Old { end, create: current.create, version: current.version, value: current.value.clone() };
    state.batch.put(Family::Old, old_key(key, current.modified), old.encode());
    if current.expires > 0 {
        state.batch.delete(Family::Expiry, expiry_key(current.expires, key));
    }
    Some(current.into_key_value(key.clone()))
}

fn log_change(
    state: &mut Overlay<'_>,
    key: &Bytes,
    deleted: bool,
    previous: Option<&KeyValue>,
    (revision, sub): (Revision, u32),
) {
    let previous = previous.map_or(Revision(0), |kv| kv.mod_revision);
    let changed = Changed { deleted, previous, key: key.clone() };
    state.batch.put(Family::Revisions, revision_key(revision, sub), changed.encode());
}

/// Delete the keys whose time has come by the replicated clock and that were not written since the leader looked.
fn expire(machine: &mut Machine, state: &mut Overlay<'_>, keys: &[(Bytes, Revision)]) -> Result<Effect, DiskError> {
    let mut numbers = Numbers::new(Numbering::PerObject, machine.scalars.revision);
    let mut events = Vec::with_capacity(keys.len());
    for (key, seen) in keys {
        let due = state.current(key)?.is_some_and(|current| {
            current.modified == *seen && current.expires > 0 && current.expires <= machine.scalars.clock
        });
        if due {
            delete(state, &mut numbers, key, &mut events)?;
        }
    }
    machine.scalars.revision = numbers.head().0;
    Ok(Effect { reply: Reply::Done, events })
}

/// The outcome of a transaction that was applied before; values that history no longer has are left out.
fn recall(state: &Overlay<'_>, transaction: &Transaction, remembered: &Remembered) -> Result<Outcome, DiskError> {
    let changed = transaction.then.iter().zip(remembered.previous()).filter(|(op, previous)| changes(op, *previous));
    let first = match transaction.numbering {
        Numbering::PerObject => remembered.revision().0 - changed.count() as u64,
        Numbering::PerTransaction => remembered.revision().0 - u64::from(changed.count() > 0),
    };
    let mut numbers = Numbers::new(transaction.numbering, first);
    let mut results = Vec::with_capacity(transaction.then.len());
    for (op, modified) in transaction.then.iter().zip(remembered.previous()) {
        let revision = if changes(op, modified) { numbers.next().0 } else { numbers.head() };
        let previous = match modified {
            0 => None,
            modified => state.old(op.key(), Revision(modified))?,
        };
        results.push(OpResult { revision, previous });
    }
    Ok(Outcome::Committed { revision: remembered.revision(), results })
}

/// Whether an operation took a revision, given the revision of the record that it replaced (0 for none).
fn changes(op: &Op, previous: u64) -> bool {
    match op {
        Op::Put { .. } => true,
        Op::Delete { .. } => previous > 0,
        Op::Add { .. } => false,
    }
}
