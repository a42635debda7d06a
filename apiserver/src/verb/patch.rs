//! PATCH: a change of the newest state, in one of three languages.

use std::sync::Arc;

use http::Response;
use http::header::CONTENT_TYPE;
use quorate_api::codec::{self, FieldValidation};
use quorate_api::object::Object;
use quorate_api::patch::{PatchError, json_patch, merge, strategic};
use quorate_api::schema::{self, Type};
use quorate_api::status::{Details, Reason, Status};
use serde_json::Value;

use super::get::presenter;
use super::options::WriteOptions;
use super::write::{Part, Writer};
use crate::body::Body;
use crate::call::Call;
use crate::decode;
use crate::negotiate::media_type;
use crate::present::{to_served, to_stored};
use crate::registry::Row;

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: [&str; 2] = ["application/apply-patch+yaml", "application/apply-patch+cbor"];

/// A patch that was read.
#[derive(Debug)]
pub(crate) enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value, &'static Type),
}

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    patch(call, row, Part::Main).await
}

pub(crate) async fn patch(call: &mut Call, row: &Arc<Row>, part: Part) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&call.query, "PatchOptions")?;
    WriteOptions::check_force(&call.query)?;
    let presenter = presenter(call, row)?;
    // A kind that is only a name of old for another has that one's fields.
    let schema = schema::for_gvk(&row.gvk()).or_else(|| schema::for_gvk(&row.resource.storage));
    let patch = Patch::read(call, schema).await?;
    let writer = Writer::of_path(call, row, options.dry_run);
    let transform = |old: &Object| patched(call, row, &patch, old, options.field_validation);
    let written = writer.update(part, &transform, None).await?;
    presenter.respond(written.code(), written.stored())
}

/// The stored object with the patch applied in the served version.
fn patched(call: &Call, row: &Row, patch: &Patch, old: &Object, validation: FieldValidation) -> Result<Object, Status> {
    let mut served = old.clone();
    to_served(row, &mut served);
    let gvk = row.gvk();
    let value = patch.apply(&served.into_value()).map_err(|error| refused(&error))?;
    let checked = codec::json::check(value, schema::for_gvk(&gvk), validation);
    let checked = checked.map_err(|error| decode::undecodable(&error, &gvk))?;
    for warning in checked.warnings {
        call.warnings.add(warning);
    }
    let mut object = Object::from_value(checked.value).map_err(|error| Status::bad_request(error.to_string()))?;
    if object.api_version() != row.api_version || object.kind() != gvk.kind {
        let message = format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            object.api_version(),
            row.api_version
        );
        return Err(Status::bad_request(message));
    }
    to_stored(row, &mut object);
    Ok(object)
}

impl Patch {
    /// Reads the body by its content type. Without a schema a strategic patch has no meaning.
    pub(crate) async fn read(call: &mut Call, schema: Option<&'static Type>) -> Result<Self, Status> {
        let text = call.parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media = media_type(text).to_owned();
        let accepted: &[&str] =
            if schema.is_some() { &[JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH] } else { &[JSON_PATCH, MERGE_PATCH] };
        let known = accepted.contains(&media.as_str());
        if APPLY_PATCH.contains(&media.as_str()) {
            let mut status = Status::unsupported_media_type(accepted);
            status.message = format!("server-side apply ({media}) is not supported by this server: {}", status.message);
            return Err(status);
        }
        if !known {
            return Err(Status::unsupported_media_type(accepted));
        }
        let body = call.read_body().await?;
        let decoded = codec::json::decode(&body, None, FieldValidation::Ignore);
        let value = decoded.map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?.value;
        Ok(match (media.as_str(), schema) {
            (JSON_PATCH, _) => Self::Json(value),
            (STRATEGIC_PATCH, Some(schema)) => Self::Strategic(value, schema),
            _ => Self::Merge(value),
        })
    }

    pub(crate) fn apply(&self, current: &Value) -> Result<Value, PatchError> {
        match self {
            Self::Json(patch) => json_patch::apply(current, patch),
            Self::Merge(patch) => Ok(merge::apply(current, patch)),
            Self::Strategic(patch, schema) => strategic::apply(current, patch, schema),
        }
    }
}

/// Upstream keeps to itself why a patch does not fit; the log says it.
pub(crate) fn refused(error: &PatchError) -> Status {
    if error.code() == 422 {
        tracing::debug!(%error, "a patch does not fit");
        return Status::failure(Reason::Invalid, "the server rejected our request due to an error in our request")
            .with_details(Details::default());
    }
    let reason = match error.code() {
        413 => Reason::RequestEntityTooLarge,
        _ => Reason::BadRequest,
    };
    Status::failure(reason, error.to_string())
}
