//! Responses: one place that turns values and `Status` into HTTP.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use quorate_api::status::Status;
use serde_json::Value;

use crate::body::Body;
use crate::negotiate::JSON;

/// A response with a body of a known type.
pub fn bytes(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A JSON document.
pub fn json(code: StatusCode, value: &Value) -> Response<Body> {
    bytes(code, JSON, value.to_string())
}

pub fn text(code: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = bytes(code, "text/plain; charset=utf-8", body);
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

/// For a path that is no part of the API, where upstream's answer is no `Status`.
pub fn unknown_path() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Any refusal, and the success without an object. A success without a code of its own is sent as 200.
pub fn status(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::OK);
    let mut response = bytes(code, JSON, status.to_json());
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
