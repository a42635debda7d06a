//! Replicated, durable, watchable map from byte keys to byte values.
//!
//! Knows nothing of Kubernetes objects or HTTP. No type of the consensus library or of the disk leaks out.
//!
//! Start at [`Store`] (what callers hold), then `open` (how its parts fit), `apply` (what one entry does).
//!
//! Flow of a write: `commit` → the leader's `propose` (here or by `peer`) → `log` (one writer, grouped synced writes) → quorum →
//! `machine` → `engine`: `apply` on an overlay of the `disk`, one write with the applied index in it → the `watch` ring
//! → the caller. A read: `read_index` (one confirmation for all that wait) → `read` → `mvcc` on a view of the disk.
//! A watch: `watch::ring` → dispatcher → queues; whoever is behind reads the ring, then the disk, by itself.
//!
//! Invariants, and who checks them:
//! - apply is a pure function of (state, entry); any history reads as a plain model's (`tests/it/mvcc.rs`);
//! - what was acknowledged is neither lost nor applied twice, whichever leader dies (`tests/it/group.rs`);
//! - a watcher sees every event of its range once, in order, across leader changes and restarts (`mvcc.rs`, `group.rs`);
//! - a reply follows durability on a quorum, visibility here and the watchers' ring, in this order (`engine::apply`);
//! - the log is cut only up to a flushed state (`machine::build_snapshot`, `tests/it/rocks.rs`);
//! - whoever lost its directory, or brings another cluster's, takes no part in raft (`admission`, `tests/it/strangers.rs`);
//! - a full disk refuses writes, serves reads and is waited out (`room`, `tests/it/full_disk.rs`);
//! - a disk and its simulated twin keep one contract (`disk::contract`).
//!
//! Threads: `raft` (consensus, member network, upkeep), `log-writer`, `store-apply`, `store-keep` (reads of the log, flush,
//! checkpoints), `store-read-*`; none of them where the disk is simulated. A panic of consensus, log writer, apply, read
//! index or watch dispatch ends the process. Tasks belong to the scope that was given; `open`
//! starts and [`Store::close`] ends them.
//!
//! Bounds: [`MAX_TRANSACTION_BYTES`], [`MAX_TRANSACTION_PARTS`], [`MAX_PAGE_BYTES`]; entries in flight in `propose`,
//! waiting reads in `read_index` and `pool`, the ring and the queues in `watch`, remembered requests in `apply::dedup`.

mod admission;
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
mod room;
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
