//! Strategic merge patch: a merge patch that knows which lists merge, and by which field.
//!
//! Directives: `$patch: replace|delete|merge` in an object or a list element, `$retainKeys`,
//! `$deleteFromPrimitiveList/FIELD` and `$setElementOrder/FIELD` beside a field. Merged lists keep the patch's order for
//! what the patch names and the current order for the rest ([`order`]).

mod list;
mod order;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::PatchError;
use crate::schema::{Field, FieldType, Shape, Type};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// The current value with the patch merged in. Fields the schema does not have merge as in a plain merge patch; the
/// check of the result reports them.
pub fn apply(current: &Value, patch: &Value, schema: &'static Type) -> Result<Value, PatchError> {
    let (Value::Object(current), Value::Object(patch)) = (current, patch) else {
        return Err(PatchError::Malformed("a strategic merge patch must be an object".into()));
    };
    let mut merged = current.clone();
    merge_object(&mut merged, patch, Of::Message(schema))?;
    Ok(Value::Object(merged))
}

/// What the schema says of an object.
#[derive(Clone, Copy)]
enum Of {
    Message(&'static Type),
    /// A map field.
    Map(&'static Field),
    /// Nothing: plain JSON.
    Plain,
}

/// What a `$patch` directive asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

fn merge_object(current: &mut Map<String, Value>, patch: &Map<String, Value>, of: Of) -> Result<(), PatchError> {
    match directive(patch)? {
        Directive::Merge => {}
        Directive::Delete => {
            current.clear();
            return Ok(());
        }
        Directive::Replace => current.clear(),
    }
    retain_keys(current, patch)?;
    for (name, change) in patch {
        if let Some(field) = name.strip_prefix(DELETE_FROM_LIST) {
            list::delete_scalars(current, field, change)?;
        } else if !name.starts_with('$') {
            merge_field(current, name, change, patch, of)?;
        } else if let Some(field) = name.strip_prefix(ELEMENT_ORDER) {
            // Beside a list of the same patch, the list's own merge orders it.
            if !patch.contains_key(field) {
                merge_field(current, field, &Value::Array(Vec::new()), patch, of)?;
            }
        }
    }
    Ok(())
}

fn merge_field(
    current: &mut Map<String, Value>,
    name: &str,
    change: &Value,
    patch: &Map<String, Value>,
    of: Of,
) -> Result<(), PatchError> {
    let field = of.field(name);
    match change {
        Value::Null => {
            current.remove(name);
        }
        Value::Object(change) => {
            let replaced = field.is_some_and(|field| field.patch.replace);
            let before = match current.remove(name) {
                Some(Value::Object(before)) if !replaced => before,
                _ => Map::new(),
            };
            let mut merged = before;
            merge_object(&mut merged, change, of.value(name))?;
            current.insert(name.to_owned(), Value::Object(merged));
        }
        Value::Array(change) => {
            let order = patch.get(&format!("{ELEMENT_ORDER}{name}"));
            let merges = field.is_some_and(|field| field.shape == Shape::List && field.patch.merge);
            if let Some(field) = field.filter(|_| merges) {
                let before = match current.remove(name) {
                    Some(Value::Array(before)) => Some(before),
                    _ => None,
                };
                let absent = before.is_none() && !patch.contains_key(name);
                let merged = list::merge(before.unwrap_or_default(), change, order, field)?;
                if !absent {
                    current.insert(name.to_owned(), Value::Array(merged));
                }
            } else if patch.contains_key(name) {
                current.insert(name.to_owned(), Value::Array(change.clone()));
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            current.insert(name.to_owned(), change.clone());
        }
    }
    Ok(())
}

fn directive(patch: &Map<String, Value>) -> Result<Directive, PatchError> {
    match patch.get(PATCH) {
        None => Ok(Directive::Merge),
        Some(Value::String(text)) if text == "merge" => Ok(Directive::Merge),
        Some(Value::String(text)) if text == "replace" => Ok(Directive::Replace),
        Some(Value::String(text)) if text == "delete" => Ok(Directive::Delete),
        Some(other) => Err(PatchError::Invalid(format!("unknown patch type: {other}"))),
    }
}

/// `$retainKeys` names every field that may stay; the patch itself may set no other.
fn retain_keys(current: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || PatchError::Invalid("invalid patch format of retainKeys".into());
    let keys = keys.as_array().ok_or_else(malformed)?;
    let named = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    let foreign = |(name, value): (&String, &Value)| !name.starts_with('$') && !value.is_null() && !named(name);
    if patch.iter().any(foreign) {
        return Err(malformed());
    }
    current.retain(|name, _| named(name));
    Ok(())
}

// === impl Of ===

impl Of {
    fn field(self, name: &str) -> Option<&'static Field> {
        match self {
            Self::Message(of) => of.field(name),
            Self::Map(_) | Self::Plain => None,
        }
    }

    /// What an object under this name is.
    fn value(self, name: &str) -> Self {
        match self {
            Self::Message(of) => match of.field(name) {
                Some(field) if field.shape == Shape::Map => Self::Map(field),
                Some(field) => Self::element(field),
                None => Self::Plain,
            },
            Self::Map(field) => Self::element(field),
            Self::Plain => Self::Plain,
        }
    }

    /// What an element of the field is.
    fn element(field: &Field) -> Self {
        match field.of {
            FieldType::Message(of)
            | FieldType::SchemaOrArray(of)
            | FieldType::SchemaOrBool(of)
            | FieldType::SchemaOrStrings(of) => Self::Message(of.get()),
            _ => Self::Plain,
        }
    }
}
