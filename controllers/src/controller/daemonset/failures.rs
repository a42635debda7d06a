//! A daemon that fails at once would be replaced without end: each failure on a node makes the next one wait longer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_env::clock::Instant;

use super::place::node_of;
use crate::projection::{DaemonSet, Pod, Projected};

/// The first wait, and the longest; it doubles with each failure in between.
const INITIAL: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(15 * 60);
/// After this long without a failure the waits begin anew.
const FORGOTTEN: Duration = MAX.saturating_mul(2);
/// Nodes whose failures are remembered; the oldest ones are forgotten beyond it.
const REMEMBERED: usize = 65_536;

/// The set's uid, the generation it has acted on, and the node: a new template starts anew.
type Key = (String, i64, String);

#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<Key, Failure>);

#[derive(Debug)]
struct Failure {
    /// The pod that was allowed to be replaced last: another pass before it is gone counts no second time.
    uid: String,
    at: Instant,
    wait: Duration,
}

impl Failures {
    /// The nodes whose failed pod has to wait. The others may lose theirs now, and that counts.
    pub(super) fn waits(&mut self, set: &DaemonSet, pods: &[Arc<Pod>], now: Instant) -> BTreeMap<String, Duration> {
        let mut waits = BTreeMap::new();
        let failed = pods
            .iter()
            .filter(|pod| pod.status.phase == "Failed" && !pod.is_deleting() && pod.is_controlled_by(set.uid()));
        for pod in failed {
            let node = node_of(pod);
            let key = (set.uid().to_owned(), set.status.observed_generation, node.clone());
            if let Some(left) = self.judge(key, pod.uid(), now) {
                waits.insert(node, left);
            }
        }
        waits
    }

    fn judge(&mut self, key: Key, uid: &str, now: Instant) -> Option<Duration> {
        let known = self.0.get(&key).filter(|known| known.at + FORGOTTEN > now);
        let wait = match known {
            None => INITIAL,
            Some(known) if known.uid == uid => return None,
            Some(known) if known.at + known.wait > now => return Some(known.at + known.wait - now),
            Some(known) => known.wait.saturating_mul(2).min(MAX),
        };
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, known| known.at + FORGOTTEN > now);
            if self.0.len() >= REMEMBERED {
                self.0.clear();
            }
        }
        self.0.insert(key, Failure { uid: uid.to_owned(), at: now, wait });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_twice_as_long() {
        let (mut failures, mut now) = (Failures::default(), quorate_env::Clock::real().now());
        let key = || ("set".to_owned(), 1, "n".to_owned());
        assert_eq!(failures.judge(key(), "p0", now), None);
        assert_eq!(failures.judge(key(), "p0", now), None, "the same one is still going");
        for (index, wait) in [1, 2, 4, 8].into_iter().enumerate() {
            let uid = format!("p{}", index + 1);
            assert_eq!(failures.judge(key(), &uid, now), Some(Duration::from_secs(wait)));
            now += Duration::from_secs(wait);
            assert_eq!(failures.judge(key(), &uid, now), None);
        }
        assert_eq!(failures.judge(("set".to_owned(), 2, "n".to_owned()), "q", now), None, "another template");
        for index in 0..20 {
            now += MAX;
            assert_eq!(failures.judge(key(), &format!("late{index}"), now), None);
        }
        assert_eq!(failures.judge(key(), "last", now), Some(MAX));
        assert_eq!(failures.judge(key(), "fresh", now + FORGOTTEN), None);
        assert_eq!(failures.judge(key(), "next", now + FORGOTTEN), Some(INITIAL));
    }
}
