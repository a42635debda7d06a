//! A Kubernetes object of any kind, and its metadata.
//!
//! An [`Object`] owns a JSON map and gives typed views of the parts every kind shares. [`Object::from_value`] checks the
//! JSON types of those parts once; from then on accessors do not fail: a field that is absent, `null` or (after a raw
//! write) of a wrong type reads as absent.

mod check;
mod list;
mod metadata;
mod pointer;
#[cfg(test)]
mod tests;

pub use list::{ListMeta, list_of};
pub use metadata::{ManagedFields, Operation, OwnerReference, StringMap};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::name::{BadGroupVersion, Gvk, ObjectKey};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct Object {
    map: Map<String, Value>,
}

/// Why a JSON value is no object of the API, or a part of it is not what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ObjectError {
    #[error("expected a JSON object, found {found}")]
    NotAnObject { found: &'static str },
    #[error("cannot read {found} at {path} as {expected}")]
    WrongType { path: String, expected: &'static str, found: &'static str },
    #[error("cannot read {path}: {message}")]
    BadValue { path: String, message: String },
    #[error("cannot set {path}: no such place")]
    NoSuchPlace { path: String },
    #[error("Object 'Kind' is missing")]
    MissingKind,
    #[error("Object 'apiVersion' is missing")]
    MissingApiVersion,
    #[error(transparent)]
    BadGroupVersion(#[from] BadGroupVersion),
}

// === impl Object: whole ===

impl Object {
    pub fn new(gvk: &Gvk, namespace: Option<&str>, name: &str) -> Self {
        let mut object = Self::default();
        object.set_gvk(gvk);
        object.set_name(name);
        object.set_namespace(namespace);
        object
    }

    /// Takes over a JSON object whose type fields and metadata have the right JSON types.
    pub fn from_value(value: Value) -> Result<Self, ObjectError> {
        match value {
            Value::Object(map) => Self::from_map(map),
            other => Err(ObjectError::NotAnObject { found: json_type(&other) }),
        }
    }

    pub fn from_map(map: Map<String, Value>) -> Result<Self, ObjectError> {
        check::shared_fields(&map)?;
        Ok(Self { map })
    }

    pub fn as_map(&self) -> &Map<String, Value> {
        &self.map
    }

    /// Raw access; whoever changes metadata through it keeps its types right.
    pub fn as_map_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.map
    }

    pub fn into_value(self) -> Value {
        Value::Object(self.map)
    }

    pub fn into_map(self) -> Map<String, Value> {
        self.map
    }

    pub fn to_value(&self) -> Value {
        Value::Object(self.map.clone())
    }
}

impl TryFrom<Value> for Object {
    type Error = ObjectError;

    fn try_from(value: Value) -> Result<Self, ObjectError> {
        Self::from_value(value)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        object.into_value()
    }
}

// === impl Object: kind and identity ===

impl Object {
    pub fn api_version(&self) -> &str {
        self.map.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
    }

    pub fn kind(&self) -> &str {
        self.map.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    /// The kind the object says it is.
    pub fn gvk(&self) -> Result<Gvk, ObjectError> {
        if self.kind().is_empty() {
            return Err(ObjectError::MissingKind);
        }
        if self.api_version().is_empty() {
            return Err(ObjectError::MissingApiVersion);
        }
        Ok(Gvk::from_type_fields(self.api_version(), self.kind())?)
    }

    pub fn set_gvk(&mut self, gvk: &Gvk) {
        self.map.insert("apiVersion".to_owned(), Value::from(gvk.api_version()));
        self.map.insert("kind".to_owned(), Value::from(gvk.kind.as_str()));
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace().map(str::to_owned), name: self.name().to_owned() }
    }
}

/// What a JSON value is, in the words of messages.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
