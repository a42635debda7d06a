//! The API server over a store in memory, asked as clients ask it. Time is paused and randomness seeded, so that whole
//! responses can be compared.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers fail by panicking")]

mod bodies;
mod certificates;
mod delete;
mod examples;
mod fence;
mod forms;
mod health;
mod identity;
mod list;
mod members;
mod pods;
mod requests;
mod restriction;
mod services;
mod streams;
mod tls;
mod verbs;
mod watch;
mod world;
