//! The stored form of an object: a header row that answers filters, then the canonical JSON without resourceVersion.
//!
//! ```text
//! version u8 · schema level u16 · flags u8 · header length u32 · splice u32 · metadata start u32, end u32
//! · labels: count u32, (key, value)… · fields: count u32, (key, value)…      texts: length u32, bytes
//! · body
//! ```
//! Numbers are little-endian; splice and metadata offsets count from the body's start.

use bytes::Bytes;
use quorate_api::object::Object;
use quorate_raft_store::{KeyValue, Revision};
use serde_json::{Map, Value};

/// The format written; the first byte of every stored object.
const FORMAT: u8 = 1;
/// Bytes before the labels.
const FIXED_BYTES: usize = 20;
/// `metadata.deletionTimestamp` is set.
const FLAG_DELETING: u8 = 1;

/// What cannot be read back is damage or a newer format, never a caller's mistake.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    #[error("stored object {key} has format {format}, this version reads {FORMAT}")]
    Format { key: String, format: u8 },
    #[error("stored object {key} is damaged: {detail}")]
    Damaged { key: String, detail: String },
}

/// What is written beside the body.
#[derive(Debug, Default)]
pub struct HeaderFields<'a> {
    pub schema_level: u16,
    /// Field selector labels and their values, `metadata.*` excluded (the key has those).
    pub fields: &'a [(&'static str, String)],
}

/// Encodes an object for the store. Its resourceVersion is left out, so equal objects give equal bytes.
pub fn encode(object: &Object, header: &HeaderFields<'_>) -> Vec<u8> {
    let root = object.as_map();
    let empty = Map::new();
    let metadata = root.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut out = Vec::with_capacity(1024);
    out.push(FORMAT);
    out.extend(header.schema_level.to_le_bytes());
    out.push(if metadata.contains_key("deletionTimestamp") { FLAG_DELETING } else { 0 });
    out.extend([0; FIXED_BYTES - 4]);
    let labels = metadata.get("labels").and_then(Value::as_object).unwrap_or(&empty);
    put_count(&mut out, labels.len());
    for (key, value) in labels {
        put_text(&mut out, key);
        put_text(&mut out, value.as_str().unwrap_or_default());
    }
    put_count(&mut out, header.fields.len());
    for (key, value) in header.fields {
        put_text(&mut out, key);
        put_text(&mut out, value);
    }
    let body_start = out.len();
    let spans = write_body(&mut out, root, metadata);
    let numbers = [body_start, spans.splice - body_start, spans.metadata.0 - body_start, spans.metadata.1 - body_start];
    for (at, number) in numbers.into_iter().enumerate() {
        out[4 + at * 4..8 + at * 4].copy_from_slice(&length(number).to_le_bytes());
    }
    out
}

struct Spans {
    /// Where `"resourceVersion":"N",` goes.
    splice: usize,
    metadata: (usize, usize),
}

fn write_body(out: &mut Vec<u8>, root: &Map<String, Value>, metadata: &Map<String, Value>) -> Spans {
    let mut spans = Spans { splice: 0, metadata: (0, 0) };
    let mut separator = b'{';
    for (key, value) in root {
        out.push(separator);
        separator = b',';
        write_text(out, key);
        out.push(b':');
        if key == "metadata" {
            let start = out.len();
            spans.splice = write_metadata(out, metadata);
            spans.metadata = (start, out.len());
        } else {
            write_value(out, value);
        }
    }
    out.push(b'}');
    spans
}

/// Every stored object has a uid, which sorts after resourceVersion: the splice point is always before some key.
fn write_metadata(out: &mut Vec<u8>, metadata: &Map<String, Value>) -> usize {
    let mut splice = None;
    let mut separator = b'{';
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        out.push(separator);
        separator = b',';
        if splice.is_none() && key.as_str() > "resourceVersion" {
            splice = Some(out.len());
        }
        write_text(out, key);
        out.push(b':');
        write_value(out, value);
    }
    debug_assert!(splice.is_some(), "a stored object has a uid");
    out.push(b'}');
    splice.unwrap_or(out.len())
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_value(out, &Value::from(text));
}

