//! The store from outside: one binary, a module for each concern.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]

mod group;
mod grpc;
mod mvcc;
mod rocks;
mod single;
mod support;
