//! How far a request has come, and when: what the log says of a slow one.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorate_env::Clock;
use quorate_env::clock::Instant;

/// Points that a request passes, in order; none passes all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Authenticated,
    Authorized,
    Decoded,
    Admitted,
    Committed,
}

const STAGES: [(Stage, &str); 5] = [
    (Stage::Authenticated, "authenticated"),
    (Stage::Authorized, "authorized"),
    (Stage::Decoded, "decoded"),
    (Stage::Admitted, "admitted"),
    (Stage::Committed, "committed"),
];

/// When each point was last passed, in microseconds since the request's start.
#[derive(Debug)]
pub(crate) struct Stages {
    clock: Clock,
    start: Instant,
    passed: [AtomicU64; STAGES.len()],
}

impl Stages {
    pub(crate) fn begin(clock: &Clock) -> Self {
        Self { clock: clock.clone(), start: clock.now(), passed: Default::default() }
    }

    pub(crate) fn took(&self) -> Duration {
        self.clock.now().duration_since(self.start)
    }

    pub(crate) fn pass(&self, stage: Stage) {
        let micros = u64::try_from(self.took().as_micros()).unwrap_or(u64::MAX);
        // Zero means that it was not passed.
        self.passed[stage as usize].store(micros.max(1), Ordering::Relaxed);
    }

    /// `authenticated=0.1ms authorized=0.2ms …`, each since the request's start.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for ((_, name), passed) in STAGES.iter().zip(&self.passed) {
            let micros = passed.load(Ordering::Relaxed);
            if micros > 0 {
                let space = if text.is_empty() { "" } else { " " };
                // Writing to a String cannot fail.
                let _infallible = write!(text, "{space}{name}={}.{}ms", micros / 1000, micros % 1000 / 100);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_what_was_passed_is_told() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let stages = Stages::begin(&clock);
        assert_eq!(stages.describe(), "");
        stages.pass(Stage::Authenticated);
        clock.sleep(Duration::from_millis(12)).await;
        stages.pass(Stage::Committed);
        assert_eq!(stages.describe(), "authenticated=0.0ms committed=12.0ms");
        for (index, (stage, _)) in STAGES.into_iter().enumerate() {
            assert_eq!(stage as usize, index);
        }
    }
}