/// serde_json's maps are sorted, so its compact form is the canonical one.
fn write_value(out: &mut Vec<u8>, value: &Value) {
    if let Err(error) = serde_json::to_writer(&mut *out, value) {
        tracing::error!(%error, "writing JSON to memory");
    }
}

fn length(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend(length(count).to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.extend(text.as_bytes());
}

/// One version of an object, as read from the store; the body is parsed only on demand.
#[derive(Clone, Debug)]
pub struct Stored {
    pub key: Bytes,
    pub revision: Revision,
    value: Bytes,
    body: Bytes,
    splice: usize,
    metadata: (usize, usize),
}

impl Stored {
    pub fn open(kv: &KeyValue) -> Result<Self, StoredError> {
        Self::from_parts(kv.key.clone(), kv.value.clone(), kv.mod_revision)
    }

    pub fn from_parts(key: Bytes, value: Bytes, revision: Revision) -> Result<Self, StoredError> {
        let damaged = |detail: &str| StoredError::Damaged { key: printable(&key), detail: detail.to_owned() };
        match value.first() {
            Some(&FORMAT) => {}
            Some(&format) => return Err(StoredError::Format { key: printable(&key), format }),
            None => return Err(damaged("empty value")),
        }
        let number = |at: usize| read_u32(&value, at).ok_or_else(|| damaged("short header"));
        let (body_start, splice) = (number(4)?, number(8)?);
        let metadata = (number(12)?, number(16)?);
        if body_start > value.len()
            || splice > value.len()
            || metadata.0 > metadata.1
            || metadata.1 > value.len() - body_start
        {
            return Err(damaged("offsets beyond the value"));
        }
        let body = value.slice(body_start..);
        // The revision is spliced in among the metadata.
        if !(metadata.0..=metadata.1).contains(&splice) {
            return Err(damaged("the place of the resourceVersion"));
        }
        Ok(Self { key, revision, value, body, splice, metadata })
    }

    /// The bytes as stored, to compare a new state with.
    pub fn value(&self) -> &Bytes {
        &self.value
    }

    /// The object's JSON without its resourceVersion, for readers of a few fields.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The JSON of `metadata` alone, without its resourceVersion.
    pub fn metadata(&self) -> &[u8] {
        &self.body[self.metadata.0..self.metadata.1]
    }

    pub fn is_deleting(&self) -> bool {
        self.value.get(3).is_some_and(|flags| flags & FLAG_DELETING != 0)
    }

    pub fn schema_level(&self) -> u16 {
        u16::from_le_bytes([self.value.get(1).copied().unwrap_or(0), self.value.get(2).copied().unwrap_or(0)])
    }

    /// Appends the object's JSON, as of its own revision.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend(&self.body[..self.splice]);
        push_version(out, self.revision);
        out.extend(&self.body[self.splice..]);
    }

    /// Appends the JSON of `metadata` alone.
    pub fn write_metadata_json(&self, out: &mut Vec<u8>) {
        out.extend(&self.body[self.metadata.0..self.splice]);
        push_version(out, self.revision);
        out.extend(&self.body[self.splice..self.metadata.1]);
    }

    pub fn json_len(&self) -> usize {
        self.body.len() + 48
    }

    /// The same state seen at a later revision: how a watch reports deletions and selector exits.
    #[must_use]
    pub fn at(mut self, revision: Revision) -> Self {
        self.revision = revision;
        self
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.pairs().0.find(|(own, _)| *own == key).map(|(_, value)| value)
    }

    pub fn field(&self, key: &str) -> Option<&str> {
        let (labels, rest) = self.pairs();
        let mut after = rest + labels.map(|(key, value)| 8 + key.len() + value.len()).sum::<usize>();
        let count = read_u32(&self.value, after).unwrap_or(0);
        after += 4;
        Pairs { value: &self.value, at: after, left: count }.find(|(own, _)| *own == key).map(|(_, value)| value)
    }

    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs().0
    }

    fn pairs(&self) -> (Pairs<'_>, usize) {
        let count = read_u32(&self.value, FIXED_BYTES).unwrap_or(0);
        (Pairs { value: &self.value, at: FIXED_BYTES + 4, left: count }, FIXED_BYTES + 4)
    }

    /// Parses the body and sets resourceVersion.
    pub fn object(&self) -> Result<Object, StoredError> {
        let damaged = |detail: String| StoredError::Damaged { key: printable(&self.key), detail };
        let value: Value = serde_json::from_slice(&self.body).map_err(|error| damaged(error.to_string()))?;
        let mut object = Object::from_value(value).map_err(|error| damaged(error.to_string()))?;
        let version = self.revision.to_string();
        object.set_resource_version(Some(version.as_str()).filter(|_| self.revision > Revision(0)));
        Ok(object)
    }
}

