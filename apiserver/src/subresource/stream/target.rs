//! The pod that a stream is about, and its node.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::Empty;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use quorate_api::object::Object;
use quorate_api::status::Status;
use quorate_raft_store::Consistency;

use crate::call::Call;
use crate::nodes::Endpoint;
use crate::registry::Row;
use crate::storage::stored_status;
use crate::verb::get;

/// What may stand unescaped in a path segment or a query's value.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(super) async fn pod(call: &Call, row: &Row) -> Result<Object, Status> {
    let stored = get::find(call, row, Consistency::Linearizable).await?.ok_or_else(|| get::not_found(call, row))?;
    stored.object().map_err(stored_status)
}

/// The node that the pod is bound to, if it is.
pub(super) fn node_of(pod: &Object) -> Option<&str> {
    pod.get_str("/spec/nodeName").ok().flatten().filter(|name| !name.is_empty())
}

/// Where the node's server listens.
pub(super) async fn endpoint(call: &Call, node: &str) -> Result<Endpoint, Status> {
    let registry = call.server.registry();
    let row = registry.row("v1", "nodes").ok_or_else(Status::unknown_resource)?;
    let stored = call.server.storage().get(&row.home, "", node, Consistency::Linearizable).await?;
    let stored = stored.ok_or_else(|| Status::not_found(&row.group_resource, node))?;
    Ok(Endpoint::of(&stored.object().map_err(stored_status)?)?)
}

pub(super) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// `/KIND/NAMESPACE/POD[/CONTAINER]?QUERY`, as the node's server names these.
pub(super) fn path(kind: &str, pod: &Object, container: Option<&str>, query: &str) -> String {
    let mut path = format!("/{kind}/{}/{}", escaped(pod.namespace().unwrap_or_default()), escaped(pod.name()));
    if let Some(container) = container {
        path.push('/');
        path.push_str(&escaped(container));
    }
    if !query.is_empty() {
        path.push('?');
        path.push_str(query);
    }
    path
}

/// A request to the node, without the caller's headers: credentials stay here.
pub(super) fn request(endpoint: &Endpoint, method: &http::Method, path: &str) -> Result<Request<Empty<Bytes>>, Status> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, endpoint.address().to_string())
        .body(Empty::new())
        .map_err(|error| Status::bad_request(format!("the request cannot be sent to the node: {error}")))
}
