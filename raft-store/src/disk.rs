//! The seam to the disk: the replicated state's column families, and the log, each with a RocksDB and a simulated twin.

mod checkpoint;
#[cfg(test)]
mod contract;
pub(crate) mod log;
pub(crate) mod memory_state;
pub(crate) mod rocks_state;

use std::collections::BTreeMap;

use bytes::Bytes;

pub use memory_state::SimulatedDisk;

/// What a disk can answer beside data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    #[error("no space left on the device: {0}")]
    Full(String),
    #[error("{0}")]
    Io(String),
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
}

/// The column families of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Family {
    /// Key → its record at the head.
    Current,
    /// (key, descending revision) → a superseded record and the revision that ended it.
    Old,
    /// (revision, sub) → what changed: the change log.
    Revisions,
    /// Fixed names → scalars of the state machine.
    Meta,
    /// (key, counter name) → integer.
    Counters,
    /// (log index) → request and result, for resends.
    Dedup,
    /// (expiry, key) → revision of the put that set it.
    Expiry,
}

impl Family {
    pub(crate) const ALL: [Self; 7] =
        [Self::Current, Self::Old, Self::Revisions, Self::Meta, Self::Counters, Self::Dedup, Self::Expiry];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Current => "cur",
            Self::Old => "old",
            Self::Revisions => "rev",
            Self::Meta => "meta",
            Self::Counters => "counter",
            Self::Dedup => "dedup",
            Self::Expiry => "ttl",
        }
    }
}

/// A walk over one family, in key order.
pub(crate) trait Cursor {
    /// Where the cursor stands; `None` past the end.
    fn entry(&self) -> Option<(&[u8], &[u8])>;
    fn advance(&mut self) -> Result<(), DiskError>;
    /// Move to the first entry at or after `key`, never back.
    fn seek(&mut self, key: &[u8]) -> Result<(), DiskError>;
}

/// A consistent picture of the state.
pub(crate) trait View {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Bytes>, DiskError>;
    /// A cursor at the first key in `[from, to)`; an empty `to` means to the end.
    fn cursor<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Result<Box<dyn Cursor + 'a>, DiskError>;
}

/// Changes to apply at once: for each family, key → new value or removal, and ranges to remove before them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) changes: [BTreeMap<Bytes, Option<Bytes>>; Family::ALL.len()],
    /// `[from, to)` in a family; applied before `changes`.
    pub(crate) removed_ranges: Vec<(Family, Bytes, Bytes)>,
}

impl Batch {
    pub(crate) fn put(&mut self, family: Family, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.changes[family as usize].insert(key.into(), Some(value.into()));
    }

    pub(crate) fn delete(&mut self, family: Family, key: impl Into<Bytes>) {
        self.changes[family as usize].insert(key.into(), None);
    }

    pub(crate) fn get(&self, family: Family, key: &[u8]) -> Option<&Option<Bytes>> {
        self.changes[family as usize].get(key)
    }
}

/// The state's disk: written by one applier, read by many.
pub(crate) trait StateDisk: Send + Sync + 'static {
    /// Run `read` on a picture that stays the same while it runs.
    fn view(&self, read: &mut dyn FnMut(&dyn View));
    /// Read one key at the head without waiting for a disk; `None` if that cannot be done.
    fn get_cached(&self, family: Family, key: &[u8]) -> Option<Result<Option<Bytes>, DiskError>>;
    /// Apply a batch atomically; durable only after [`StateDisk::flush`].
    fn write(&self, batch: &Batch) -> Result<(), DiskError>;
    /// Make all that was written so far durable, all families at one point.
    fn flush(&self) -> Result<(), DiskError>;
    /// A picture of the whole state that can be sent to another member.
    fn checkpoint(&self) -> Result<Checkpoint, DiskError>;
    /// Replace the whole state, durably.
    fn install(&self, checkpoint: &Checkpoint) -> Result<(), DiskError>;
    /// A place to receive a checkpoint into.
    fn receive(&self) -> Result<Checkpoint, DiskError>;
}

/// A closed set of files that holds a state.
#[derive(Clone, Debug)]
pub(crate) enum Checkpoint {
    /// Files of a directory, which is removed when the last handle goes.
    Directory(std::sync::Arc<CheckpointDirectory>),
    Memory(std::sync::Arc<parking_lot::Mutex<BTreeMap<String, Vec<u8>>>>),
}

#[derive(Debug)]
pub(crate) struct CheckpointDirectory {
    pub(crate) path: std::path::PathBuf,
    /// It has become the state.
    pub(crate) kept: std::sync::atomic::AtomicBool,
}

impl CheckpointDirectory {
    pub(crate) fn new(path: std::path::PathBuf) -> Self {
        Self { path, kept: false.into() }
    }
}

impl Drop for CheckpointDirectory {
    fn drop(&mut self) {
        if *self.kept.get_mut() {
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a checkpoint");
        }
    }
}
