//! What callers say to the store and what it answers: keys, revisions, transactions.

use std::fmt;

use bytes::Bytes;

/// A position in the store's history; 0 means that nothing was written yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A whole number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub u32);

/// One key as it stood at some revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Bytes,
    pub value: Bytes,
    /// The revision that created the key (since it was last absent).
    pub create_revision: Revision,
    /// The revision that wrote this value.
    pub mod_revision: Revision,
    /// 1 for the value that created the key, one more for each later one.
    pub version: u64,
}

/// A condition on the state that a transaction meets; all are judged before its first operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    Absent { key: Bytes },
    Present { key: Bytes },
    ModRevision { key: Bytes, revision: Revision },
    Value { key: Bytes, value: Bytes },
}

impl Compare {
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Absent { key } | Self::Present { key } => key,
            Self::ModRevision { key, .. } | Self::Value { key, .. } => key,
        }
    }
}

/// A change of one named counter. `max` is judged when `by >= 0`, `min` when `by <= 0`, so that a credit never
/// fails on a bound that was lowered under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    pub name: String,
    pub by: i64,
    pub min: Option<i64>,
    pub max: Option<i64>,
}

/// One step of a transaction. A key may be put or deleted once in a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// With a `ttl` the store deletes the key about that long after its last put.
    Put {
        key: Bytes,
        value: Bytes,
        ttl: Option<Seconds>,
    },
    Delete {
        key: Bytes,
    },
    /// Counters: a key space of their own, without revision or watch event, evaluated in apply order.
    Add {
        key: Bytes,
        deltas: Vec<Delta>,
    },
}

impl Op {
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put { key, .. } | Self::Delete { key } | Self::Add { key, .. } => key,
        }
    }
}

/// How many revisions a transaction takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// One consecutive revision for each changed key, in operation order, all visible at once.
    #[default]
    PerObject,
    /// One revision for the whole transaction.
    PerTransaction,
}

/// All of `then` if every compare holds, else nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub compares: Vec<Compare>,
    pub then: Vec<Op>,
    pub numbering: Numbering,
}

/// What one operation did. An operation that changed nothing (a delete of an absent key, an add) carries the
/// revision that the store had at that point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpResult {
    pub revision: Revision,
    pub previous: Option<KeyValue>,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed {
        /// The store's revision after the transaction.
        revision: Revision,
        /// One for each operation, in order.
        results: Vec<OpResult>,
    },
    CompareFailed {
        index: usize,
        current: Option<KeyValue>,
        revision: Revision,
    },
    /// A counter would have become `value`, beyond `bound`; nothing was changed.
    BoundViolated {
        op: usize,
        key: Bytes,
        name: String,
        value: i64,
        bound: i64,
    },
}

/// A request for the keys in `[start, end)`; an empty `end` means to the end of the key space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    pub start: Bytes,
    pub end: Bytes,
    /// At most so many items; 0 leaves it to the page's byte bound ([`MAX_PAGE_BYTES`]).
    pub limit: usize,
    /// Read history at this revision instead of the head.
    pub revision: Option<Revision>,
    /// Leave the values empty.
    pub keys_only: bool,
    /// No items; their number is in `remaining`.
    pub count_only: bool,
    /// Count what the page left out into `remaining` (costs a walk over it).
    pub count_remaining: bool,
}

/// A page holds at most so many bytes of keys and values (and always one item if there is one).
pub const MAX_PAGE_BYTES: usize = 4 << 20;

impl Range {
    /// All keys that begin with `prefix`.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start = prefix.into();
        let end = prefix_end(&start);
        Self { start, end, ..Self::default() }
    }

    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    pub fn at(mut self, revision: Revision) -> Self {
        self.revision = Some(revision);
        self
    }
}

/// One page of a range; ask on from [`Page::next_start`] at the same revision while `more`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The revision that the page shows.
    pub revision: Revision,
    pub items: Vec<KeyValue>,
    pub more: bool,
    /// The number of keys after this page (or in the range, for a count), where it was asked for.
    pub remaining: Option<u64>,
}

impl Page {
    /// The least key that is not in this page.
    pub fn next_start(&self) -> Option<Bytes> {
        let last = self.items.last().filter(|_| self.more)?;
        Some(key_after(&last.key))
    }
}

/// The keys `[start, end)` to watch; an empty `end` means to the end of the key space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WatchRange {
    pub start: Bytes,
    pub end: Bytes,
}

impl WatchRange {
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start = prefix.into();
        let end = prefix_end(&start);
        Self { start, end }
    }

    pub fn key(key: impl Into<Bytes>) -> Self {
        let start = key.into();
        let end = key_after(&start);
        Self { start, end }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.start <= key && (self.end.is_empty() || key < self.end)
    }
}

/// The least key that does not begin with `prefix` and is greater; empty if there is none.
pub fn prefix_end(prefix: &[u8]) -> Bytes {
    let Some(last) = prefix.iter().rposition(|byte| *byte != 0xff) else { return Bytes::new() };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    end.into()
}

/// The least key greater than `key`.
pub fn key_after(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// Sees every write that was acknowledged before the read began, by any member.
    Linearizable,
    /// Sees at least this revision; waits for it where needed.
    AtLeast(Revision),
    /// What this member has.
    Local,
}

/// What happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put(KeyValue),
    Delete,
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub revision: Revision,
    pub key: Bytes,
    pub change: Change,
    pub previous: Option<KeyValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_is_the_tight_upper_bound() {
        assert_eq!(prefix_end(b"a/"), "a0");
        assert_eq!(prefix_end(b"a\xff"), "b");
        assert_eq!(prefix_end(b"\xff\xff"), "");
        assert!(WatchRange::prefix("a/").contains(b"a/x") && !WatchRange::prefix("a/").contains(b"a0"));
        assert!(WatchRange::key("a").contains(b"a") && !WatchRange::key("a").contains(b"a\0"));
    }
}
