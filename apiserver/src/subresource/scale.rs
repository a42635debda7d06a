//! `/scale`: the number of replicas of whatever has them, as one kind.

use std::sync::Arc;

use http::{Response, StatusCode};
use quorate_api::codec;
use quorate_api::field::{FieldError, FieldPath};
use quorate_api::name::{GroupKind, Gvk};
use quorate_api::object::{Object, StringMap};
use quorate_api::resource::Verb;
use quorate_api::schema;
use quorate_api::selector::LabelSelector;
use quorate_api::status::Status;
use quorate_raft_store::Consistency;
use serde_json::{Map, Value, json};

use crate::body::Body;
use crate::call::Call;
use crate::decode;
use crate::negotiate::Output;
use crate::present::encoded;
use crate::registry::Row;
use crate::storage::{Stored, stored_status};
use crate::verb::options::WriteOptions;
use crate::verb::patch::{Patch, refused};
use crate::verb::update::check_path;
use crate::verb::write::{Part, Writer};
use crate::verb::{get, not_allowed};

const REPLICAS: &str = "/spec/replicas";

fn scale_kind() -> Gvk {
    Gvk::new("autoscaling", "v1", "Scale")
}

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>, verb: Verb) -> Result<Response<Body>, Status> {
    // What cannot be answered is refused before it is done.
    let output = Output::negotiate(&call.parts.headers, false)?;
    match verb {
        Verb::Get => {
            let found = get::find(call, row, Consistency::Linearizable).await?;
            respond(output, &found.ok_or_else(|| get::not_found(call, row))?)
        }
        Verb::Update => put(call, row, output).await,
        Verb::Patch => patch(call, row, output).await,
        Verb::Create | Verb::Delete | Verb::DeleteCollection | Verb::List | Verb::Watch => Err(not_allowed()),
    }
}

async fn put(call: &mut Call, row: &Arc<Row>, output: Output) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&call.query, "UpdateOptions")?;
    let body = call.read_body().await?;
    let mut scale = decode::object(call, &body, &scale_kind(), options.field_validation)?;
    check_path(call, row, &mut scale)?;
    let writer = Writer::of_path(call, row, options.dry_run);
    let transform = |old: &Object| scaled(old, &scale);
    let written = writer.update(Part::Main, &transform, None).await?;
    respond(output, written.stored())
}

async fn patch(call: &mut Call, row: &Arc<Row>, output: Output) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&call.query, "PatchOptions")?;
    let kind = scale_kind();
    let patch = Patch::read(call, schema::for_gvk(&kind)).await?;
    let writer = Writer::of_path(call, row, options.dry_run);
    let transform = |old: &Object| {
        let patched = patch.apply(&scale_of(old)).map_err(|error| refused(&error))?;
        let checked = codec::json::check(patched, schema::for_gvk(&kind), options.field_validation);
        let checked = checked.map_err(|error| decode::undecodable(&error, &kind))?;
        for warning in checked.warnings {
            call.warnings.add(warning);
        }
        scaled(old, &Object::from_value(checked.value).map_err(|error| Status::bad_request(error.to_string()))?)
    };
    let written = writer.update(Part::Main, &transform, None).await?;
    respond(output, written.stored())
}

/// The object with the replicas that the scale asks for.
fn scaled(old: &Object, scale: &Object) -> Result<Object, Status> {
    let replicas = scale.get_i64(REPLICAS).ok().flatten().unwrap_or(0);
    if replicas < 0 {
        let path = FieldPath::new("spec").child("replicas");
        let error = FieldError::invalid(&path, replicas, "must be greater than or equal to 0");
        return Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), scale.name(), &[error]));
    }
    let mut new = old.clone();
    new.set(REPLICAS, replicas).map_err(Status::internal)?;
    // A scale that names a version is judged by it, as any update.
    new.set_resource_version(scale.resource_version());
    if scale.uid().is_some() {
        new.set_uid(scale.uid());
    }
    Ok(new)
}

fn respond(output: Output, stored: &Stored) -> Result<Response<Body>, Status> {
    let object = stored.object().map_err(stored_status)?;
    encoded(StatusCode::OK, output.encoding, scale_of(&object).to_string().into_bytes())
}

fn scale_of(object: &Object) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.metadata().and_then(|metadata| metadata.get(field)) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let wanted = object.get_i64(REPLICAS).ok().flatten().unwrap_or(0);
    let current = object.get_i64("/status/replicas").ok().flatten().unwrap_or(0);
    let mut spec = Map::new();
    if wanted != 0 {
        spec.insert("replicas".to_owned(), wanted.into());
    }
    let mut status = json!({"replicas": current});
    let selector = selector_text(object.get("/spec/selector"));
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec, "status": status})
}

/// A label selector in text form; a replication controller's is a plain map.
fn selector_text(selector: Option<&Value>) -> String {
    let Some(Value::Object(map)) = selector else { return String::new() };
    let has = |part: &str| map.get(part).is_some_and(|part| !part.is_string());
    if has("matchLabels") || has("matchExpressions") {
        return LabelSelector::from_json(selector).map(|selector| selector.to_string()).unwrap_or_default();
    }
    LabelSelector::from_map(StringMap::of(map)).to_string()
}
