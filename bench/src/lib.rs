//! Load and figures: closed-loop clients, start times and memory, against any Kubernetes API server.
//!
//! Knows nothing of Quorate: whatever a kubeconfig names is measured the same way, so that a peer (kube-apiserver with
//! etcd) can stand beside it in one table. No crate of ours is linked, and none may link this one.
//!
//! Start at [`command`] (what can be measured), then [`load`] (how clients are driven) and [`connection`] (what they
//! send through).
//!
//! Flow: [`kubeconfig`] → [`ready`] awaits `/readyz` → [`connection::Pool`] opens HTTP/2 connections over TLS → a
//! command prepares its requests → [`load::drive`] sends them, each client its next one when it has its answer →
//! [`report::Report`] as a table or as JSON. CPU and memory come from [`process`]. [`comparison`] puts reports of two
//! servers into one table.
//!
//! Invariants:
//! - a latency runs from before the request is sent to the last byte of its answer, and a percentile is a value that
//!   was measured (`latency::tests::percentiles_are_measured_values`);
//! - a kubeconfig is read as client-go reads it, by its current context (`kubeconfig::tests`);
//! - repeated runs are told by their median, and a factor above 1 is in our favour (`comparison::tests`);
//! - the CPU time of a process is found whatever its name contains (`process::tests`).
//!
//! Tasks: one for each connection and client, all in a `JoinSet` that their owner awaits or drops. Bounds:
//! [`load::MAX_ERRORS_PER_CLIENT`], [`load::MAX_PREPARED`], [`ready::DEADLINE`], [`connection::ANSWER_DEADLINE`]; the
//! queue of a client is one request.

pub mod command;
pub mod comparison;
pub mod connection;
pub mod kubeconfig;
pub mod latency;
pub mod load;
pub mod process;
pub mod ready;
pub mod report;
