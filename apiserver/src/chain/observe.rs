//! What is measured and logged of a request.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use prometheus::IntGauge;
use tracing::Span;

use super::stages::Stages;
use crate::body::Body;
use crate::call::Call;
use crate::metrics::Metrics;
use crate::route::RequestInfo;

/// Slower requests are logged with what they were and where the time went.
const SLOW_REQUEST: Duration = Duration::from_millis(500);
const COMPONENT: &str = "apiserver";

/// Counts a request from its beginning until its body has been sent, or nobody wants it any more.
struct InFlight(Vec<IntGauge>);

impl InFlight {
    fn of(gauges: Vec<IntGauge>) -> Self {
        for gauge in &gauges {
            gauge.inc();
        }
        Self(gauges)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        for gauge in &self.0 {
            gauge.dec();
        }
    }
}

/// One request under observation. Dropped before its end it counts as aborted.
pub(crate) struct Observation {
    metrics: Metrics,
    stages: Arc<Stages>,
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    dry_run: &'static str,
    long_running: bool,
    uri: String,
    audit_id: String,
    /// Taken over by the body of the answer.
    in_flight: Option<InFlight>,
}

impl Observation {
    pub(crate) fn begin(call: &Call) -> Self {
        let (info, server) = (&call.info, &call.server);
        let mut observation = Self {
            metrics: server.metrics().clone(),
            stages: Arc::clone(&call.stages),
            verb: metric_verb(info),
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            scope: "",
            dry_run: "",
            long_running: super::is_long_running(info),
            uri: loggable(call),
            audit_id: call.audit_id.clone(),
            in_flight: None,
        };
        // Only rows that exist become label values: what callers make up must not grow the metrics.
        if server.registry().row(&info.group_version(), &info.resource).is_some() {
            observation.group.clone_from(&info.group);
            observation.version.clone_from(&info.version);
            observation.resource.clone_from(&info.resource);
            observation.scope = scope(info);
            if call.query.has("dryRun") {
                observation.dry_run = "All";
            }
            if known_subresource(&info.subresource) {
                observation.subresource.clone_from(&info.subresource);
            }
        }
        observation.in_flight = Some(InFlight::of(observation.gauges(info)));
        observation
    }

    fn gauges(&self, info: &RequestInfo) -> Vec<IntGauge> {
        let kind = if self.long_running {
            "longRunning"
        } else if super::is_read(info) {
            "readOnly"
        } else {
            "mutating"
        };
        let mut gauges = vec![self.metrics.inflight.with_label_values(&[kind])];
        if self.long_running {
            let [group, version, resource, subresource] = self.what();
            let labels = [self.verb, group, version, resource, subresource, self.scope, COMPONENT];
            gauges.push(self.metrics.long_running.with_label_values(&labels));
        }
        gauges
    }

    fn what(&self) -> [&str; 4] {
        [&self.group, &self.version, &self.resource, &self.subresource]
    }

    pub(crate) fn span(&self) -> Span {
        tracing::info_span!("request", audit_id = self.audit_id, verb = self.verb, uri = self.uri)
    }

    /// Counts the answer. Its body may keep streaming after this, and holds the request's place among those in flight.
    pub(crate) fn end(mut self, response: Response<Body>) -> Response<Body> {
        let took = self.stages.took();
        let code = response.status().as_u16();
        let [group, version, resource, subresource] = self.what();
        let labels = [self.verb, self.dry_run, group, version, resource, subresource, self.scope, COMPONENT];
        let code_text = code.to_string();
        let [verb, dry_run, .., component] = labels;
        self.metrics
            .requests
            .with_label_values(&[
                verb,
                dry_run,
                group,
                version,
                resource,
                subresource,
                self.scope,
                component,
                &code_text,
            ])
            .inc();
        if !self.long_running {
            self.metrics.latency.with_label_values(&labels).observe(took.as_secs_f64());
            if took >= SLOW_REQUEST {
                tracing::warn!(
                    audit_id = self.audit_id,
                    verb = self.verb,
                    uri = self.uri,
                    code,
                    took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                    stages = self.stages.describe(),
                    "slow request"
                );
            }
        }
        tracing::debug!(audit_id = self.audit_id, verb = self.verb, uri = self.uri, code, ?took, "request");
        match self.in_flight.take() {
            Some(in_flight) => response.map(|body| body.holding(in_flight)),
            None => response,
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        if self.in_flight.is_none() {
            return;
        }
        let [group, version, resource, subresource] = self.what();
        let labels = [self.verb, group, version, resource, subresource, self.scope];
        self.metrics.aborted.with_label_values(&labels).inc();
        tracing::debug!(
            audit_id = self.audit_id,
            verb = self.verb,
            uri = self.uri,
            stages = self.stages.describe(),
            "the caller went away"
        );
    }
}

/// What is logged of the URI: a command line may hold a password.
fn loggable(call: &Call) -> String {
    let uri = &call.parts.uri;
    if call.info.subresource == "exec" { uri.path().to_owned() } else { uri.to_string() }
}

/// As upstream's metrics name it: streams that take over the connection are one verb whatever their method.
fn metric_verb(info: &RequestInfo) -> &'static str {
    if info.is_resource && matches!(info.subresource.as_str(), "attach" | "exec" | "portforward" | "proxy") {
        return "CONNECT";
    }
    match info.verb {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "OTHER",
    }
}

fn scope(info: &RequestInfo) -> &'static str {
    if !info.name.is_empty() {
        "resource"
    } else if info.namespace.is_empty() {
        "cluster"
    } else {
        "namespace"
    }
}

fn known_subresource(name: &str) -> bool {
    matches!(
        name,
        "status"
            | "scale"
            | "binding"
            | "eviction"
            | "finalize"
            | "approval"
            | "log"
            | "exec"
            | "attach"
            | "portforward"
            | "proxy"
            | "token"
            | "ephemeralcontainers"
            | "resize"
    )
}
