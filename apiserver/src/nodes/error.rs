//! What can go wrong on the way to a node, and which answer each becomes.

use std::net::SocketAddr;
use std::time::Duration;

use http::StatusCode;
use quorate_api::status::{Reason, Status};

/// After a refusal for want of a free stream, come back after this long.
const RETRY_AFTER_SECONDS: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeError {
    #[error("this server has no certificate to show to nodes")]
    NoCertificate,
    #[error("no preferred addresses found for node {node:?}; known addresses: [{known}]")]
    NoAddress { node: String, known: String },
    #[error("too many streams to nodes, please try again later")]
    Busy,
    #[error("error dialing backend: dial tcp {address}: {source}")]
    Dial { address: SocketAddr, source: std::io::Error },
    #[error("the node at {address} was not done {doing} within {} s", limit.as_secs())]
    Late { address: SocketAddr, doing: &'static str, limit: Duration },
    #[error("error sending request to {address}: {source}")]
    Broken { address: SocketAddr, source: hyper::Error },
    /// The node's own words.
    #[error("{text}")]
    Refused { code: StatusCode, text: String },
}

impl From<NodeError> for Status {
    fn from(error: NodeError) -> Self {
        match &error {
            NodeError::NoCertificate => Self::service_unavailable(error.to_string()),
            NodeError::Busy => Self::too_many_requests(error.to_string(), RETRY_AFTER_SECONDS),
            NodeError::Late { .. } => Self::timeout(&error.to_string(), 0),
            NodeError::NoAddress { .. } | NodeError::Dial { .. } | NodeError::Broken { .. } => Self::internal(error),
            NodeError::Refused { code, text } => refused(*code, text),
        }
    }
}

/// A node speaks plain text; a `Status` from it is handed on as it is.
fn refused(code: StatusCode, text: &str) -> Status {
    if let Ok(status) = serde_json::from_str::<Status>(text)
        && status.kind == "Status"
        && status.code == code.as_u16()
    {
        return status;
    }
    let text = if text.is_empty() { format!("the node answered {code}") } else { text.to_owned() };
    let reason = match code {
        StatusCode::BAD_REQUEST => Reason::BadRequest,
        StatusCode::FORBIDDEN => Reason::Forbidden,
        StatusCode::NOT_FOUND => Reason::NotFound,
        StatusCode::METHOD_NOT_ALLOWED => Reason::MethodNotAllowed,
        StatusCode::TOO_MANY_REQUESTS => Reason::TooManyRequests,
        StatusCode::SERVICE_UNAVAILABLE => Reason::ServiceUnavailable,
        StatusCode::GATEWAY_TIMEOUT => Reason::Timeout,
        // A 401 is about our certificate, not about the caller; a success that is none is a fault as well.
        _ => return Status::internal(text),
    };
    Status::failure(reason, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, text: &str) -> (u16, String) {
        let code = StatusCode::from_u16(code).unwrap();
        let status = Status::from(NodeError::Refused { code, text: text.to_owned() });
        (status.code, status.message)
    }

    #[test]
    fn the_words_of_a_node_are_handed_on() {
        assert_eq!(of(404, "pod \"p\" not found"), (404, "pod \"p\" not found".into()));
        assert_eq!(of(400, "container is waiting"), (400, "container is waiting".into()));
        assert_eq!(of(500, "no runtime"), (500, "Internal error occurred: no runtime".into()));
        assert_eq!(of(401, ""), (500, "Internal error occurred: the node answered 401 Unauthorized".into()));
        let status =
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"gone","reason":"Gone","code":410}"#;
        assert_eq!(of(410, status), (410, "gone".into()));
    }
}
