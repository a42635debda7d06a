//! The store from outside: one binary, a module for each concern.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]

mod damage;
mod full_disk;
mod group;
mod grpc;
mod kill;
mod mvcc;
mod rocks;
mod single;
mod strangers;
mod support;
mod tls_members;
