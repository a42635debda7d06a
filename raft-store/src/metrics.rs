//! The store's metrics, registered by their owner.

use std::sync::Arc;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Registry};

/// See the field names; each has its help text below.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) transactions: IntCounter,
    pub(crate) commit_seconds: Histogram,
    pub(crate) fsync_seconds: Histogram,
    pub(crate) entries_per_fsync: Histogram,
    pub(crate) applied_entries: IntCounter,
    pub(crate) revision: IntGauge,
    pub(crate) watchers: IntGauge,
    pub(crate) leader_changes: IntCounter,
    pub(crate) pending: IntGauge,
}

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str| register(&registry, IntCounter::new(name, help));
        let gauge = |name: &str, help: &str| register(&registry, IntGauge::new(name, help));
        let histogram = |name: &str, help: &str, buckets: Vec<f64>| {
            register(&registry, Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets)))
        };
        let seconds = || exponential(0.000_1, 2.0, 16);
        Arc::new(Self {
            transactions: counter("store_transactions_total", "Transactions answered by this member."),
            commit_seconds: histogram("store_commit_seconds", "From commit called to its answer.", seconds()),
            fsync_seconds: histogram("store_log_fsync_seconds", "One synced write of the log.", seconds()),
            entries_per_fsync: histogram(
                "store_log_fsync_entries",
                "Entries in one synced write of the log.",
                exponential(1.0, 2.0, 13),
            ),
            applied_entries: counter("store_applied_entries_total", "Log entries applied."),
            revision: gauge("store_revision", "The newest revision of this member."),
            watchers: gauge("store_watchers", "Open watches."),
            leader_changes: counter("store_leader_changes_total", "Leaders seen after the first."),
            pending: gauge("store_pending_transactions", "Transactions that wait for their answer."),
            registry,
        })
    }

    pub(crate) fn registry(&self) -> Registry {
        self.registry.clone()
    }
}

fn exponential(start: f64, factor: f64, count: usize) -> Vec<f64> {
    (0..count).scan(start, |bound, _| Some(std::mem::replace(bound, *bound * factor))).collect()
}

/// Names and buckets are constants, so a failure is a mistake in this file that any test shows.
#[expect(clippy::expect_used, reason = "constant names, covered by every test that opens a store")]
fn register<M: prometheus::core::Collector + Clone + 'static>(registry: &Registry, metric: prometheus::Result<M>) -> M {
    let metric = metric.expect("metric names and buckets are valid");
    registry.register(Box::new(metric.clone())).expect("metric names are distinct");
    metric
}
