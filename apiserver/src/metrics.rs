//! The API server's own metrics, under upstream's names; the registry they are in is shared with the other parts.

use prometheus::{Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

const REQUEST_LABELS: [&str; 8] =
    ["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"];
const BUCKETS: [f64; 18] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    pub(crate) requests: IntCounterVec,
    pub(crate) latency: HistogramVec,
    pub(crate) inflight: IntGaugeVec,
    /// Transactions that lost a race and ran again, by verb.
    pub(crate) retries: IntCounterVec,
}

/// Two owners used one name.
#[derive(Debug, thiserror::Error)]
#[error("registering metrics")]
pub struct MetricsError(#[from] prometheus::Error);

impl Metrics {
    pub fn register(registry: Registry) -> Result<Self, MetricsError> {
        let with_code: Vec<&str> = REQUEST_LABELS.into_iter().chain(["code"]).collect();
        let requests = IntCounterVec::new(
            Opts::new("apiserver_request_total", "Requests, by verb, resource and response code."),
            &with_code,
        )?;
        let latency = HistogramVec::new(
            HistogramOpts::new("apiserver_request_duration_seconds", "Time to answer a request that is not a watch.")
                .buckets(BUCKETS.to_vec()),
            &REQUEST_LABELS,
        )?;
        let inflight = IntGaugeVec::new(
            Opts::new("apiserver_current_inflight_requests", "Requests being handled, by kind."),
            &["request_kind"],
        )?;
        let retries = IntCounterVec::new(
            Opts::new("quorate_apiserver_transaction_retries_total", "Writes that lost a race and ran again."),
            &["verb"],
        )?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(latency.clone()))?;
        registry.register(Box::new(inflight.clone()))?;
        registry.register(Box::new(retries.clone()))?;
        Ok(Self { registry, requests, latency, inflight, retries })
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// All metrics of the process, in Prometheus' text format.
    pub(crate) fn text(&self, store: &Registry) -> Result<Vec<u8>, MetricsError> {
        let mut out = Vec::new();
        let encoder = TextEncoder::new();
        encoder.encode(&self.registry.gather(), &mut out)?;
        encoder.encode(&store.gather(), &mut out)?;
        Ok(out)
    }
}
