//! `metadata`: accessors and setters of [`Object`].

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Object;
use crate::time::Time;

/// One owner in `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// One entry of `metadata.managedFields`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedFields {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manager: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fields_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields_v1: Option<Value>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operation {
    Apply,
    Update,
}

/// A view of a map of strings that may be absent: labels, annotations, a selector, a node selector.
#[derive(Clone, Copy, Debug, Default)]
pub struct StringMap<'a>(Option<&'a Map<String, Value>>);

// === impl StringMap ===

impl<'a> StringMap<'a> {
    /// Anything that is no JSON object gives the empty map.
    pub fn new(value: Option<&'a Value>) -> Self {
        Self(value.and_then(Value::as_object))
    }

    pub fn of(map: &'a Map<String, Value>) -> Self {
        Self(Some(map))
    }

    pub fn get(&self, key: &str) -> Option<&'a str> {
        // A null value is a present key with the empty text, as upstream decodes it.
        self.0?.get(key).map(|value| value.as_str().unwrap_or_default())
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.0.is_some_and(|map| map.contains_key(key))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.0.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }

    pub fn len(&self) -> usize {
        self.0.map_or(0, Map::len)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

// === impl Object: reading metadata ===

impl Object {
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        self.map.get("metadata").and_then(Value::as_object)
    }

    /// Empty when there is none.
    pub fn name(&self) -> &str {
        self.metadata_str("name").unwrap_or_default()
    }

    pub fn generate_name(&self) -> Option<&str> {
        self.metadata_str("generateName")
    }

    /// The empty namespace is none.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata_str("namespace")
    }

    pub fn uid(&self) -> Option<&str> {
        self.metadata_str("uid")
    }

    pub fn resource_version(&self) -> Option<&str> {
        self.metadata_str("resourceVersion")
    }

    pub fn generation(&self) -> i64 {
        self.metadata_i64("generation").unwrap_or(0)
    }

    pub fn creation_timestamp(&self) -> Option<Time> {
        self.metadata_time("creationTimestamp")
    }

    pub fn deletion_timestamp(&self) -> Option<Time> {
        self.metadata_time("deletionTimestamp")
    }

    pub fn is_deleting(&self) -> bool {
        self.metadata_str("deletionTimestamp").is_some()
    }

    pub fn deletion_grace_period_seconds(&self) -> Option<i64> {
        self.metadata_i64("deletionGracePeriodSeconds")
    }

    pub fn labels(&self) -> StringMap<'_> {
        StringMap::new(self.metadata_field("labels"))
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().get(key)
    }

    pub fn annotations(&self) -> StringMap<'_> {
        StringMap::new(self.metadata_field("annotations"))
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations().get(key)
    }

    pub fn finalizers(&self) -> Vec<&str> {
        self.metadata_list("finalizers").iter().filter_map(Value::as_str).collect()
    }

    pub fn has_finalizer(&self, name: &str) -> bool {
        self.metadata_list("finalizers").iter().any(|item| item.as_str() == Some(name))
    }

    pub fn owner_references(&self) -> Vec<OwnerReference> {
        // The types of their fields were checked when the object was read, so none is dropped here.
        self.metadata_list("ownerReferences").iter().filter_map(lenient).collect()
    }

    /// The owner that manages this object, if one does.
    pub fn controller_owner(&self) -> Option<OwnerReference> {
        self.owner_references().into_iter().find(|owner| owner.controller == Some(true))
    }

    pub fn managed_fields(&self) -> Vec<ManagedFields> {
        self.metadata_list("managedFields").iter().filter_map(lenient).collect()
    }

    fn metadata_field(&self, name: &str) -> Option<&Value> {
        self.metadata()?.get(name)
    }

    fn metadata_str(&self, name: &str) -> Option<&str> {
        self.metadata_field(name)?.as_str().filter(|text| !text.is_empty())
    }

    fn metadata_i64(&self, name: &str) -> Option<i64> {
        self.metadata_field(name)?.as_i64()
    }

    fn metadata_time(&self, name: &str) -> Option<Time> {
        Time::parse(self.metadata_field(name)?.as_str()?).ok()
    }

    fn metadata_list(&self, name: &str) -> &[Value] {
        self.metadata_field(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

/// Reads an entry with its `null` fields left out, which serde would refuse for text.
fn lenient<T: serde::de::DeserializeOwned>(item: &Value) -> Option<T> {
    let map: Map<String, Value> =
        item.as_object()?.iter().filter(|(_, value)| !value.is_null()).map(|(k, v)| (k.clone(), v.clone())).collect();
    serde_json::from_value(Value::Object(map)).ok()
}

// === impl Object: writing metadata ===

impl Object {
    pub fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        object_at(&mut self.map, "metadata")
    }

    pub fn set_name(&mut self, name: &str) {
        self.set_metadata("name", non_empty(name));
    }

    pub fn set_generate_name(&mut self, prefix: Option<&str>) {
        self.set_metadata("generateName", prefix.and_then(non_empty));
    }

    pub fn set_namespace(&mut self, namespace: Option<&str>) {
        self.set_metadata("namespace", namespace.and_then(non_empty));
    }

    pub fn set_uid(&mut self, uid: Option<&str>) {
        self.set_metadata("uid", uid.and_then(non_empty));
    }

    pub fn set_resource_version(&mut self, version: Option<&str>) {
        self.set_metadata("resourceVersion", version.and_then(non_empty));
    }

    /// Zero takes the field away.
    pub fn set_generation(&mut self, generation: i64) {
        self.set_metadata("generation", (generation != 0).then(|| Value::from(generation)));
    }

    pub fn set_creation_timestamp(&mut self, time: Option<Time>) {
        self.set_metadata("creationTimestamp", time.map(|time| Value::from(time.to_string())));
    }

    pub fn set_deletion_timestamp(&mut self, time: Option<Time>) {
        self.set_metadata("deletionTimestamp", time.map(|time| Value::from(time.to_string())));
    }

    pub fn set_deletion_grace_period_seconds(&mut self, seconds: Option<i64>) {
        self.set_metadata("deletionGracePeriodSeconds", seconds.map(Value::from));
    }

    pub fn set_label(&mut self, key: &str, value: &str) {
        object_at(self.metadata_mut(), "labels").insert(key.to_owned(), Value::from(value));
    }

    pub fn remove_label(&mut self, key: &str) -> Option<String> {
        self.remove_entry("labels", key)
    }

    pub fn set_labels<K: Into<String>, V: Into<String>>(&mut self, labels: impl IntoIterator<Item = (K, V)>) {
        self.set_metadata("labels", text_map(labels));
    }

    pub fn set_annotation(&mut self, key: &str, value: &str) {
        object_at(self.metadata_mut(), "annotations").insert(key.to_owned(), Value::from(value));
    }

    pub fn remove_annotation(&mut self, key: &str) -> Option<String> {
        self.remove_entry("annotations", key)
    }

    pub fn set_annotations<K: Into<String>, V: Into<String>>(&mut self, annotations: impl IntoIterator<Item = (K, V)>) {
        self.set_metadata("annotations", text_map(annotations));
    }

    /// An empty list takes the field away.
    pub fn set_finalizers<T: Into<String>>(&mut self, finalizers: impl IntoIterator<Item = T>) {
        let items: Vec<Value> = finalizers.into_iter().map(|item| Value::from(item.into())).collect();
        self.set_metadata("finalizers", (!items.is_empty()).then_some(Value::Array(items)));
    }

    pub fn add_finalizer(&mut self, name: &str) {
        if !self.has_finalizer(name) {
            let names: Vec<String> =
                self.finalizers().into_iter().map(str::to_owned).chain([name.to_owned()]).collect();
            self.set_finalizers(names);
        }
    }

    /// Whether it was there.
    pub fn remove_finalizer(&mut self, name: &str) -> bool {
        let kept: Vec<String> = self.finalizers().into_iter().filter(|item| *item != name).map(str::to_owned).collect();
        let removed = self.has_finalizer(name);
        if removed {
            self.set_finalizers(kept);
        }
        removed
    }

    pub fn set_owner_references(&mut self, owners: &[OwnerReference]) {
        self.set_metadata("ownerReferences", to_list(owners));
    }

    pub fn set_managed_fields(&mut self, entries: &[ManagedFields]) {
        self.set_metadata("managedFields", to_list(entries));
    }

    /// Sets a metadata field, or takes it away.
    fn set_metadata(&mut self, name: &str, value: Option<Value>) {
        match value {
            Some(value) => {
                self.metadata_mut().insert(name.to_owned(), value);
            }
            None => {
                if let Some(Value::Object(metadata)) = self.map.get_mut("metadata") {
                    metadata.remove(name);
                }
            }
        }
    }

    /// The map goes with its last entry.
    fn remove_entry(&mut self, field: &str, key: &str) -> Option<String> {
        let map = self.map.get_mut("metadata")?.as_object_mut()?.get_mut(field)?.as_object_mut()?;
        let removed = map.remove(key)?;
        if map.is_empty() {
            self.set_metadata(field, None);
        }
        Some(removed.as_str().unwrap_or_default().to_owned())
    }
}

/// The object under a key, made where there is none.
fn object_at<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let place = map.entry(key).or_insert(Value::Null);
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    match place {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            unreachable!("it was made an object above")
        }
    }
}

fn non_empty(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| Value::from(text))
}

fn text_map<K: Into<String>, V: Into<String>>(entries: impl IntoIterator<Item = (K, V)>) -> Option<Value> {
    let map: Map<String, Value> =
        entries.into_iter().map(|(key, value)| (key.into(), Value::String(value.into()))).collect();
    (!map.is_empty()).then_some(Value::Object(map))
}

fn to_list<T: Serialize>(entries: &[T]) -> Option<Value> {
    let items: Vec<Value> = entries.iter().filter_map(|entry| serde_json::to_value(entry).ok()).collect();
    (!items.is_empty()).then_some(Value::Array(items))
}
