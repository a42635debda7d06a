//! Logs, exec, attach and port-forward of pods: the caller is authorized here, the node does the work, and its stream
//! is handed on as it is.

mod container;
mod log;
mod target;
mod upgrade;

use std::sync::Arc;

use http::Response;
use quorate_api::status::Status;

use crate::body::Body;
use crate::call::Call;
use crate::registry::Row;
use upgrade::Kind;

/// Answers `None` for a subresource that is none of these.
pub(super) async fn handle(call: &mut Call, row: &Arc<Row>) -> Option<Result<Response<Body>, Status>> {
    if !row.is("", "pods") {
        return None;
    }
    let kind = match call.info.subresource.as_str() {
        "log" => return Some(log::handle(call, row).await),
        "exec" => Kind::Exec,
        "attach" => Kind::Attach,
        "portforward" => Kind::PortForward,
        _ => return None,
    };
    Some(upgrade::handle(call, row, kind).await)
}
