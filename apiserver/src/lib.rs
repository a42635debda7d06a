//! The Kubernetes API over a replicated store.
//!
//! **What for.** HTTP → ordered filter chain → verb → registry row (+ small strategy) → one store transaction; and the
//! way back: reads, lists and watches as slices of stored bytes.
//!
//! **What it does not know.** Scheduler, controllers, nodes: they are clients like any other, in the same process by
//! [`InProcess`], else over HTTPS.
//!
//! **Where to begin.** Start at [`server::Server`], then `chain.rs` (the path of every request, in order), then one verb
//! in `verb/`. What differs between kinds is data in [`registry::Row`] and functions in [`registry::strategy`].
//!
//! **Flow.** `serve` or [`InProcess`] → `chain::handle` → `verb::dispatch` → `verb/create.rs` … → `verb/write.rs`
//! (defaults, admission, strategy, validation, guards) → `storage` → the store. Reads: `verb/list.rs`, `verb/watch.rs` →
//! `present.rs`.
//!
//! **Invariants and where they are tested.**
//! - Equal objects have equal stored bytes, and an update to the same bytes writes nothing (`tests/it/verbs.rs`).
//! - List plus watch from its revision gives the state at any later time (`tests/it/watch.rs`).
//! - A bookmark is sent only after every event up to it (`verb/watch.rs`, `tests/it/watch.rs`).
//! - An object is created only in a namespace that is alive in the same transaction (`tests/it/verbs.rs`).
//! - A deposed leader's parts cannot write (`tests/it/fence.rs`).
//! - A right just granted can be used at once on the same member, on the others when their view has it; nobody grants
//!   what they do not hold (`tests/it/identity.rs`).
//! - A member answers nothing that it has not confirmed with the quorum since it started, and makes no write a second
//!   time whose fate it does not know (`chain/gate.rs`, `verb/write/commit.rs`, `tests/it/members.rs`).
//! - A streamed answer that is cut short is broken off, never ended (`body.rs`).
//! - Streams of pods pass byte for byte between client and node (`nodes.rs`, `tests/it/streams.rs`).
//! - No two nodes share a range of the pod network (`pod_cidr.rs`, `tests/it/identity.rs`).
//!
//! **Tasks.** Add a kind: a strategy in `registry/` and its line in `registry/kinds.rs`. Add a subresource: a door in
//! `subresource/door.rs`, or a file beside it. Add an authenticator or an admission plugin: see those modules' heads.
//!
//! **Bounds.** Requests in flight `chain/gate.rs`; bodies [`call::MAX_BODY_BYTES`]; connections, streams and time-outs in `serve.rs`; chunks in flight of one
//! response `body::STREAM_CHUNKS`; lists in `verb/list.rs`; streams to nodes and their time-outs in `nodes.rs`;
//! retries beside each loop.

pub mod admission;
pub mod attributes;
pub mod authenticate;
pub mod authorize;
pub mod body;
pub mod bootstrap;
pub mod call;
mod chain;
mod decode;
mod discovery;
pub mod fence;
mod follow;
mod health;
pub mod identity;
mod inprocess;
pub mod join;
pub mod metrics;
pub mod negotiate;
mod nodes;
mod openapi;
mod paths;
pub mod pki;
pub mod pod_cidr;
mod present;
pub mod query;
pub mod registry;
pub mod respond;
pub mod review;
pub mod route;
mod serve;
pub mod server;
pub mod storage;
mod subresource;
pub mod table;
mod verb;
pub mod warnings;
mod watch;

pub use fence::Fence;
pub use identity::Identity;
pub use inprocess::InProcess;
pub use serve::CLOSE_DEADLINE;
pub use server::{Config, OpenError, Server};
