//! The path of every request, read from top to bottom:
//!
//! request id → request info → panics become 500 → deadline → caught up? → authenticate → impersonate → room? →
//! authorize → verb → `Status` for every refusal → warnings and headers → metrics and the slow log.

pub(crate) mod gate;
pub(crate) mod observe;
pub(crate) mod stages;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use http::{HeaderName, HeaderValue, Request, Response};
use quorate_api::status::Status;
use tracing::Instrument;

use crate::attributes::Decision;
use crate::authenticate::impersonate::impersonate;
use crate::authorize::message;
use crate::body::{Body, RequestBody};
use crate::call::Call;
use crate::fence::Fence;
use crate::identity::Identity;
use crate::query::Query;
use crate::route::RequestInfo;
use crate::server::Server;
use crate::{respond, verb};
use observe::Observation;
use stages::Stage;

/// What is not long-running is answered within this time; `timeout=` lowers it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Longer ids from callers are replaced by one of our own.
const MAX_AUDIT_ID_BYTES: usize = 64;

/// What only in-process callers can put into a request.
#[derive(Clone, Debug)]
pub(crate) struct Trusted {
    pub(crate) identity: Identity,
    pub(crate) fence: Option<Fence>,
}

pub(crate) async fn handle(server: Server, request: Request<RequestBody>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let info = RequestInfo::parse(&parts.method, parts.uri.path(), &query);
    let audit_id = audit_id(&server, &parts);
    let call = Call::new(server, info, query, parts, body, audit_id.clone());
    let observation = Observation::begin(&call);
    let span = observation.span();
    let guarded = AssertUnwindSafe(within_deadline(call)).catch_unwind().instrument(span);
    let (result, warnings) = match guarded.await {
        Ok(answer) => answer,
        Err(panic) => (Err(panicked(panic.as_ref(), &audit_id)), Vec::new()),
    };
    let mut response = result.unwrap_or_else(|status| respond::status(&status));
    finish(&mut response, &audit_id, &warnings);
    observation.end(response)
}

type Answer = (Result<Response<Body>, Status>, Vec<String>);

async fn within_deadline(mut call: Call) -> Answer {
    let server = call.server.clone();
    if is_long_running(&call.info) {
        let result = authenticated(&mut call).await;
        let warnings = call.warnings.take();
        return (result, warnings);
    }
    let limit = match deadline(&call.query) {
        Ok(limit) => limit,
        Err(status) => return (Err(status), Vec::new()),
    };
    let worked = async {
        let result = authenticated(&mut call).await;
        (result, call.warnings.take())
    };
    server.env().clock.timeout(limit, worked).await.unwrap_or_else(|_elapsed| {
        const MESSAGE: &str = "request did not complete within requested timeout - context deadline exceeded";
        (Err(Status::timeout(MESSAGE, 0)), Vec::new())
    })
}

async fn authenticated(call: &mut Call) -> Result<Response<Body>, Status> {
    gate::caught_up(call).await?;
    if let Some(trusted) = call.parts.extensions.get::<Trusted>() {
        call.identity = trusted.identity.clone();
        call.fence.clone_from(&trusted.fence);
    } else {
        let found = call.server.authenticator().authenticate(&call.parts).await?;
        call.identity = found.unwrap_or_else(Identity::anonymous);
    }
    call.stages.pass(Stage::Authenticated);
    gate::can_judge(call).await?;
    let authorizer = call.server.authorizer();
    if let Some(assumed) = impersonate(&call.parts.headers, &call.identity, authorizer).await? {
        tracing::debug!(by = call.identity.user, as_user = assumed.user, "impersonation");
        call.identity = assumed;
    }
    let place = call.server.turnstile().enter(call).await?;
    let attributes = call.attributes();
    if let Decision::Deny { reason } = authorizer.authorize(&attributes).await {
        return Err(message::forbidden(&attributes, &reason));
    }
    call.stages.pass(Stage::Authorized);
    let response = verb::dispatch(call).await?;
    Ok(response.map(|body| body.holding(place)))
}

/// Requests that change nothing.
pub(crate) fn is_read(info: &RequestInfo) -> bool {
    matches!(info.verb, "get" | "list" | "watch" | "head")
}

/// Requests that live as long as their client wants.
pub(crate) fn is_long_running(info: &RequestInfo) -> bool {
    info.verb == "watch" || matches!(info.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward")
}

fn deadline(query: &Query) -> Result<Duration, Status> {
    let text = query.get("timeout");
    if text.is_empty() {
        return Ok(REQUEST_TIMEOUT);
    }
    match parse_duration(text) {
        Some(limit) if limit.is_zero() => Ok(REQUEST_TIMEOUT),
        Some(limit) => Ok(limit.min(REQUEST_TIMEOUT)),
        None => Err(Status::bad_request(format!("invalid timeout specified in the request URL - {text:?}"))),
    }
}

/// The part of Go's duration syntax that clients use: `30s`, `1m30s`, `500ms`, `0`.
fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    if rest == "0" {
        return Some(total);
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit_end = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..unit_end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = &rest[unit_end..];
    }
    Some(total)
}

fn audit_id(server: &Server, parts: &http::request::Parts) -> String {
    let given = parts.headers.get(&AUDIT_ID).and_then(|value| value.to_str().ok());
    match given {
        Some(id) if !id.is_empty() && id.len() <= MAX_AUDIT_ID_BYTES => id.to_owned(),
        _ => server.env().random.uuid().to_string(),
    }
}

fn finish(response: &mut Response<Body>, audit_id: &str, warnings: &[String]) {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(audit_id) {
        headers.insert(AUDIT_ID, id);
    }
    if !headers.contains_key(http::header::CACHE_CONTROL) {
        headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        let clean: String = quoted.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{clean}\"").as_bytes()) {
            headers.append(http::header::WARNING, value);
        }
    }
}

fn panicked(panic: &(dyn std::any::Any + Send), audit_id: &str) -> Status {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    tracing::error!(audit_id, panic = text, "a request panicked");
    Status::internal("This request caused apiserver to panic. Look in the logs for details.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [("30s", 30_000), ("1m30s", 90_000), ("500ms", 500), ("0", 0), ("1.5s", 1500)] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "x", "10", "s", "-1s", "9999999999999999999s9999999999999999999s"] {
            assert_eq!(parse_duration(text).filter(|limit| !limit.is_zero()), None, "{text}");
        }
    }
}
