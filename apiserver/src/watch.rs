//! Events of the store to events of the API: what a selector makes of a change, and how events are framed.

use quorate_api::status::Status;
use quorate_raft_store::{Change, Event, Revision};

use crate::negotiate::Form;
use crate::present::Presenter;
use crate::storage::{Stored, StoredError};
use crate::table;
use crate::verb::selection::Selection;

/// Marks the bookmark after the initial events of a watch that asked for them.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// What a watcher with this selection sees of a change. An object that leaves the selection is deleted for it, with
/// the content it had and the revision of the change; one that enters is added.
pub(crate) fn transition(event: &Event, selection: &Selection) -> Result<Option<(EventKind, Stored)>, StoredError> {
    let previous = match &event.previous {
        Some(kv) => Some(Stored::open(kv)?).filter(|stored| selection.matches(stored)),
        None => None,
    };
    let current = match &event.change {
        Change::Put(kv) => Some(Stored::open(kv)?).filter(|stored| selection.matches(stored)),
        Change::Delete => None,
    };
    Ok(match (previous, current) {
        (None, Some(current)) => Some((EventKind::Added, current)),
        (Some(_), Some(current)) => Some((EventKind::Modified, current)),
        (Some(previous), None) => Some((EventKind::Deleted, previous.at(event.revision))),
        (None, None) => None,
    })
}

/// Writes the frames of one watch.
#[derive(Debug)]
pub(crate) struct Framer {
    presenter: Presenter,
    /// Only the first table of a watch has columns.
    columns_sent: bool,
}

impl Framer {
    pub(crate) fn new(presenter: Presenter) -> Self {
        Self { presenter, columns_sent: false }
    }

    pub(crate) fn write(&mut self, kind: EventKind, stored: &Stored, out: &mut Vec<u8>) -> Result<(), Status> {
        begin(kind.as_str(), out);
        if let Form::Table(version) = self.presenter.output.form {
            let metadata = format!("{{\"resourceVersion\":\"{}\"}}", stored.revision);
            self.write_table_head(version, &metadata, out);
            self.presenter.write_item(stored, out)?;
            out.extend(table::TAIL);
        } else {
            self.presenter.write(stored, out)?;
        }
        end(out);
        Ok(())
    }

    fn write_table_head(&mut self, version: crate::negotiate::MetaVersion, metadata: &str, out: &mut Vec<u8>) {
        let columns = (!self.columns_sent).then_some(self.presenter.row.strategy.columns);
        self.columns_sent = true;
        table::write_head(out, version, metadata, columns);
    }

    /// Says that every event up to `revision` has been sent.
    pub(crate) fn write_bookmark(&mut self, revision: Revision, initial_end: bool, out: &mut Vec<u8>) {
        begin("BOOKMARK", out);
        let annotations =
            if initial_end { format!(",\"annotations\":{{\"{INITIAL_EVENTS_END}\":\"true\"}}") } else { String::new() };
        let metadata = format!("{{\"resourceVersion\":\"{revision}\"{annotations}}}");
        match self.presenter.output.form {
            Form::Object => {
                let row = &self.presenter.row;
                push_object(&row.resource.kind, &row.api_version, &metadata, out);
            }
            Form::Partial(version) => push_object("PartialObjectMetadata", version.api_version(), &metadata, out),
            Form::Table(version) => {
                let list_metadata = format!("{{\"resourceVersion\":\"{revision}\"}}");
                self.write_table_head(version, &list_metadata, out);
                out.extend(b"{\"cells\":[],\"object\":");
                push_object("PartialObjectMetadata", version.api_version(), &metadata, out);
                out.push(b'}');
                out.extend(table::TAIL);
            }
        }
        end(out);
    }

    pub(crate) fn write_error(&self, status: &Status, out: &mut Vec<u8>) {
        begin("ERROR", out);
        out.extend(status.to_json());
        end(out);
    }
}

fn begin(kind: &str, out: &mut Vec<u8>) {
    out.extend(b"{\"type\":\"");
    out.extend(kind.as_bytes());
    out.extend(b"\",\"object\":");
}

fn end(out: &mut Vec<u8>) {
    out.extend(b"}\n");
}

fn push_object(kind: &str, api_version: &str, metadata: &str, out: &mut Vec<u8>) {
    out.extend(format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata}}}").as_bytes());
}
