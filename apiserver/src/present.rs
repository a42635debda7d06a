//! Stored objects to what a caller asked for: whole, metadata only, or table rows.

use http::{Response, StatusCode};
use jiff::Timestamp;
use quorate_api::codec;
use quorate_api::object::Object;
use quorate_api::schema;
use quorate_api::status::Status;
use quorate_raft_store::Revision;
use serde_json::Value;

use crate::body::Body;
use crate::negotiate::{Encoding, Form, MetaVersion, Output};
use crate::registry::Row;
use crate::storage::{Stored, stored_status};
use crate::{respond, table};

/// How one request wants its objects.
#[derive(Clone, Debug)]
pub(crate) struct Presenter {
    pub(crate) row: std::sync::Arc<Row>,
    pub(crate) output: Output,
    pub(crate) include: table::Include,
    pub(crate) now: Timestamp,
}

impl Presenter {
    /// Appends one object as the caller gets it when it stands alone: in a GET, an event, a write's answer.
    pub(crate) fn write(&self, stored: &Stored, out: &mut Vec<u8>) -> Result<(), Status> {
        match self.output.form {
            Form::Object => self.write_object(stored, out),
            Form::Partial(version) => {
                write_partial(stored, version, out);
                Ok(())
            }
            Form::Table(version) => {
                table::write_head(out, version, &list_meta(stored), Some(self.row.strategy.columns));
                self.write_row(stored, version, out)?;
                out.extend(table::TAIL);
                Ok(())
            }
        }
    }

    /// Appends one item of a list: as [`Presenter::write`], but a table's item is a row.
    pub(crate) fn write_item(&self, stored: &Stored, out: &mut Vec<u8>) -> Result<(), Status> {
        match self.output.form {
            Form::Table(version) => self.write_row(stored, version, out),
            Form::Object | Form::Partial(_) => self.write(stored, out),
        }
    }

    /// Appends a list up to its first item; [`table::TAIL`] closes it.
    pub(crate) fn write_list_head(&self, metadata: &str, out: &mut Vec<u8>) {
        let (kind, api_version) = match self.output.form {
            Form::Table(version) => {
                table::write_head(out, version, metadata, Some(self.row.strategy.columns));
                return;
            }
            Form::Partial(version) => ("PartialObjectMetadataList", version.api_version()),
            Form::Object => (self.row.resource.list_kind.as_str(), self.row.api_version.as_str()),
        };
        let head =
            format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[");
        out.extend(head.as_bytes());
    }

    fn write_object(&self, stored: &Stored, out: &mut Vec<u8>) -> Result<(), Status> {
        if self.row.serves_stored_form() {
            stored.write_json(out);
            return Ok(());
        }
        let object = self.served(stored)?;
        push_json(out, object.as_map());
        Ok(())
    }

    /// The object in the served version.
    pub(crate) fn served(&self, stored: &Stored) -> Result<Object, Status> {
        let mut object = stored.object().map_err(stored_status)?;
        to_served(&self.row, &mut object);
        Ok(object)
    }

    fn write_row(&self, stored: &Stored, version: MetaVersion, out: &mut Vec<u8>) -> Result<(), Status> {
        let object = stored.object().map_err(stored_status)?;
        let cells = (self.row.strategy.cells)(&object, self.now);
        out.extend(b"{\"cells\":");
        push_json(out, &cells);
        match self.include {
            table::Include::None => {}
            table::Include::Metadata => {
                out.extend(b",\"object\":");
                write_partial(stored, version, out);
            }
            table::Include::Object => {
                out.extend(b",\"object\":");
                self.write_object(stored, out)?;
            }
        }
        out.push(b'}');
        Ok(())
    }

    /// A response with one object.
    pub(crate) fn respond(&self, code: StatusCode, stored: &Stored) -> Result<Response<Body>, Status> {
        let mut out = Vec::with_capacity(stored.json_len());
        self.write(stored, &mut out)?;
        encoded(code, self.output.encoding, out)
    }
}

/// The metadata of a table of one object. The result of a dry run has no version.
fn list_meta(stored: &Stored) -> String {
    match stored.revision {
        Revision(0) => "{}".to_owned(),
        revision => format!("{{\"resourceVersion\":\"{revision}\"}}"),
    }
}

/// A response from JSON text, re-encoded if the caller wants another encoding.
pub(crate) fn encoded(code: StatusCode, encoding: Encoding, json: Vec<u8>) -> Result<Response<Body>, Status> {
    if encoding == Encoding::Json {
        return Ok(respond::bytes(code, encoding.media_type(), json));
    }
    let body = match encoding {
        Encoding::Json => json,
        Encoding::Yaml => {
            let value: Value = serde_json::from_slice(&json).map_err(Status::internal)?;
            codec::yaml::encode(&value).map_err(Status::internal)?
        }
        Encoding::Protobuf => to_protobuf(&json)?,
    };
    Ok(respond::bytes(code, encoding.media_type(), body))
}

pub(crate) fn to_protobuf(json: &[u8]) -> Result<Vec<u8>, Status> {
    let value: Value = serde_json::from_slice(json).map_err(Status::internal)?;
    let object = Object::from_value(value).map_err(Status::internal)?;
    let gvk = object.gvk().map_err(Status::internal)?;
    let schema = schema::for_gvk(&gvk).ok_or_else(|| Status::not_acceptable(&["application/json"]))?;
    codec::protobuf::encode(&gvk, schema, &object.into_value()).map_err(Status::internal)
}

/// Converts from the stored to the served version.
pub(crate) fn to_served(row: &Row, object: &mut Object) {
    if let Some(conversion) = row.conversion {
        (conversion.from_storage)(object);
    }
    object.set_gvk(&row.gvk());
}

/// Converts from the served to the stored version.
pub(crate) fn to_stored(row: &Row, object: &mut Object) {
    if let Some(conversion) = row.conversion {
        (conversion.to_storage)(object);
    }
    object.set_gvk(&row.resource.storage);
}

fn write_partial(stored: &Stored, version: MetaVersion, out: &mut Vec<u8>) {
    out.extend(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
    out.extend(version.api_version().as_bytes());
    out.extend(b"\",\"metadata\":");
    stored.write_metadata_json(out);
    out.push(b'}');
}

/// Writing JSON to memory fails for no value that this crate makes.
pub(crate) fn push_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    if let Err(error) = serde_json::to_writer(&mut *out, value) {
        tracing::error!(%error, "writing JSON");
    }
}
