//! Monotonic and wall time behind one handle.
#![expect(clippy::disallowed_methods, reason = "this module is the seam that the ban points to")]

use std::future::Future;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
pub use tokio::time::Instant;

/// The future did not finish in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("deadline of {0:?} exceeded")]
pub struct Elapsed(pub Duration);

/// A source of time. Monotonic time is tokio's, so that tests and the simulation can pause it.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Real,
    Simulated { start: Timestamp, origin: Instant },
}

impl Clock {
    pub fn real() -> Self {
        Self(Source::Real)
    }

    /// A wall clock that reads `start` now and advances with tokio's (paused) time only.
    pub fn simulated(start: Timestamp) -> Self {
        Self(Source::Simulated { start, origin: Instant::now() })
    }

    pub fn now(&self) -> Instant {
        Instant::now()
    }

    pub fn wall(&self) -> Timestamp {
        match &self.0 {
            Source::Real => Timestamp::now(),
            Source::Simulated { start, origin } => {
                let passed = SignedDuration::try_from(origin.elapsed()).unwrap_or(SignedDuration::MAX);
                start.saturating_add(passed).unwrap_or(Timestamp::MAX)
            }
        }
    }

    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    pub async fn sleep_until(&self, deadline: Instant) {
        tokio::time::sleep_until(deadline).await;
    }

    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, Elapsed> {
        tokio::time::timeout(limit, future).await.map_err(|_elapsed| Elapsed(limit))
    }

    /// Ticks every `period`, the first one a period from now; a late tick is not made up for.
    pub fn interval(&self, period: Duration) -> tokio::time::Interval {
        let mut interval = tokio::time::interval_at(Instant::now() + period, period);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_wall_follows_paused_time() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::simulated(start);
        clock.sleep(Duration::from_secs(90)).await;
        assert_eq!(clock.wall().to_string(), "2026-01-01T00:01:30Z");
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_names_its_limit() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH);
        let outcome = clock.timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
        assert_eq!(outcome, Err(Elapsed(Duration::from_millis(5))));
    }
}
