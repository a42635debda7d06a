//! Seedable randomness behind one shared handle.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use uuid::Uuid;

/// The letters of generated name suffixes: no vowels and no look-alikes, as upstream's `rand.String`.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A source of randomness; clones draw from the same stream.
#[derive(Clone)]
pub struct Random(Arc<Mutex<StdRng>>);

impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Random")
    }
}

impl Random {
    pub fn from_os() -> Self {
        Self(Arc::new(Mutex::new(rand::make_rng())))
    }

    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    fn with<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn u64(&self) -> u64 {
        self.with(|rng| rng.next_u64())
    }

    pub fn fill(&self, bytes: &mut [u8]) {
        self.with(|rng| rng.fill_bytes(bytes));
    }

    /// A uniform value in `0..limit`; 0 when `limit` is 0.
    pub fn below(&self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.with(|rng| rng.random_range(0..limit)) }
    }

    /// A version 4 UUID.
    pub fn uuid(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// `base` plus up to `fraction` of it, as upstream's `wait.Jitter`.
    pub fn jitter(&self, base: Duration, fraction: f64) -> Duration {
        let unit: f64 = self.with(|rng| rng.random());
        base + base.mul_f64(unit * fraction.max(0.0))
    }

    /// A suffix for `generateName` of `length` letters.
    pub fn suffix(&self, length: usize) -> String {
        self.with(|rng| {
            (0..length).map(|_| char::from(SUFFIX_ALPHABET[rng.random_range(0..SUFFIX_ALPHABET.len())])).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_values() {
        let (a, b) = (Random::seeded(7), Random::seeded(7));
        assert_eq!((a.u64(), a.uuid(), a.suffix(5), a.below(10)), (b.u64(), b.uuid(), b.suffix(5), b.below(10)));
        assert_ne!(Random::seeded(8).u64(), Random::seeded(7).u64());
    }

    #[test]
    fn suffix_uses_the_safe_alphabet() {
        assert!(Random::seeded(1).suffix(200).bytes().all(|letter| SUFFIX_ALPHABET.contains(&letter)));
    }

    #[test]
    fn jitter_stays_within_its_fraction() {
        let base = Duration::from_millis(100);
        for seed in 0..100 {
            let jittered = Random::seeded(seed).jitter(base, 0.5);
            assert!((base..=base * 3 / 2).contains(&jittered), "{jittered:?}");
        }
    }
}
