//! Capped exponential back-off with jitter.

use std::time::Duration;

use crate::Random;

/// Delays that grow by `factor` from `initial` to `max`, each with up to `jitter` of itself added.
#[derive(Clone, Debug)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    factor: f64,
    jitter: f64,
    current: Duration,
    random: Random,
}

impl Backoff {
    pub fn new(initial: Duration, max: Duration, random: Random) -> Self {
        Self { initial, max, factor: 2.0, jitter: 0.1, current: initial, random }
    }

    pub fn with_factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    pub fn with_jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// The next delay to wait.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.current.min(self.max);
        self.current = self.current.mul_f64(self.factor).min(self.max);
        self.random.jitter(delay, self.jitter)
    }

    /// Start over, after a success.
    pub fn reset(&mut self) {
        self.current = self.initial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_its_cap_and_starts_over() {
        let mut backoff =
            Backoff::new(Duration::from_secs(1), Duration::from_secs(5), Random::seeded(1)).with_jitter(0.0);
        let delays: Vec<u64> = (0..5).map(|_| backoff.next_delay().as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 5, 5]);
        backoff.reset();
        assert_eq!(backoff.next_delay(), Duration::from_secs(1));
    }
}
