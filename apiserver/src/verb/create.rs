//! POST: a new object.

use std::sync::Arc;

use http::{Response, StatusCode};
use quorate_api::status::Status;

use super::get::presenter;
use super::options::WriteOptions;
use super::write::Writer;
use crate::body::Body;
use crate::call::Call;
use crate::registry::Row;
use crate::{decode, present};

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&call.query, "CreateOptions")?;
    let presenter = presenter(call, row)?;
    let body = call.read_body().await?;
    let mut object = decode::object(call, &body, &row.gvk(), options.field_validation)?;
    present::to_stored(row, &mut object);
    let stored = Writer::of_path(call, row, options.dry_run).create(object).await?;
    presenter.respond(StatusCode::CREATED, &stored)
}
