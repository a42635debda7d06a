//! OpenAPI v2: one document over all group-versions, as JSON and as protobuf. kubectl takes the protobuf form when it
//! asks for a kind that no v3 document knows, and older tools know nothing else.

mod document;
mod message;

use bytes::Bytes;
use http::header::{ACCEPT, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use prost::Message as _;
use quorate_api::status::Status;
use serde_json::Value;

use crate::body::Body;
use crate::call::Call;
use crate::negotiate::JSON;
use crate::openapi::fingerprint_of;
use crate::respond;

pub(crate) const PATH: &str = "/openapi/v2";
/// The media type as it is written in an answer; the other one, which most clients ask for, is none: a reader of the
/// answer's header stumbles over its `@`.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const OLD_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// More alternatives in an Accept header are not looked at.
const MAX_ALTERNATIVES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Protobuf,
}

impl Form {
    /// The first alternative that there is; no header means JSON.
    fn negotiate(headers: &HeaderMap) -> Result<Self, Status> {
        let mut asked = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
        if asked.peek().is_none() {
            return Ok(Self::Json);
        }
        let known = |alternative: &str| match alternative.split(';').next().unwrap_or_default().trim() {
            JSON | "*/*" | "application/*" | "" => Some(Self::Json),
            PROTOBUF | OLD_PROTOBUF => Some(Self::Protobuf),
            _ => None,
        };
        let found = asked.flat_map(|value| value.split(',')).take(MAX_ALTERNATIVES).find_map(known);
        found.ok_or_else(|| Status::not_acceptable(&[JSON, PROTOBUF]))
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => PROTOBUF,
        }
    }

    fn encode(self, document: &Value) -> Bytes {
        match self {
            Self::Json => document.to_string().into(),
            Self::Protobuf => message::document(document).encode_to_vec().into(),
        }
    }
}

pub(crate) fn handle(call: &Call) -> Result<Response<Body>, Status> {
    if call.parts.method != http::Method::GET {
        return Err(crate::verb::not_allowed());
    }
    let form = Form::negotiate(&call.parts.headers)?;
    let registry = call.server.registry();
    let rows = registry.rows().iter().map(|row| &**row);
    let tag = format!("\"{}-{form:?}\"", fingerprint_of(&call.server.config().git_commit, rows));
    let known = call.parts.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = if known == Some(tag.as_str()) {
        respond::bytes(StatusCode::NOT_MODIFIED, form.media_type(), "")
    } else {
        let body = call.server.openapi().get(&tag, || form.encode(&document::of(&registry)));
        respond::bytes(StatusCode::OK, form.media_type(), body)
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(value) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, value);
    }
    Ok(response)
}

#[cfg(test)]
mod tests;
