//! Seams to the world: clock, seeded randomness, owned tasks, back-off.
//!
//! The two others are where their one user is: what members say to each other and what they keep passes through
//! `raft_store`'s `Network` and `Disk`, each real or simulated. Sockets of the API, of nodes and of the balancer, and files
//! of certificates and volumes, have no simulated twin: a simulation calls the API server in process.
//!
//! Knows nothing of Kubernetes, raft or HTTP. Every other crate takes its time, its randomness and its tasks from
//! here, through its constructor, so that a whole control plane can run in one seeded, deterministic process.
//!
//! Start at [`Env`] (what every component is given), then [`Scope`] (who owns a task).
//!
//! Flow: `src` makes one [`Env`] and one root [`Scope`] → each component gets a clone and a child scope → shutdown
//! closes the scopes from the leaves to the root and names whatever did not end in time.
//!
//! Invariants:
//! - the same seed gives the same values (`random::tests::same_seed_same_values`);
//! - a simulated clock moves only with tokio's paused time (`clock::tests::simulated_wall_follows_paused_time`);
//! - closing a scope cancels and joins all its tasks (`scope::tests::close_joins_children`);
//! - a panic ends its task alone, and is logged and counted (`scope::tests::a_panic_ends_its_task_alone_and_is_counted`).
//!
//! Tasks: none of its own. Bounds: [`backoff::Backoff`] is capped by its `max`.

pub mod backoff;
pub mod clock;
pub mod random;
pub mod scope;

pub use backoff::Backoff;
pub use clock::Clock;
pub use random::Random;
pub use scope::Scope;

/// What a component may know of the outside world.
#[derive(Clone, Debug)]
pub struct Env {
    pub clock: Clock,
    pub random: Random,
}

impl Env {
    /// The machine's clock and the operating system's entropy.
    pub fn real() -> Self {
        Self { clock: Clock::real(), random: Random::from_os() }
    }

    /// A clock that moves with tokio's paused time from `start`, and randomness drawn from `seed`.
    pub fn simulated(start: jiff::Timestamp, seed: u64) -> Self {
        Self { clock: Clock::simulated(start), random: Random::seeded(seed) }
    }
}
