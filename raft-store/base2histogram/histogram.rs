//! Counts of values in buckets of about equal relative width, as much of them as openraft asks for.
//!
//! Stands in for the crate of this name: the first histogram there makes the tables of all sixteen precisions, 25 MB that
//! stay for the process' life, of which openraft uses the 2 KB of one. Here there is that one precision and no table: a
//! bucket's bounds follow from its number.
#![expect(clippy::cast_precision_loss, reason = "a percentile of more than 2^52 values may be off by one")]

use std::fmt;
use std::marker::PhantomData;

/// The highest bits of a value that tell its bucket.
const PRECISION: u32 = 3;
/// Values below it have a bucket each; so many buckets share each power of two above.
const GROUP: usize = 1 << (PRECISION - 1);
const BUCKETS: usize = GROUP * (u64::BITS - PRECISION + 2) as usize;

fn bucket_of(value: u64) -> usize {
    if value < GROUP as u64 {
        return usize::try_from(value).unwrap_or_default();
    }
    let shift = u64::BITS - value.leading_zeros() - PRECISION;
    let within = usize::try_from(value >> shift).unwrap_or_default() % GROUP;
    GROUP * (1 + shift as usize) + within
}

/// The least value of a bucket.
fn least_of(bucket: usize) -> u64 {
    if bucket < GROUP {
        return bucket as u64;
    }
    ((GROUP + bucket % GROUP) as u64) << (bucket / GROUP - 1)
}

/// A distribution of values. The parameter only keeps the type that is stood in for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    counts: Box<[u64]>,
    total: u64,
    slots: PhantomData<T>,
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Histogram<T> {
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS].into(), total: 0, slots: PhantomData }
    }

    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// The same value `count` times.
    pub fn record_n(&mut self, value: u64, count: u64) {
        self.counts[bucket_of(value)] += count;
        self.total += count;
    }

    /// How many values were recorded.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The least value of the bucket that holds the value below which `part` of all lie; 0 where there are none.
    pub fn percentile(&self, part: f64) -> u64 {
        let wanted = (self.total as f64 * part).ceil().max(1.0);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen as f64 >= wanted
        });
        found.map_or(0, least_of)
    }

    pub fn percentile_stats(&self) -> PercentileStats {
        PercentileStats {
            samples: self.total,
            p0_1: self.percentile(0.001),
            p1: self.percentile(0.01),
            p5: self.percentile(0.05),
            p10: self.percentile(0.1),
            p50: self.percentile(0.5),
            p90: self.percentile(0.9),
            p99: self.percentile(0.99),
            p99_9: self.percentile(0.999),
        }
    }
}

/// What most want to know of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PercentileStats {
    pub samples: u64,
    pub p0_1: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, p50, p90, p99, p99_9, .. } = self;
        write!(f, "{samples} samples, p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p99_9}")
    }
}

/// Several distributions under each other, a bar for each bucket that holds something.
#[derive(Clone, Debug, Default)]
pub struct AsciiChart(Vec<(String, Histogram)>);

impl AsciiChart {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn add(mut self, name: &str, histogram: Histogram) -> Self {
        self.0.push((name.to_owned(), histogram));
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WIDTH: u64 = 50;
        for (name, histogram) in &self.0 {
            writeln!(f, "{name}")?;
            let most = histogram.counts.iter().copied().max().unwrap_or_default().max(1);
            for (bucket, count) in histogram.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let bar = "#".repeat(usize::try_from((count * WIDTH).div_ceil(most)).unwrap_or_default());
                writeln!(f, "{:>20} {bar} {count}", least_of(bucket))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_hold_their_least_value() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(least_of(bucket)), bucket);
            if bucket + 1 < BUCKETS {
                assert_eq!(bucket_of(least_of(bucket + 1) - 1), bucket);
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::<()>::new();
        assert_eq!(histogram.percentile_stats().p50, 0);
        (1..=100).for_each(|value| histogram.record(value));
        let stats = histogram.percentile_stats();
        assert_eq!((stats.samples, histogram.total()), (100, 100));
        assert_eq!((stats.p1, stats.p50, stats.p99), (1, 48, 96));
        assert!(AsciiChart::new().add("a", histogram).to_string().contains("96 "));
    }
}
