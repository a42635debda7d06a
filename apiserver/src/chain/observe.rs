//! What is measured and logged of a request.

use std::time::Duration;

use http::Response;
use http::request::Parts;
use prometheus::IntGauge;
use quorate_env::clock::Instant;
use tracing::Span;

use crate::body::Body;
use crate::route::RequestInfo;
use crate::server::Server;

/// Slower requests are logged with what they were.
const SLOW_REQUEST: Duration = Duration::from_millis(500);

/// Counts a request for as long as it is being handled, however it ends.
struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// One request under observation.
pub(crate) struct Observation {
    start: Instant,
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
    _in_flight: InFlight,
}

impl Observation {
    pub(crate) fn begin(server: &Server, info: &RequestInfo, parts: &Parts, audit_id: &str) -> Self {
        let long_running = super::is_long_running(info);
        let mut observation = Self {
            start: server.env().clock.now(),
            verb: metric_verb(info.verb),
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            scope: "",
            dry_run: "",
            long_running,
            uri: loggable(info, parts),
            audit_id: audit_id.to_owned(),
            _in_flight: InFlight(in_flight(server, info, long_running)),
        };
        // Only rows that exist become label values: what callers make up must not grow the metrics.
        if server.registry().row(&info.group_version(), &info.resource).is_some() {
            observation.group.clone_from(&info.group);
            observation.version.clone_from(&info.version);
            observation.resource.clone_from(&info.resource);
            observation.scope = scope(info);
            if parts.uri.query().is_some_and(|query| query.contains("dryRun=")) {
                observation.dry_run = "All";
            }
            if known_subresource(&info.subresource) {
                observation.subresource.clone_from(&info.subresource);
            }
        }
        observation
    }

    pub(crate) fn span(&self) -> Span {
        tracing::debug_span!("request", audit_id = self.audit_id, verb = self.verb, uri = self.uri)
    }

    /// Counts the answer. The body of a long-running answer keeps streaming after this.
    pub(crate) fn end(self, server: &Server, response: Response<Body>) -> Response<Body> {
        let took = server.env().clock.now().duration_since(self.start);
        let code = response.status().as_u16();
        let labels = [
            self.verb,
            self.dry_run,
            &self.group,
            &self.version,
            &self.resource,
            &self.subresource,
            self.scope,
            "apiserver",
        ];
        let metrics = server.metrics();
        let code_text = code.to_string();
        let [verb, dry_run, group, version, resource, subresource, scope, component] = labels;
        metrics
            .requests
            .with_label_values(&[verb, dry_run, group, version, resource, subresource, scope, component, &code_text])
            .inc();
        if !self.long_running {
            metrics.latency.with_label_values(&labels).observe(took.as_secs_f64());
            if took >= SLOW_REQUEST {
                tracing::warn!(
                    audit_id = self.audit_id,
                    verb = self.verb,
                    uri = self.uri,
                    code,
                    took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                    "slow request"
                );
            }
        }
        tracing::debug!(audit_id = self.audit_id, verb = self.verb, uri = self.uri, code, ?took, "request");
        response
    }
}

/// What is logged of the URI: a command line may hold a password.
fn loggable(info: &RequestInfo, parts: &Parts) -> String {
    if info.subresource == "exec" { parts.uri.path().to_owned() } else { parts.uri.to_string() }
}

fn in_flight(server: &Server, info: &RequestInfo, long_running: bool) -> IntGauge {
    let kind = if long_running {
        "longRunning"
    } else if matches!(info.verb, "get" | "list" | "head") {
        "readOnly"
    } else {
        "mutating"
    };
    let gauge = server.metrics().inflight.with_label_values(&[kind]);
    gauge.inc();
    gauge
}

fn metric_verb(verb: &str) -> &'static str {
    match verb {
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
