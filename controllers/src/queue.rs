//! Keys that want a pass: each at most once, never two passes of one key at a time, failures with growing delay.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use quorate_api::name::ObjectKey;
use quorate_env::clock::Instant;

/// The delay after a first failure; it doubles with every further one.
pub const BACKOFF_INITIAL: Duration = Duration::from_millis(5);
pub const BACKOFF_MAX: Duration = Duration::from_secs(1000);
/// Two passes of one key start at least this far apart, so that a burst of changes costs a few passes, not one each.
pub const PASS_PERIOD: Duration = Duration::from_millis(20);
/// Past passes whose start is remembered; beyond it the old ones are forgotten.
const REMEMBERED: usize = 4096;

#[derive(Debug, Default)]
pub struct Queue {
    ready: VecDeque<ObjectKey>,
    /// Waiting in `ready`, with the time they were added.
    waiting: BTreeMap<ObjectKey, Instant>,
    running: BTreeSet<ObjectKey>,
    /// Added while running: they go round again.
    again: BTreeSet<ObjectKey>,
    later: BTreeSet<(Instant, ObjectKey)>,
    due: BTreeMap<ObjectKey, Instant>,
    failures: BTreeMap<ObjectKey, u32>,
    started: BTreeMap<ObjectKey, Instant>,
}

impl Queue {
    /// Returns whether the key was not waiting already.
    pub fn add(&mut self, key: ObjectKey, now: Instant) -> bool {
        if self.waiting.contains_key(&key) {
            return false;
        }
        if self.running.contains(&key) {
            return self.again.insert(key);
        }
        match self.started.get(&key).map(|started| *started + PASS_PERIOD) {
            Some(earliest) if earliest > now => self.add_at(key, earliest),
            Some(_) | None => self.enter(key, now),
        }
        true
    }

    /// Adds the key at a later time; the earlier of two times counts.
    pub fn add_at(&mut self, key: ObjectKey, at: Instant) {
        match self.due.get(&key).copied() {
            Some(sooner) if sooner <= at => return,
            Some(replaced) => {
                self.later.remove(&(replaced, key.clone()));
            }
            None => {}
        }
        self.due.insert(key.clone(), at);
        self.later.insert((at, key));
    }

    fn enter(&mut self, key: ObjectKey, now: Instant) {
        self.waiting.insert(key.clone(), now);
        self.ready.push_back(key);
    }

    /// Moves what is due into the queue. Returns when to call again.
    pub fn release(&mut self, now: Instant) -> Option<Instant> {
        loop {
            let (at, key) = self.later.first()?.clone();
            if at > now {
                return Some(at);
            }
            self.later.remove(&(at, key.clone()));
            self.due.remove(&key);
            if self.running.contains(&key) {
                self.again.insert(key);
            } else if !self.waiting.contains_key(&key) {
                self.enter(key, now);
            }
        }
    }

    /// The next key, and how long it waited. It counts as running until [`Queue::done`].
    pub fn pop(&mut self, now: Instant) -> Option<(ObjectKey, Duration)> {
        let key = self.ready.pop_front()?;
        let added = self.waiting.remove(&key).unwrap_or(now);
        self.running.insert(key.clone());
        if self.started.len() >= REMEMBERED {
            self.started.retain(|_, started| *started + PASS_PERIOD > now);
        }
        self.started.insert(key.clone(), now);
        Some((key, now.saturating_duration_since(added)))
    }

    /// The pass of a key ended well.
    pub fn done(&mut self, key: &ObjectKey, now: Instant) {
        self.failures.remove(key);
        self.leave(key, now);
    }

    /// The pass of a key failed: it comes back after its delay, which is returned.
    pub fn failed(&mut self, key: &ObjectKey, now: Instant) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        let delay = BACKOFF_INITIAL.saturating_mul(2_u32.saturating_pow(*failures)).min(BACKOFF_MAX);
        *failures = failures.saturating_add(1);
        self.leave(key, now);
        self.add_at(key.clone(), now + delay);
        delay
    }

    fn leave(&mut self, key: &ObjectKey, now: Instant) {
        self.running.remove(key);
        if self.again.remove(key) {
            self.add(key.clone(), now);
        }
    }

    pub fn len(&self) -> usize {
        self.ready.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::cluster(name)
    }

    fn start() -> Instant {
        quorate_env::Clock::real().now()
    }

    #[test]
    fn a_key_waits_once_and_never_runs_twice_at_a_time() {
        let (mut queue, now) = (Queue::default(), start());
        assert!(queue.add(key("a"), now));
        assert!(!queue.add(key("a"), now));
        assert_eq!(queue.pop(now).unwrap().0, key("a"));
        assert!(queue.add(key("a"), now));
        assert!(queue.pop(now).is_none());
        queue.done(&key("a"), now);
        assert!(queue.pop(now).is_none(), "passes of one key keep their distance");
        assert_eq!(queue.release(now), Some(now + PASS_PERIOD));
        assert_eq!(queue.release(now + PASS_PERIOD), None);
        assert_eq!(queue.pop(now + PASS_PERIOD).unwrap().0, key("a"));
    }

    #[test]
    fn failures_double_their_delay_up_to_the_cap() {
        let (mut queue, now) = (Queue::default(), start());
        let delays: Vec<u128> = (0..20).map(|_| queue.failed(&key("a"), now).as_millis()).collect();
        assert_eq!(delays[..4], [5, 10, 20, 40]);
        assert_eq!(delays[19], 1_000_000);
        queue.done(&key("a"), now);
        assert_eq!(queue.failed(&key("a"), now), BACKOFF_INITIAL);
    }

    #[test]
    fn the_earlier_of_two_times_counts() {
        let (mut queue, now) = (Queue::default(), start());
        queue.add_at(key("a"), now + Duration::from_secs(9));
        queue.add_at(key("a"), now + Duration::from_secs(3));
        queue.add_at(key("a"), now + Duration::from_secs(5));
        assert_eq!(queue.release(now), Some(now + Duration::from_secs(3)));
        assert_eq!(queue.release(now + Duration::from_secs(3)), None);
        assert_eq!(queue.len(), 1);
    }
}
