//! Chooses a node for each pending pod: `schedule(view, pod) → decision`, the queue, and the loop that feeds both.
//!
//! Knows nothing of storage and of the API server's internals: it reads and writes through [`kube::Client`]s only, and
//! trusts the store's guarded binding (409) rather than its own view to keep nodes from being over-committed.
//!
//! Start at [`schedule::schedule`] (the pure decision), then [`run`] (the loop).
//!
//! Flow: watches ([`view::Source`]) → [`view::View`] and [`queue::Queue`] → [`schedule::schedule`] → [`filter`] →
//! [`score`] → `pods/binding` → the watch brings the bound pod back into the view. What fits nowhere waits in the queue
//! until something that could turn one of the rules against it has changed, and its event says what was in the way.
//!
//! Invariants:
//! - a decision depends on view, pod and sequence number only (`schedule::tests::same_input_same_decision`);
//! - a chosen node passes every filter (`schedule::tests::a_chosen_node_passes_every_filter`);
//! - a pod waits in at most one place of the queue (`queue::tests`);
//! - an assumed placement stands until the watch shows the binding or the API denies it (`run::tests`);
//! - no event or condition holds up a decision (`run::tests::notes_that_hang_hold_nothing_up`).
//!
//! Tasks: [`run::run`] owns the watches, the note writer and the loop; all end with its scope. Bounds:
//! `queue::MAX_BACKOFF`, `run::ASSUMED_LIMIT`, `run::BINDINGS_IN_FLIGHT`, `run::report::WAITING`.

pub mod constraint;
pub mod filter;
pub mod metrics;
pub mod node;
pub mod pod;
pub mod preemption;
pub mod queue;
pub mod resources;
pub mod run;
pub mod schedule;
pub mod score;
pub mod view;

pub use run::{Config, run};
pub use schedule::{Decision, schedule};
