//! Which objects a list, watch or deletecollection is about.

use bytes::Bytes;
use quorate_api::selector::{FieldSelector, LabelSelector, Labels};
use quorate_api::status::Status;
use quorate_raft_store::key_after;

use crate::call::Call;
use crate::registry::Row;
use crate::storage::Stored;
use crate::storage::continuation::Continuation;

/// The selectors of a request and the keys they leave.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// The keys to look at; a single one where a selector or the path names the object.
    pub(crate) start: Bytes,
    pub(crate) end: Bytes,
    prefix_len: usize,
    namespaced: bool,
}

impl Selection {
    pub(crate) fn parse(call: &Call, row: &Row) -> Result<Self, Status> {
        let labels = LabelSelector::parse(call.query.get("labelSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(call.query.get("fieldSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        if let Some(term) = fields.terms().iter().find(|term| !is_supported(row, &term.field)) {
            return Err(Status::bad_request(unsupported(row, &term.field)));
        }
        let namespace = call.info.namespace.as_str();
        let named =
            if call.info.name.is_empty() { exact(&fields, "metadata.name") } else { Some(call.info.name.as_str()) };
        let namespace = match exact(&fields, "metadata.namespace") {
            Some(selected) if namespace.is_empty() && row.namespaced() => selected,
            _ => namespace,
        };
        let (start, end) = match named {
            Some(name) if !row.namespaced() || !namespace.is_empty() => {
                let key = row.home.object(namespace, name);
                (key.clone(), key_after(&key))
            }
            _ => row.home.range(namespace),
        };
        let prefix_len = row.home.object("", "").len();
        Ok(Self { labels, fields, start, end, prefix_len, namespaced: row.namespaced() })
    }

    /// Goes on where an earlier page of the same list ended.
    pub(crate) fn continue_at(&mut self, row: &Row, continuation: &Continuation) -> Result<(), Status> {
        let from = row.home.absolute(&continuation.start);
        if from < self.start || from > self.end {
            return Err(Status::bad_request("continue key is not valid: it is of another list"));
        }
        self.start = from;
        Ok(())
    }

    /// Whether every object of the range is wanted.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.labels.matches(&LabelsOf(stored))
            && self.fields.matches(|field| self.field(stored, field).unwrap_or_default())
    }

    fn field<'a>(&self, stored: &'a Stored, field: &str) -> Option<&'a str> {
        let relative = std::str::from_utf8(stored.key.get(self.prefix_len..)?).ok()?;
        let (namespace, name) = if self.namespaced { relative.split_once('/')? } else { ("", relative) };
        match field {
            "metadata.name" => Some(name),
            "metadata.namespace" => Some(namespace),
            // An object stored before the field became selectable reads as empty.
            other => Some(stored.field(other).unwrap_or_default()),
        }
    }
}

struct LabelsOf<'a>(&'a Stored);

impl Labels for LabelsOf<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.0.label(key)
    }
}

/// The value that a selector pins `field` to.
fn exact<'a>(fields: &'a FieldSelector, field: &str) -> Option<&'a str> {
    fields.exact_value(field).filter(|value| !value.is_empty())
}

fn is_supported(row: &Row, field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace") || own_labels(row).contains(&field)
}

fn own_labels(row: &Row) -> Vec<&'static str> {
    let labels = (row.strategy.field_labels)(&quorate_api::object::Object::default());
    labels.into_iter().map(|(label, _)| label).collect()
}

/// Upstream words it in two ways, for kinds with labels of their own and for those without.
fn unsupported(row: &Row, field: &str) -> String {
    if own_labels(row).is_empty() {
        return format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
    }
    format!("field label not supported: {field}")
}
