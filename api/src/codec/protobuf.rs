//! Protobuf bodies, by the schema table: no generated code.
//!
//! A body is the four bytes `k8s\0` and an envelope that names version and kind and holds the message. [`decode`] gives
//! the same value the equal JSON body would, [`encode`] the reverse; neither builds anything in between.

mod decode;
mod encode;
mod wire;

#[cfg(test)]
mod tests;

use serde_json::Value;
use thiserror::Error;

use super::MAX_DEPTH;
use crate::name::{BadGroupVersion, Gvk};
use crate::schema::{self, Type};
use wire::{Reader, WireError, Writer};

/// The first bytes of every body.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// Fields of the envelope (`runtime.Unknown`) and of its type names.
mod envelope {
    pub(super) const TYPE_META: u32 = 1;
    pub(super) const RAW: u32 = 2;
    pub(super) const CONTENT_TYPE: u32 = 4;
    pub(super) const API_VERSION: u32 = 1;
    pub(super) const KIND: u32 = 2;
}

/// Fields of `WatchEvent`, and of the `RawExtension` within.
mod event {
    pub(super) const TYPE: u32 = 1;
    pub(super) const OBJECT: u32 = 2;
    pub(super) const RAW: u32 = 1;
}

/// Why a body was not understood (400).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtobufError {
    #[error("provided data does not appear to be a protobuf message, expected prefix {MAGIC:?}")]
    NoMagic,
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("no kind \"{kind}\" is registered for version \"{version}\"")]
    UnknownKind { version: String, kind: String },
    #[error("{0}")]
    BadVersion(#[from] BadGroupVersion),
    #[error("{field}: {problem}")]
    BadValue { field: &'static str, problem: String },
    #[error("exceeded max depth")]
    TooDeep,
}

/// A value that does not have its schema's types, so that it cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}.{field}: cannot be written as protobuf: {problem}")]
pub struct EncodeError {
    pub message: &'static str,
    pub field: &'static str,
    pub problem: String,
}

/// Reads a body. `default` stands in for version and kind where the envelope names none, as the path of a request does.
///
/// The value carries `apiVersion` and `kind`, as a JSON body does.
pub fn decode(bytes: &[u8], default: Option<&Gvk>) -> Result<(Gvk, Value), ProtobufError> {
    decode_at(bytes, default, MAX_DEPTH)
}

/// Writes a body.
pub fn encode(gvk: &Gvk, schema: &'static Type, value: &Value) -> Result<Vec<u8>, EncodeError> {
    let mut out = Writer::new(MAGIC.to_vec());
    out.nested(envelope::TYPE_META, |out| {
        out.bytes(envelope::API_VERSION, gvk.api_version().as_bytes());
        out.bytes(envelope::KIND, gvk.kind.as_bytes());
    });
    out.try_nested(envelope::RAW, |out| encode::message(schema, value, out))?;
    Ok(out.into_bytes())
}

/// One frame of a watch: its length in four bytes, then the event around an object that [`encode`] has written.
pub fn encode_watch_event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Writer::new(vec![0; 4]);
    out.bytes(event::TYPE, kind.as_bytes());
    out.nested(event::OBJECT, |out| out.bytes(event::RAW, object));
    let mut frame = out.into_bytes();
    // A frame holds one object: far below 4 GiB.
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

fn decode_at(bytes: &[u8], default: Option<&Gvk>, depth: usize) -> Result<(Gvk, Value), ProtobufError> {
    let body = bytes.strip_prefix(&MAGIC).ok_or(ProtobufError::NoMagic)?;
    let (mut version, mut kind, mut raw, mut content_type) = ("", "", &[][..], "");
    let mut reader = Reader::new(body);
    while let Some((number, value)) = reader.next()? {
        match number {
            envelope::TYPE_META => {
                let mut names = Reader::new(value.bytes()?);
                while let Some((number, value)) = names.next()? {
                    match number {
                        envelope::API_VERSION => version = value.text()?,
                        envelope::KIND => kind = value.text()?,
                        _ => {}
                    }
                }
            }
            envelope::RAW => raw = value.bytes()?,
            envelope::CONTENT_TYPE => content_type = value.text()?,
            _ => {}
        }
    }
    let gvk = match default {
        Some(default) if kind.is_empty() && version.is_empty() => default.clone(),
        _ => Gvk::from_type_fields(version, kind)?,
    };
    let schema = schema::for_gvk(&gvk)
        .ok_or_else(|| ProtobufError::UnknownKind { version: gvk.api_version(), kind: gvk.kind.clone() })?;
    let mut object =
        if content_type == "application/json" { decode::json_object(raw)? } else { decode::root(schema, raw, depth)? };
    object.insert("apiVersion".into(), Value::String(gvk.api_version()));
    object.insert("kind".into(), Value::String(gvk.kind.clone()));
    Ok((gvk, Value::Object(object)))
}
