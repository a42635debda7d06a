//! Pending pods: those to be tried now (by priority, then age of entry), those that wait for a time, and those that
//! wait for a change. Pure: time comes in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_env::clock::Instant;

use crate::pod::PodKey;

/// Upstream's `podInitialBackoffSeconds` and `podMaxBackoffSeconds`.
pub const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
pub const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// A pod is tried again after this even if nothing changed (`podMaxInUnschedulablePodsDuration`).
pub const MAX_UNSCHEDULABLE: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Active(Order),
    Backoff { until: Instant },
    Unschedulable { since: Instant },
}

/// Highest priority first, then first come.
type Order = (std::cmp::Reverse<i64>, u64, PodKey);

#[derive(Clone, Debug)]
struct Entry {
    priority: i64,
    attempts: u32,
    place: Place,
}

#[derive(Clone, Debug, Default)]
pub struct Queue {
    entries: BTreeMap<PodKey, Entry>,
    active: BTreeSet<Order>,
    arrivals: u64,
}

impl Queue {
    /// A pending pod has appeared or changed: it is tried at once, unless it is backing off.
    pub fn put(&mut self, key: PodKey, priority: i64) {
        match self.entries.get_mut(&key) {
            Some(entry) if matches!(entry.place, Place::Backoff { .. }) => entry.priority = priority,
            Some(_) | None => {
                let attempts = self.remove(&key).map_or(0, |entry| entry.attempts);
                self.activate(key, priority, attempts);
            }
        }
    }

    fn activate(&mut self, key: PodKey, priority: i64, attempts: u32) {
        self.arrivals += 1;
        let order = (std::cmp::Reverse(priority), self.arrivals, key.clone());
        self.active.insert(order.clone());
        self.entries.insert(key, Entry { priority, attempts, place: Place::Active(order) });
    }

    /// The pod is bound, gone or no longer ours.
    pub fn forget(&mut self, key: &PodKey) {
        self.remove(key);
    }

    fn remove(&mut self, key: &PodKey) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if let Place::Active(order) = &entry.place {
            self.active.remove(order);
        }
        Some(entry)
    }

    /// The next pod to try; it is out of the queue until it is put back.
    pub fn pop(&mut self) -> Option<(PodKey, u32)> {
        let (_, _, key) = self.active.pop_first()?;
        let entry = self.entries.remove(&key)?;
        Some((key, entry.attempts + 1))
    }

    /// Nothing fits: wait for a change.
    pub fn put_unschedulable(&mut self, key: PodKey, priority: i64, attempts: u32, now: Instant) {
        self.remove(&key);
        self.entries.insert(key, Entry { priority, attempts, place: Place::Unschedulable { since: now } });
    }

    /// An attempt failed for a passing reason (a lost race, an error): wait for a time.
    pub fn put_backoff(&mut self, key: PodKey, priority: i64, attempts: u32, now: Instant) {
        self.remove(&key);
        let until = now + backoff(attempts);
        self.entries.insert(key, Entry { priority, attempts, place: Place::Backoff { until } });
    }

    /// Something that could help has changed: what waits for a change is tried again, each pod after its back-off.
    pub fn wake_unschedulable(&mut self, now: Instant) {
        for entry in self.entries.values_mut() {
            if let Place::Unschedulable { since } = entry.place {
                entry.place = Place::Backoff { until: (since + backoff(entry.attempts)).max(now) };
            }
        }
        self.release(now);
    }

    /// Moves what has waited long enough to the front; returns when to ask again.
    pub fn release(&mut self, now: Instant) -> Option<Instant> {
        let due = |entry: &Entry| match entry.place {
            Place::Active(_) => None,
            Place::Backoff { until } => Some(until),
            Place::Unschedulable { since } => Some(since + MAX_UNSCHEDULABLE),
        };
        let ready: Vec<PodKey> = self
            .entries
            .iter()
            .filter(|(_, entry)| due(entry).is_some_and(|at| at <= now))
            .map(|(key, _)| key.clone())
            .collect();
        for key in ready {
            if let Some(entry) = self.remove(&key) {
                self.activate(key, entry.priority, entry.attempts);
            }
        }
        self.entries.values().filter_map(due).min()
    }

    /// Pods in the queue: to be tried, backing off, waiting for a change.
    pub fn lengths(&self) -> (usize, usize, usize) {
        let backing_off = self.entries.values().filter(|entry| matches!(entry.place, Place::Backoff { .. })).count();
        (self.active.len(), backing_off, self.entries.len() - self.active.len() - backing_off)
    }
}

fn backoff(attempts: u32) -> Duration {
    INITIAL_BACKOFF.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(MAX_BACKOFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> PodKey {
        ("default".to_owned(), name.to_owned())
    }

    fn now() -> Instant {
        quorate_env::Clock::real().now()
    }

    #[test]
    fn priority_first_then_arrival() {
        let mut queue = Queue::default();
        for (name, priority) in [("a", 0), ("b", 5), ("c", 0)] {
            queue.put(key(name), priority);
        }
        let order: Vec<String> = std::iter::from_fn(|| queue.pop()).map(|(key, _)| key.1).collect();
        assert_eq!(order, ["b", "a", "c"]);
    }

    #[test]
    fn a_change_wakes_after_the_backoff() {
        let (mut queue, start) = (Queue::default(), now());
        queue.put_unschedulable(key("a"), 0, 3, start);
        queue.wake_unschedulable(start);
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.release(start), Some(start + Duration::from_secs(4)));
        assert_eq!(queue.release(start + Duration::from_secs(4)), None);
        assert_eq!(queue.pop(), Some((key("a"), 4)));
    }

    #[test]
    fn waiting_ends_by_itself() {
        let (mut queue, start) = (Queue::default(), now());
        queue.put_unschedulable(key("a"), 0, 1, start);
        assert_eq!(queue.release(start), Some(start + MAX_UNSCHEDULABLE));
        queue.release(start + MAX_UNSCHEDULABLE);
        assert_eq!(queue.lengths(), (1, 0, 0));
    }

    #[test]
    fn a_pod_is_in_one_place() {
        let (mut queue, start) = (Queue::default(), now());
        queue.put(key("a"), 0);
        queue.put(key("a"), 7);
        queue.put_backoff(key("a"), 7, 1, start);
        queue.put(key("a"), 8);
        assert_eq!(queue.lengths(), (0, 1, 0));
        queue.forget(&key("a"));
        assert_eq!(queue.lengths(), (0, 0, 0));
    }
}
