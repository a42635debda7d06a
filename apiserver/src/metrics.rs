//! The API server's own metrics, under upstream's names; the registry they are in is shared with the other parts.

use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

const REQUEST_LABELS: [&str; 8] =
    ["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"];
const LONG_RUNNING_LABELS: [&str; 7] = ["verb", "group", "version", "resource", "subresource", "scope", "component"];
const ABORT_LABELS: [&str; 6] = ["verb", "group", "version", "resource", "subresource", "scope"];
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
    /// Requests that live as long as their client wants, by what they are about.
    pub(crate) long_running: IntGaugeVec,
    /// Requests whose caller went away before the answer.
    pub(crate) aborted: IntCounterVec,
    /// Requests refused because too many were in flight, by kind.
    pub(crate) rejected: IntCounterVec,
    /// Requests judged by a view that could not be waited for.
    pub(crate) unheard: IntCounter,
    /// Tasks of this process that panicked.
    panics: IntGauge,
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
        let long_running = IntGaugeVec::new(
            Opts::new("apiserver_longrunning_requests", "Watches, logs and streams being served."),
            &LONG_RUNNING_LABELS,
        )?;
        let aborted = IntCounterVec::new(
            Opts::new("apiserver_request_aborts_total", "Requests whose caller went away before the answer."),
            &ABORT_LABELS,
        )?;
        let rejected = IntCounterVec::new(
            Opts::new("apiserver_dropped_requests_total", "Requests answered 429 because too many were in flight."),
            &["request_kind"],
        )?;
        let unheard = IntCounter::new(
            "quorate_apiserver_view_waits_refused_total",
            "Requests judged by a view that had too many waiting for it.",
        )?;
        let panics = IntGauge::new("quorate_task_panics_total", "Tasks of this process that panicked.")?;
        registry.register(Box::new(long_running.clone()))?;
        registry.register(Box::new(aborted.clone()))?;
        registry.register(Box::new(rejected.clone()))?;
        registry.register(Box::new(unheard.clone()))?;
        registry.register(Box::new(panics.clone()))?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(latency.clone()))?;
        registry.register(Box::new(inflight.clone()))?;
        registry.register(Box::new(retries.clone()))?;
        Ok(Self { registry, requests, latency, inflight, retries, long_running, aborted, rejected, unheard, panics })
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// All metrics of the process, in Prometheus' text format.
    pub(crate) fn text(&self, store: &Registry) -> Result<Vec<u8>, MetricsError> {
        self.panics.set(i64::try_from(quorate_env::scope::panics()).unwrap_or(i64::MAX));
        let mut out = Vec::new();
        let encoder = TextEncoder::new();
        encoder.encode(&self.registry.gather(), &mut out)?;
        encoder.encode(&store.gather(), &mut out)?;
        Ok(out)
    }
}
