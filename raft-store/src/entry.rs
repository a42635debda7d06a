//! The body of a log entry, and its bytes.

use bincode::{BorrowDecode, Encode};
use bytes::Bytes;

use crate::disk::DiskError;
use crate::envelope;
use crate::model::{Compare, Delta, Numbering, Op, Revision, Seconds, Transaction};

/// Who asked first, and their how-manieth request it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, bincode::Decode)]
pub(crate) struct RequestId {
    /// Drawn at random at each start of a member.
    pub(crate) origin: u64,
    pub(crate) sequence: u64,
}

/// A command and the proposer's wall clock, the only way by which time enters the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at_ms: u64,
    pub(crate) command: Command,
}

/// All that can happen to the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Transact {
        id: RequestId,
        known: u64,
        transaction: Transaction,
    },
    Compact {
        revision: Revision,
    },
    Expire {
        keys: Vec<(Bytes, Revision)>,
    },
    Found {
        cluster: u128,
    },
    RaiseFeatureLevel {
        level: u32,
    },
    /// Put on record which data directory a member has.
    Enrol {
        name: String,
        incarnation: u64,
    },
}

/// The transaction's bytes, made once where the request arrives and carried as they are to the log.
pub(crate) fn encode_transaction(transaction: &Transaction) -> Bytes {
    envelope::seal(&WireTransaction {
        per_transaction: transaction.numbering == Numbering::PerTransaction,
        compares: transaction.compares.iter().map(wire_compare).collect(),
        then: transaction.then.iter().map(wire_op).collect(),
    })
}

pub(crate) fn decode_transaction(sealed: &Bytes) -> Result<Transaction, DiskError> {
    let wire: WireTransaction<'_> = envelope::open(sealed)?;
    Ok(Transaction {
        compares: wire.compares.into_iter().map(|compare| read_compare(compare, sealed)).collect(),
        then: wire.then.into_iter().map(|op| read_op(op, sealed)).collect(),
        numbering: if wire.per_transaction { Numbering::PerTransaction } else { Numbering::PerObject },
    })
}

/// A transaction on its way to the log.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    pub(crate) id: RequestId,
    /// The log index that the sender had applied when it first sent this.
    pub(crate) known: u64,
    /// As [`encode_transaction`] made it.
    pub(crate) transaction: Bytes,
}

impl Submission {
    pub(crate) fn encode(&self, at_ms: u64) -> Bytes {
        let Self { id, known, ref transaction } = *self;
        envelope::seal(&WireEntry { at_ms, command: WireCommand::Transact { id, known, transaction } })
    }
}

pub(crate) fn encode_compact(at_ms: u64, revision: Revision) -> Bytes {
    envelope::seal(&WireEntry { at_ms, command: WireCommand::Compact { revision: revision.0 } })
}

pub(crate) fn encode_expire(at_ms: u64, keys: &[(Bytes, Revision)]) -> Bytes {
    let keys = keys.iter().map(|(key, revision)| (&key[..], revision.0)).collect();
    envelope::seal(&WireEntry { at_ms, command: WireCommand::Expire { keys } })
}

pub(crate) fn encode_found(at_ms: u64, cluster: u128) -> Bytes {
    envelope::seal(&WireEntry { at_ms, command: WireCommand::Found { cluster } })
}

pub(crate) fn encode_feature_level(at_ms: u64, level: u32) -> Bytes {
    envelope::seal(&WireEntry { at_ms, command: WireCommand::RaiseFeatureLevel { level } })
}

pub(crate) fn encode_enrol(at_ms: u64, name: &str, incarnation: u64) -> Bytes {
    envelope::seal(&WireEntry { at_ms, command: WireCommand::Enrol { name, incarnation } })
}

/// Keys and values of the result are slices of `sealed`.
pub(crate) fn decode(sealed: &Bytes) -> Result<Entry, DiskError> {
    let WireEntry { at_ms, command } = envelope::open(sealed)?;
    let command = match command {
        WireCommand::Transact { id, known, transaction } => {
            let transaction = decode_transaction(&sealed.slice_ref(transaction))?;
            Command::Transact { id, known, transaction }
        }
        WireCommand::Compact { revision } => Command::Compact { revision: Revision(revision) },
        WireCommand::Expire { keys } => {
            let keys = keys.into_iter().map(|(key, revision)| (sealed.slice_ref(key), Revision(revision)));
            Command::Expire { keys: keys.collect() }
        }
        WireCommand::Found { cluster } => Command::Found { cluster },
        WireCommand::RaiseFeatureLevel { level } => Command::RaiseFeatureLevel { level },
        WireCommand::Enrol { name, incarnation } => Command::Enrol { name: name.to_owned(), incarnation },
    };
    Ok(Entry { at_ms, command })
}

