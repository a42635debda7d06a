//! Real clusters for scenarios: members, nodes and clients as processes, on addresses of their own.
//!
//! Knows nothing of the crates it tests: it runs the `quorate` binary and unmodified clients, as a user does.
//!
//! Start at [`cluster::Cluster`] (a running cluster), then [`scenario`] (what is shown on it, step by step).
//!
//! Flow: [`lab::Lab`] (namespaces and addresses) → [`cluster::Cluster::start`] (processes) → a scenario → drop, which
//! ends every process and deletes every namespace, also after a failure. Beside that: [`peer`] (upstream's own programs),
//! [`differential`] (the same requests to kube-apiserver and to Quorate), [`figure`] (what needs a cluster to be measured).
//!
//! Invariants: nothing is left behind (`lab::leftovers` is checked at the end of each run); a scenario waits for
//! conditions with deadlines and never for a time; the same scenarios serve `make demo` and `make test`.
//!
//! Tasks: one small tokio runtime per cluster for API clients. Bounds: every wait has a deadline, named where it is.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test harness lives in real time and reports to a person"
)]

pub mod await_until;
pub mod cluster;
pub mod differential;
pub mod figure;
pub mod history;
pub mod interrupt;
pub mod kubectl;
pub mod lab;
pub mod peer;
pub mod process;
pub mod scenario;
pub mod tools;
