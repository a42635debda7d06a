//! The node's parts against a real kernel. Needs root; every test makes its own network namespaces and removes them.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "test helpers fail by panicking")]

mod api;
mod balancer;
mod join;
mod lab;
mod member;
mod names;
mod pods;
mod services;
mod volumes;
