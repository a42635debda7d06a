//! What can be asked for: legacy lists and the aggregated documents of `apidiscovery.k8s.io/v2`.
//!
//! All of them are views of the registry's rows, made when they are asked for: they are small, and clients keep them.

mod aggregated;
mod legacy;

use http::header::{ACCEPT, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderValue, Response, StatusCode};
use quorate_api::status::Status;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::body::Body;
use crate::call::Call;
use crate::pki::hex;
use crate::respond;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/api`, `/apis` and what lies below them without naming a resource.
pub(crate) fn handle(call: &Call) -> Result<Response<Body>, Status> {
    if call.parts.method != http::Method::GET {
        return Err(crate::verb::not_allowed());
    }
    let registry = call.server.registry();
    let segments: Vec<&str> = call.info.path.trim_matches('/').split('/').collect();
    match segments.as_slice() {
        ["api"] if wants_aggregated(call) => Ok(aggregated_answer(call, &aggregated::core(&registry))),
        ["apis"] if wants_aggregated(call) => Ok(aggregated_answer(call, &aggregated::groups(&registry))),
        ["api"] => Ok(respond::json(StatusCode::OK, &legacy::versions(&call.server.config().cluster.api_url))),
        ["apis"] => Ok(respond::json(StatusCode::OK, &legacy::groups(&registry))),
        ["api", version] => found(legacy::resources(&registry, "", version)),
        ["apis", group] => found(legacy::group(&registry, group)),
        ["apis", group, version] => found(legacy::resources(&registry, group, version)),
        _ => Err(Status::unknown_resource()),
    }
}

fn found(document: Option<Value>) -> Result<Response<Body>, Status> {
    document.map(|document| respond::json(StatusCode::OK, &document)).ok_or_else(Status::unknown_resource)
}

/// The first alternative of the Accept header that we know decides, as upstream's negotiation does.
fn wants_aggregated(call: &Call) -> bool {
    let accept = call.parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    for alternative in accept.split(',') {
        let parts: Vec<&str> = alternative.split(';').map(str::trim).collect();
        if parts.contains(&"as=APIGroupDiscoveryList") && parts.contains(&"v=v2") {
            return parts.first() == Some(&"application/json");
        }
        if parts == ["application/json"] {
            return false;
        }
    }
    false
}

fn aggregated_answer(call: &Call, document: &Value) -> Response<Body> {
    let text = document.to_string();
    let tag = format!("\"{}\"", hash(text.as_bytes()).to_uppercase());
    let known = call.parts.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = if known == Some(tag.as_str()) {
        respond::bytes(StatusCode::NOT_MODIFIED, AGGREGATED, "")
    } else {
        respond::bytes(StatusCode::OK, AGGREGATED, text)
    };
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert("x-varied-accept", HeaderValue::from_static(AGGREGATED));
    if let Ok(value) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, value);
    }
    response
}

/// A document's fingerprint, for ETags and hashed URLs.
pub(crate) fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
