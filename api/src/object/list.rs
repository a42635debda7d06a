//! The envelope of a list.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::name::GroupVersion;

/// `metadata` of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Where the next page begins; absent on the last.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continuation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// A whole list; `items` is always present, empty or not.
pub fn list_of(gv: &GroupVersion, list_kind: &str, meta: &ListMeta, items: Vec<Value>) -> Value {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), Value::from(meta.resource_version.as_str()));
    if !meta.continuation.is_empty() {
        metadata.insert("continue".to_owned(), Value::from(meta.continuation.as_str()));
    }
    if let Some(count) = meta.remaining_item_count {
        metadata.insert("remainingItemCount".to_owned(), Value::from(count));
    }
    let mut list = Map::new();
    list.insert("apiVersion".to_owned(), Value::from(gv.to_string()));
    list.insert("items".to_owned(), Value::Array(items));
    list.insert("kind".to_owned(), Value::from(list_kind));
    list.insert("metadata".to_owned(), Value::Object(metadata));
    Value::Object(list)
}
