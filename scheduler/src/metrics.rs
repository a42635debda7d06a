//! Figures under upstream's names.

use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGaugeVec, Opts, Registry};

#[derive(Clone, Debug)]
pub struct Metrics {
    /// `result`: scheduled, unschedulable or error.
    pub attempts: IntCounterVec,
    /// `queue`: active, backoff or unschedulable.
    pub pending: IntGaugeVec,
    /// Seconds that the pure decision took.
    pub duration: Histogram,
}

impl Metrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let attempts = Opts::new("scheduler_schedule_attempts_total", "Attempts to schedule pods, by result");
        let pending = Opts::new("scheduler_pending_pods", "Pending pods, by queue");
        let duration = HistogramOpts::new("scheduler_scheduling_algorithm_duration_seconds", "Time to choose a node")
            .buckets(prometheus::exponential_buckets(0.000_01, 4.0, 10)?);
        let metrics = Self {
            attempts: IntCounterVec::new(attempts, &["result"])?,
            pending: IntGaugeVec::new(pending, &["queue"])?,
            duration: Histogram::with_opts(duration)?,
        };
        registry.register(Box::new(metrics.attempts.clone()))?;
        registry.register(Box::new(metrics.pending.clone()))?;
        registry.register(Box::new(metrics.duration.clone()))?;
        Ok(metrics)
    }
}
