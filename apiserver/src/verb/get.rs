//! GET of one object.

use std::sync::Arc;

use http::{Response, StatusCode};
use quorate_api::status::Status;
use quorate_raft_store::{Consistency, Revision};

use super::read;
use crate::body::Body;
use crate::call::Call;
use crate::negotiate::Output;
use crate::present::Presenter;
use crate::registry::Row;
use crate::storage::Stored;
use crate::table::Include;

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let presenter = presenter(call, row)?;
    let consistency = match read::version(call.query.get("resourceVersion"), "resourceVersion")? {
        None => Consistency::Linearizable,
        Some(Revision(0)) => Consistency::Local,
        Some(revision) => Consistency::AtLeast(revision),
    };
    read::reach(&call.server, consistency).await?;
    let stored = find(call, row, consistency).await?.ok_or_else(|| not_found(call, row))?;
    presenter.respond(StatusCode::OK, &stored)
}

/// How this request wants its objects.
pub(crate) fn presenter(call: &Call, row: &Arc<Row>) -> Result<Presenter, Status> {
    Ok(Presenter {
        row: Arc::clone(row),
        output: Output::negotiate(&call.parts.headers, true)?,
        include: Include::parse(&call.query)?,
        now: call.now(),
    })
}

/// The object that the path names.
pub(crate) async fn find(call: &Call, row: &Row, consistency: Consistency) -> Result<Option<Stored>, Status> {
    call.server.storage().get(&row.home, &call.info.namespace, &call.info.name, consistency).await
}

pub(crate) fn not_found(call: &Call, row: &Row) -> Status {
    Status::not_found(&row.group_resource, &call.info.name)
}