struct Pairs<'a> {
    value: &'a [u8],
    at: usize,
    left: usize,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let key = self.text()?;
        Some((key, self.text()?))
    }
}

impl<'a> Pairs<'a> {
    fn text(&mut self) -> Option<&'a str> {
        let length = read_u32(self.value, self.at)?;
        let start = self.at + 4;
        self.at = start + length;
        std::str::from_utf8(self.value.get(start..self.at)?).ok()
    }
}

/// What was never stored (the result of a dry run) has no version.
fn push_version(out: &mut Vec<u8>, revision: Revision) {
    if revision == Revision(0) {
        return;
    }
    out.extend(b"\"resourceVersion\":\"");
    out.extend(revision.to_string().as_bytes());
    out.extend(b"\",");
}

fn read_u32(value: &[u8], at: usize) -> Option<usize> {
    let bytes = value.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

fn printable(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(value: Value, fields: &[(&'static str, String)]) -> Stored {
        let object = Object::from_value(value).unwrap();
        let bytes = encode(&object, &HeaderFields { schema_level: 3, fields });
        Stored::from_parts("k".into(), bytes.into(), Revision(42)).unwrap()
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn splices_the_revision_and_slices_the_metadata() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "a", "uid": "u", "resourceVersion": "7", "labels": {"x": "1", "y": ""}},
            "spec": {"nodeName": "n"},
        });
        let stored = stored(pod, &[("spec.nodeName", "n".to_owned()), ("status.phase", String::new())]);
        assert_eq!(
            text(|out| stored.write_json(out)),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"x":"1","y":""},"name":"p","namespace":"a","resourceVersion":"42","uid":"u"},"spec":{"nodeName":"n"}}"#
        );
        assert_eq!(
            text(|out| stored.write_metadata_json(out)),
            r#"{"labels":{"x":"1","y":""},"name":"p","namespace":"a","resourceVersion":"42","uid":"u"}"#
        );
        assert_eq!(stored.label("y"), Some(""));
        assert_eq!(stored.label("z"), None);
        assert_eq!((stored.field("spec.nodeName"), stored.field("status.phase")), (Some("n"), Some("")));
        assert_eq!(stored.object().unwrap().resource_version(), Some("42"));
        assert!(!stored.is_deleting());
        assert_eq!(stored.schema_level(), 3);
    }

    #[test]
    fn damage_is_an_error() {
        for value in [&b""[..], &[9, 0, 0], &[FORMAT, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert!(Stored::from_parts("k".into(), Bytes::copy_from_slice(value), Revision(1)).is_err());
        }
        let object = Object::from_value(json!({"metadata": {"name": "x", "uid": "u"}})).unwrap();
        let whole = encode(&object, &HeaderFields::default());
        for splice in [0, length(whole.len())] {
            let mut damaged = whole.clone();
            damaged[8..12].copy_from_slice(&splice.to_le_bytes());
            assert!(Stored::from_parts("k".into(), damaged.into(), Revision(1)).is_err(), "splice at {splice}");
        }
    }
}
