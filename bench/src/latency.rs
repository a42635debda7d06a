//! Durations measured in a run, and their percentiles.

use std::time::Duration;

/// All durations of a run, none thrown away: a minute of load has some hundred thousand.
#[derive(Debug, Default, Clone)]
pub struct Latencies {
    durations: Vec<Duration>,
}

impl Latencies {
    pub fn record(&mut self, duration: Duration) {
        self.durations.push(duration);
    }

    pub fn absorb(&mut self, other: Self) {
        self.durations.extend(other.durations);
    }

    pub fn count(&self) -> usize {
        self.durations.len()
    }

    /// Milliseconds that `percent` of the durations do not exceed (nearest rank); 0 when there is none.
    pub fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.durations.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).map_or(0.0, |duration| milliseconds(*duration))
    }
}

pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(milliseconds: impl IntoIterator<Item = u64>) -> Latencies {
        Latencies { durations: milliseconds.into_iter().map(Duration::from_millis).collect() }
    }

    fn percentiles(latencies: &Latencies) -> Vec<u64> {
        [0, 50, 99, 100]
            .map(|percent| Duration::from_secs_f64(latencies.percentile(percent) / 1000.0))
            .map(millis)
            .into()
    }

    fn millis(duration: Duration) -> u64 {
        u64::try_from((duration + Duration::from_micros(1)).as_millis()).unwrap()
    }

    #[test]
    fn percentiles_are_measured_values() {
        assert_eq!(percentiles(&latencies((1..=100).rev())), [1, 50, 99, 100]);
        assert_eq!(percentiles(&latencies([7])), [7, 7, 7, 7]);
        assert_eq!(percentiles(&latencies([1, 2])), [1, 1, 2, 2]);
        assert_eq!(percentiles(&latencies([])), [0, 0, 0, 0]);
    }
}