// The wire forms borrow, so that encoding copies once and decoding not at all. Variants are positional: append only.

#[derive(Encode, BorrowDecode)]
struct WireEntry<'a> {
    at_ms: u64,
    command: WireCommand<'a>,
}

#[derive(Encode, BorrowDecode)]
enum WireCommand<'a> {
    Transact { id: RequestId, known: u64, transaction: &'a [u8] },
    Compact { revision: u64 },
    Expire { keys: Vec<(&'a [u8], u64)> },
    Found { cluster: u128 },
    RaiseFeatureLevel { level: u32 },
    Enrol { name: &'a str, incarnation: u64 },
}

#[derive(Encode, BorrowDecode)]
struct WireTransaction<'a> {
    per_transaction: bool,
    compares: Vec<WireCompare<'a>>,
    then: Vec<WireOp<'a>>,
}

#[derive(Encode, BorrowDecode)]
enum WireCompare<'a> {
    Absent(&'a [u8]),
    Present(&'a [u8]),
    ModRevision(&'a [u8], u64),
    Value(&'a [u8], &'a [u8]),
}

#[derive(Encode, BorrowDecode)]
enum WireOp<'a> {
    Put(&'a [u8], &'a [u8], Option<u32>),
    Delete(&'a [u8]),
    Add(&'a [u8], Vec<WireDelta<'a>>),
}

#[derive(Encode, BorrowDecode)]
struct WireDelta<'a> {
    name: &'a str,
    by: i64,
    min: Option<i64>,
    max: Option<i64>,
}

fn wire_compare(compare: &Compare) -> WireCompare<'_> {
    match compare {
        Compare::Absent { key } => WireCompare::Absent(key),
        Compare::Present { key } => WireCompare::Present(key),
        Compare::ModRevision { key, revision } => WireCompare::ModRevision(key, revision.0),
        Compare::Value { key, value } => WireCompare::Value(key, value),
    }
}

fn read_compare(compare: WireCompare<'_>, sealed: &Bytes) -> Compare {
    match compare {
        WireCompare::Absent(key) => Compare::Absent { key: sealed.slice_ref(key) },
        WireCompare::Present(key) => Compare::Present { key: sealed.slice_ref(key) },
        WireCompare::ModRevision(key, revision) => {
            Compare::ModRevision { key: sealed.slice_ref(key), revision: Revision(revision) }
        }
        WireCompare::Value(key, value) => Compare::Value { key: sealed.slice_ref(key), value: sealed.slice_ref(value) },
    }
}

fn wire_op(op: &Op) -> WireOp<'_> {
    match op {
        Op::Put { key, value, ttl } => WireOp::Put(key, value, ttl.map(|ttl| ttl.0)),
        Op::Delete { key } => WireOp::Delete(key),
        Op::Add { key, deltas } => WireOp::Add(key, deltas.iter().map(wire_delta).collect()),
    }
}

fn wire_delta(delta: &Delta) -> WireDelta<'_> {
    WireDelta { name: &delta.name, by: delta.by, min: delta.min, max: delta.max }
}

fn read_op(op: WireOp<'_>, sealed: &Bytes) -> Op {
    match op {
        WireOp::Put(key, value, ttl) => {
            Op::Put { key: sealed.slice_ref(key), value: sealed.slice_ref(value), ttl: ttl.map(Seconds) }
        }
        WireOp::Delete(key) => Op::Delete { key: sealed.slice_ref(key) },
        WireOp::Add(key, deltas) => {
            let read = |delta: WireDelta<'_>| {
                let WireDelta { name, by, min, max } = delta;
                Delta { name: name.to_owned(), by, min, max }
            };
            Op::Add { key: sealed.slice_ref(key), deltas: deltas.into_iter().map(read).collect() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_without_copies() {
        let transaction = Transaction {
            compares: vec![Compare::ModRevision { key: "a".into(), revision: Revision(3) }],
            then: vec![
                Op::Put { key: "a".into(), value: "value".into(), ttl: Some(Seconds(4)) },
                Op::Delete { key: "".into() },
                Op::Add {
                    key: "node".into(),
                    deltas: vec![Delta { name: "cpu".into(), by: -3, min: Some(0), max: None }],
                },
            ],
            numbering: Numbering::PerTransaction,
        };
        let id = RequestId { origin: 1, sequence: 2 };
        let submission = Submission { id, known: 9, transaction: encode_transaction(&transaction) };
        let entry = decode(&submission.encode(77)).unwrap();
        assert_eq!(entry, Entry { at_ms: 77, command: Command::Transact { id, known: 9, transaction } });
    }
}
