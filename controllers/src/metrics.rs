//! Figures of the work queues under upstream's names.

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

#[derive(Clone, Debug)]
pub struct Metrics {
    pub depth: IntGaugeVec,
    pub adds: IntCounterVec,
    pub retries: IntCounterVec,
    /// Seconds a key waited.
    pub queue_duration: HistogramVec,
    /// Seconds a pass took.
    pub work_duration: HistogramVec,
}

impl Metrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let buckets = prometheus::exponential_buckets(0.000_01, 10.0, 8)?;
        let seconds = |name: &str, help: &str| {
            HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.clone()), &["name"])
        };
        let metrics = Self {
            depth: IntGaugeVec::new(Opts::new("workqueue_depth", "Keys that wait"), &["name"])?,
            adds: IntCounterVec::new(Opts::new("workqueue_adds_total", "Keys that were added"), &["name"])?,
            retries: IntCounterVec::new(Opts::new("workqueue_retries_total", "Passes that failed"), &["name"])?,
            queue_duration: seconds("workqueue_queue_duration_seconds", "How long keys waited")?,
            work_duration: seconds("workqueue_work_duration_seconds", "How long passes took")?,
        };
        registry.register(Box::new(metrics.depth.clone()))?;
        registry.register(Box::new(metrics.adds.clone()))?;
        registry.register(Box::new(metrics.retries.clone()))?;
        registry.register(Box::new(metrics.queue_duration.clone()))?;
        registry.register(Box::new(metrics.work_duration.clone()))?;
        Ok(metrics)
    }
}
