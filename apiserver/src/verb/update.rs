//! PUT: a whole object in place of another.

use std::sync::Arc;

use http::Response;
use quorate_api::object::Object;
use quorate_api::status::Status;

use super::get::presenter;
use super::options::WriteOptions;
use super::write::{Part, Writer};
use crate::body::Body;
use crate::call::Call;
use crate::registry::Row;
use crate::{decode, present};

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    put(call, row, Part::Main).await
}

pub(crate) async fn put(call: &mut Call, row: &Arc<Row>, part: Part) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&call.query, "UpdateOptions")?;
    let presenter = presenter(call, row)?;
    let body = call.read_body().await?;
    let mut object = decode::object(call, &body, &row.gvk(), options.field_validation)?;
    check_path(call, row, &mut object)?;
    present::to_stored(row, &mut object);
    let writer = Writer::of_path(call, row, options.dry_run);
    let creates = row.strategy.allow_create_on_update && matches!(part, Part::Main);
    let written = writer.update(part, &|_old| Ok(object.clone()), creates.then_some(&object)).await?;
    presenter.respond(written.code(), written.stored())
}

/// The object is the one that the path names.
pub(crate) fn check_path(call: &Call, row: &Row, object: &mut Object) -> Result<(), Status> {
    let (name, namespace) = (&call.info.name, &call.info.namespace);
    if object.name().is_empty() {
        return Err(Status::bad_request("name must be provided"));
    }
    if object.name() != name {
        let message = format!("the name of the object ({}) does not match the name on the URL ({name})", object.name());
        return Err(Status::bad_request(message));
    }
    match object.namespace() {
        Some(own) if row.namespaced() && own != namespace => {
            let message = format!(
                "the namespace of the object ({own}) does not match the namespace on the request ({namespace})"
            );
            Err(Status::bad_request(message))
        }
        Some(_) if !row.namespaced() => {
            object.set_namespace(None);
            Ok(())
        }
        _ => Ok(()),
    }
}
