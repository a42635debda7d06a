//! The store's errors, one enum for each thing that a caller does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::disk::DiskError;
use crate::model::Revision;

/// Why a store could not be opened; each text says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("data directory {path} is in use by another process; stop it, or give this member a directory of its own")]
    InUse { path: PathBuf },
    #[error(
        "data directory {path} was written in format {found}, this version reads up to {supported}; \
         start it with a newer version of quorate"
    )]
    NewerFormat { path: PathBuf, found: u32, supported: u32 },
    #[error(
        "data directory {path} belongs to a cluster at feature level {found}, this version knows levels up to {supported}; \
         start it with a newer version of quorate"
    )]
    NewerLevel { path: PathBuf, found: u32, supported: u32 },
    #[error(
        "data directory {path} belongs to member {found}, but this member is named {name}; \
         start it with --name {found}, or with another --data-dir"
    )]
    OtherMember { path: PathBuf, found: String, name: String },
    #[error(
        "data directory {path} belongs to cluster {found}, but member {peer} is of cluster {theirs}; \
         point --data-dir to the directory that this member has of that cluster"
    )]
    OtherCluster { path: PathBuf, found: String, peer: String, theirs: String },
    #[error(
        "this member's --initial-members differ from those of {peer}: {difference}; give all members the same list"
    )]
    MembersDisagree { peer: String, difference: String },
    #[error(
        "data directory {path} lists other members on record than --initial-members: {difference}; \
         start this member with the list that its cluster was made with"
    )]
    MembersOnRecord { path: PathBuf, difference: String },
    #[error(
        "data directory {path} is not the one that member {peer} knows member {name} by: taking part with an empty one \
         could lose writes that {name} has acknowledged; mount or move back the directory it had, the others go on \
         without it (a cluster that holds nothing yet may be made anew: empty the directories of all members)"
    )]
    Wiped { name: String, path: PathBuf, peer: String },
    #[error(
        "this member and member {peer} at {address} do not accept each other's certificates ({detail}); \
         issue both from the same peer authority: give all members a copy of the same --pki-dir"
    )]
    Untrusted { peer: String, address: String, detail: String },
    #[error("configuration: {0}")]
    Config(String),
    #[error(
        "cannot listen on {address} for the other members; is another member running? End it, or set another \
         --listen-peer (and --initial-members accordingly, on all members)"
    )]
    Listen { address: String, source: std::io::Error },
    #[error("member certificates: {0}")]
    Tls(String),
    #[error("data directory {path} cannot be used")]
    Disk { path: PathBuf, source: DiskError },
    #[error("no space left for data directory {path} ({detail}); free some, then start this member again")]
    Full { path: PathBuf, detail: String },
    #[error(
        "data directory {path} is damaged ({detail}); keep it, and put a copy from before the damage in its place \
         (where there are other members, they go on without this one meanwhile)"
    )]
    Damaged { path: PathBuf, detail: String },
    #[error("the store was told to stop while it opened")]
    Stopped,
}

impl OpenError {
    /// What the disk says about `path`, with the next step.
    pub(crate) fn of_disk(path: &Path, source: DiskError) -> Self {
        let path = path.to_owned();
        match source {
            DiskError::Full(detail) => Self::Full { path, detail },
            DiskError::Corrupt(detail) => Self::Damaged { path, detail },
            source @ DiskError::Io(_) => Self::Disk { path, source },
        }
    }
}

/// Why a transaction was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// It was not applied and will not be.
    #[error("no leader to commit with: {0}")]
    Unavailable(String),
    /// It may have been applied, or may still be.
    #[error("the transaction's fate is unknown after {0:?}")]
    FateUnknown(Duration),
    #[error("the transaction has {size} bytes, the limit is {limit}")]
    TooLarge { size: usize, limit: usize },
    #[error("the transaction has {count} operations and compares, the limit is {limit}")]
    TooMany { count: usize, limit: usize },
    #[error("key {0:?} is changed twice in the transaction")]
    DuplicateKey(String),
    /// Not queued; try again later.
    #[error("too many transactions are waiting")]
    Overloaded,
    /// Not applied: the disk refused it. Reads go on.
    #[error("no space left on the store's disk; free some space, writes resume by themselves")]
    DiskFull,
}

/// Why a read has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("the revision has been compacted; the oldest one kept is {at}")]
    Compacted { at: Revision },
    #[error("the revision is in the future; the newest one is {head}")]
    FutureRevision { head: Revision },
    #[error("no leader to confirm the read with: {0}")]
    Unavailable(String),
    #[error("the read was not confirmed within {0:?}")]
    Timeout(Duration),
    #[error("reading the store's disk: {0}")]
    Disk(String),
}

impl From<DiskError> for ReadError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error.to_string())
    }
}

/// Why a watch ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnd {
    /// The watcher fell behind the history that is kept.
    #[error("the watch fell behind the oldest revision kept, {at}")]
    Compacted { at: Revision },
    /// The watcher's events could not be kept or read for it.
    #[error("the watch lost its place")]
    Overflow,
    /// The store is closing.
    #[error("the store is closing")]
    Closed,
}
