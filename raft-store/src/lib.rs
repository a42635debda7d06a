//! Replicated, durable, watchable map from byte keys to byte values.
//!
//! Knows nothing of Kubernetes objects or HTTP. No type of the consensus library or of the disk leaks out.
//!
//! Start at [`Store`] (what callers hold), then `apply` (what an entry does) and `engine` (in which order).
//!
//! Flow: `store` → `entry` encodes → the log → `engine` → `apply` on an `overlay` of the `disk` → one write → the
//! `watch` hub → the caller's answer. Reads: `store` → `read` → `mvcc` on a view of the disk.
//!
//! Invariants:
//! - apply is a pure function of (state, entry);
//! - a watcher sees every event of its range once, in order (`tests/it/mvcc.rs`);
//! - a reply follows durability, visibility and the watchers' ring, in this order.
//!
//! Tasks: `watch-dispatch`, ended by the scope.
//! Bounds: [`MAX_TRANSACTION_BYTES`], [`MAX_TRANSACTION_PARTS`], [`MAX_PAGE_BYTES`], and the constants in `watch`.

mod apply;
mod commit;
mod config;
mod directory;
mod disk;
mod engine;
mod entry;
mod envelope;
mod error;
mod fatal;
mod form;
mod lane;
mod leader;
mod limits;
mod log;
mod machine;
mod members;
mod metrics;
mod model;
mod mvcc;
mod open;
mod peer;
mod pool;
mod propose;
mod raft;
mod read;
mod read_index;
mod record;
mod status;
mod store;
mod upkeep;
mod watch;

pub use config::{Config, Disk, Network, PeerTls, Timers};
pub use disk::{DiskError, SimulatedDisk};
pub use error::{CommitError, OpenError, ReadError, WatchEnd};
pub use limits::{MAX_TRANSACTION_BYTES, MAX_TRANSACTION_PARTS};
pub use model::{
    Change, Compare, Consistency, Delta, Event, KeyValue, MAX_PAGE_BYTES, Numbering, Op, OpResult, Outcome, Page,
    Range, Revision, Seconds, Transaction, WatchRange, key_after, prefix_end,
};
pub use peer::SimulatedNetwork;
pub use status::{Leadership, MemberId, MemberStatus, StoreStatus};
pub use store::Store;
pub use watch::{Batch, Watcher};

/// What this version can do; members agree on the lowest among them.
pub const FEATURE_LEVEL: u32 = 1;
