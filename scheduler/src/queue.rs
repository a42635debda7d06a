//! Pending pods: those to be tried now (by priority, then age of entry), those that wait for a time, and those that
//! wait for a change. Pure: time comes in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_env::clock::Instant;

use crate::filter::RuleSet;
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
    Unschedulable { since: Instant, kept_by: RuleSet },
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
    /// Those that wait, by when they are tried again whatever happens.
    due: BTreeSet<(Instant, PodKey)>,
    /// Those that wait for a change, by the rules that kept them.
    unschedulable: BTreeMap<RuleSet, BTreeSet<PodKey>>,
    backing_off: usize,
    arrivals: u64,
}

impl Place {
    fn due(&self) -> Option<Instant> {
        match self {
            Self::Active(_) => None,
            Self::Backoff { until } => Some(*until),
            Self::Unschedulable { since, .. } => Some(*since + MAX_UNSCHEDULABLE),
        }
    }
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
        self.enter(key, Entry { priority, attempts, place: Place::Active(order) });
    }

    fn enter(&mut self, key: PodKey, entry: Entry) {
        if let Some(due) = entry.place.due() {
            self.due.insert((due, key.clone()));
        }
        match &entry.place {
            Place::Active(order) => {
                self.active.insert(order.clone());
            }
            Place::Backoff { .. } => self.backing_off += 1,
            Place::Unschedulable { kept_by, .. } => {
                self.unschedulable.entry(*kept_by).or_default().insert(key.clone());
            }
        }
        self.entries.insert(key, entry);
    }

    /// The pod is bound, gone or no longer ours.
    pub fn forget(&mut self, key: &PodKey) {
        self.remove(key);
    }

    fn remove(&mut self, key: &PodKey) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if let Some(due) = entry.place.due() {
            self.due.remove(&(due, key.clone()));
        }
        match &entry.place {
            Place::Active(order) => {
                self.active.remove(order);
            }
            Place::Backoff { .. } => self.backing_off -= 1,
            Place::Unschedulable { kept_by, .. } => {
                if let Some(keys) = self.unschedulable.get_mut(kept_by) {
                    keys.remove(key);
                    if keys.is_empty() {
                        self.unschedulable.remove(kept_by);
                    }
                }
            }
        }
        Some(entry)
    }

    /// The next pod to try; it is out of the queue until it is put back.
    pub fn pop(&mut self) -> Option<(PodKey, u32)> {
        let (_, _, key) = self.active.first()?.clone();
        let entry = self.remove(&key)?;
        Some((key, entry.attempts + 1))
    }

    /// Nothing fits: wait for a change that may turn one of the rules.
    pub fn put_unschedulable(&mut self, key: PodKey, priority: i64, attempts: u32, kept_by: RuleSet, now: Instant) {
        self.remove(&key);
        self.enter(key, Entry { priority, attempts, place: Place::Unschedulable { since: now, kept_by } });
    }

    /// An attempt failed for a passing reason (a lost race, an error): wait for a time.
    pub fn put_backoff(&mut self, key: PodKey, priority: i64, attempts: u32, now: Instant) {
        self.remove(&key);
        let until = now + backoff(attempts);
        self.enter(key, Entry { priority, attempts, place: Place::Backoff { until } });
    }

    /// Something has changed that may turn these rules: whom they kept is tried again, each pod after its back-off.
    pub fn wake(&mut self, rules: RuleSet, now: Instant) {
        let kept = self.unschedulable.iter().filter(|(kept_by, _)| kept_by.intersects(rules));
        let woken: Vec<PodKey> = kept.flat_map(|(_, keys)| keys.iter().cloned()).collect();
        for key in woken {
            let Some(entry) = self.remove(&key) else { continue };
            let Place::Unschedulable { since, .. } = entry.place else { continue };
            let until = since + backoff(entry.attempts);
            if until <= now {
                self.activate(key, entry.priority, entry.attempts);
            } else {
                self.enter(key, Entry { place: Place::Backoff { until }, ..entry });
            }
        }
    }

    /// Moves what has waited long enough to the front; returns when to ask again.
    pub fn release(&mut self, now: Instant) -> Option<Instant> {
        loop {
            let (at, key) = self.due.first()?.clone();
            if at > now {
                return Some(at);
            }
            if let Some(entry) = self.remove(&key) {
                self.activate(key, entry.priority, entry.attempts);
            }
        }
    }

    pub fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Pods in the queue: to be tried, backing off, waiting for a change.
    pub fn lengths(&self) -> (usize, usize, usize) {
        (self.active.len(), self.backing_off, self.entries.len() - self.active.len() - self.backing_off)
    }
}

fn backoff(attempts: u32) -> Duration {
    INITIAL_BACKOFF.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(MAX_BACKOFF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Rule;

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
        queue.put_unschedulable(key("a"), 0, 3, RuleSet::ALL, start);
        queue.wake(RuleSet::ALL, start);
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.release(start), Some(start + Duration::from_secs(4)));
        assert_eq!(queue.release(start + Duration::from_secs(4)), None);
        assert_eq!(queue.pop(), Some((key("a"), 4)));
    }

    #[test]
    fn waiting_ends_by_itself() {
        let (mut queue, start) = (Queue::default(), now());
        queue.put_unschedulable(key("a"), 0, 1, RuleSet::ALL, start);
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

    #[test]
    fn only_what_a_change_may_help_is_woken() {
        let (mut queue, start) = (Queue::default(), now());
        let later = start + MAX_BACKOFF;
        queue.put_unschedulable(key("ports"), 0, 1, RuleSet::of(&[Rule::NodePorts]), start);
        queue.put_unschedulable(key("affinity"), 0, 1, RuleSet::of(&[Rule::InterPod, Rule::Taints]), start);
        queue.wake(RuleSet::NEIGHBOURS, later);
        assert_eq!(queue.pop(), Some((key("affinity"), 2)));
        assert_eq!((queue.pop(), queue.lengths()), (None, (0, 0, 1)));
        queue.wake(RuleSet::FREED, later);
        assert_eq!(queue.pop(), Some((key("ports"), 2)));
        assert_eq!(queue.lengths(), (0, 0, 0));
    }

    #[test]
    fn every_place_is_counted() {
        let (mut queue, start) = (Queue::default(), now());
        queue.put(key("a"), 0);
        queue.put_backoff(key("b"), 0, 1, start);
        queue.put_unschedulable(key("c"), 0, 1, RuleSet::ALL, start);
        queue.put_unschedulable(key("d"), 0, 1, RuleSet::of(&[Rule::NodePorts]), start);
        assert_eq!(queue.lengths(), (1, 1, 2));
        queue.wake(RuleSet::of(&[Rule::Taints]), start);
        assert_eq!(queue.lengths(), (1, 2, 1));
        for name in ["a", "b", "c", "d"] {
            queue.forget(&key(name));
        }
        assert_eq!((queue.lengths(), queue.release(start + MAX_UNSCHEDULABLE)), ((0, 0, 0), None));
    }
}
