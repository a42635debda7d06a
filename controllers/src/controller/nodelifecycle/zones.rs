//! How fast nodes may lose their pods: so many a minute in each zone, and none where the trouble looks like the zone's
//! own, since pods that may well still run have nowhere better to go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_env::clock::Instant;

use super::is_ready;
use crate::projection::{Node, Projected};

/// Time between two nodes of a zone (upstream's `--node-eviction-rate` 0.1).
const PERIOD: Duration = Duration::from_secs(10);
/// The same in a large zone of which much is not ready (`--secondary-node-eviction-rate` 0.01).
const REDUCED_PERIOD: Duration = Duration::from_secs(100);
/// More nodes than this are a large zone (`--large-cluster-size-threshold`).
const LARGE_ZONE: usize = 50;
/// From this share of nodes on, in percent, much is not ready (`--unhealthy-zone-threshold`) …
const UNHEALTHY_PERCENT: usize = 55;
/// … if it is more nodes than this.
const FEW: usize = 2;
/// Nodes with this label do not count.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// Whether a node that is not ready may be tainted so that its pods go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    Allowed,
    After(Duration),
    /// Not while its zone is as it is.
    Held,
}

#[derive(Debug, Default)]
pub(super) struct Zones {
    /// When a node of the zone was last given up.
    last: BTreeMap<(String, String), Instant>,
    /// Nodes that were given up and do not have their taint yet.
    given_up: BTreeSet<String>,
}

impl Zones {
    pub(super) fn eviction(&mut self, node: &Node, all: &[Arc<Node>], now: Instant) -> Eviction {
        if self.given_up.contains(node.name()) {
            return Eviction::Allowed;
        }
        let zone = node.failure_domain();
        let Some(period) = period(all.iter().filter(|own| own.failure_domain() == zone)) else {
            return Eviction::Held;
        };
        let next = self.last.get(&zone).map_or(now, |last| *last + period);
        if next > now {
            return Eviction::After(next - now);
        }
        self.last.insert(zone, now);
        self.given_up.insert(node.name().to_owned());
        Eviction::Allowed
    }

    /// The node has its taint, or needs none any more.
    pub(super) fn settle(&mut self, node: &str) {
        self.given_up.remove(node);
    }
}

/// The time between two evictions in a zone of these nodes; none if there may be none.
fn period<'a>(zone: impl Iterator<Item = &'a Arc<Node>>) -> Option<Duration> {
    let counted = zone.filter(|node| !node.labels().contains_key(EXCLUDED));
    let (ready, unready): (Vec<_>, Vec<_>) = counted.partition(|node| is_ready(node));
    let size = ready.len() + unready.len();
    let much = unready.len() > FEW && unready.len() * 100 >= size * UNHEALTHY_PERCENT;
    match (ready.is_empty(), much) {
        (false, true) => (size > LARGE_ZONE).then_some(REDUCED_PERIOD),
        // A zone without any ready node is on fire as a whole: its pods belong elsewhere.
        (true, _) | (_, false) => Some(PERIOD),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nodes(zone: &str, count: usize, unready: usize) -> Vec<Arc<Node>> {
        let node = |index: usize| {
            let status = if index < unready { "Unknown" } else { "True" };
            let labels = json!({"topology.kubernetes.io/zone": zone});
            Arc::new(
                serde_json::from_value(json!({
                    "metadata": {"name": format!("{zone}{index}"), "labels": labels},
                    "status": {"conditions": [{"type": "Ready", "status": status}]},
                }))
                .unwrap(),
            )
        };
        (0..count).map(node).collect()
    }

    fn now() -> Instant {
        quorate_env::Clock::real().now()
    }

    #[test]
    fn one_node_of_a_zone_at_a_time() {
        let (mut zones, start) = (Zones::default(), now());
        let all = [nodes("a", 5, 2), nodes("b", 2, 1)].concat();
        assert_eq!(zones.eviction(&all[0], &all, start), Eviction::Allowed);
        assert_eq!(zones.eviction(&all[1], &all, start), Eviction::After(PERIOD));
        assert_eq!(zones.eviction(&all[0], &all, start), Eviction::Allowed, "until it has its taint");
        assert_eq!(zones.eviction(&all[5], &all, start), Eviction::Allowed, "another zone");
        zones.settle("a0");
        assert_eq!(zones.eviction(&all[0], &all, start), Eviction::After(PERIOD));
        assert_eq!(zones.eviction(&all[1], &all, start + PERIOD), Eviction::Allowed);
    }

    #[test]
    fn much_of_a_zone_is_slowed_down_or_held() {
        let judged = |count, unready| {
            let (mut zones, all) = (Zones::default(), nodes("a", count, unready));
            let first = zones.eviction(&all[0], &all, now());
            (first, period(all.iter()))
        };
        assert_eq!(judged(3, 2), (Eviction::Allowed, Some(PERIOD)), "few");
        assert_eq!(judged(20, 10), (Eviction::Allowed, Some(PERIOD)), "half");
        assert_eq!(judged(20, 11), (Eviction::Held, None));
        assert_eq!(judged(60, 33), (Eviction::Allowed, Some(REDUCED_PERIOD)));
        assert_eq!(judged(20, 20), (Eviction::Allowed, Some(PERIOD)), "the whole zone");
    }

    #[test]
    fn excluded_nodes_do_not_count() {
        let (mut zones, mut all) = (Zones::default(), nodes("a", 20, 11));
        assert_eq!(zones.eviction(&all[1], &all, now()), Eviction::Held, "11 of 20");
        let excluded = Arc::make_mut(&mut all[0]);
        excluded.metadata.labels.get_or_insert_default().insert(EXCLUDED.to_owned(), String::new());
        assert_eq!(zones.eviction(&all[1], &all, now()), Eviction::Allowed, "10 of 19");
    }
}
