//! Events of the store to events of the API: what a selector makes of a change, and how events are framed.

use jiff::Timestamp;
use quorate_api::codec;
use quorate_api::status::Status;
use quorate_raft_store::{Change, Event, Revision};

use crate::negotiate::{Encoding, Form, JSON, MetaVersion, Output};
use crate::present::{Presenter, to_protobuf};
use crate::storage::{Stored, StoredError};
use crate::table;
use crate::verb::selection::Selection;

/// Marks the bookmark after the initial events of a watch that asked for them.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

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

/// The content type of a stream of events; 406 if what is wanted has no form as a stream.
pub(crate) fn content_type(output: Output) -> Result<&'static str, Status> {
    match output.encoding {
        Encoding::Json => Ok(JSON),
        Encoding::Protobuf => Ok(PROTOBUF_STREAM),
        Encoding::Yaml => Err(Status::not_acceptable(&[JSON, PROTOBUF_STREAM])),
    }
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

    /// `now` is what ages in a table count to.
    pub(crate) fn write(
        &mut self,
        kind: EventKind,
        stored: &Stored,
        now: Timestamp,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        self.presenter.now = now;
        self.frame(kind.as_str(), out, |framer, out| {
            let Form::Table(version) = framer.presenter.output.form else { return framer.presenter.write(stored, out) };
            let metadata = format!("{{\"resourceVersion\":\"{}\"}}", stored.revision);
            framer.write_table_head(version, &metadata, out);
            framer.presenter.write_item(stored, out)?;
            out.extend(table::TAIL);
            Ok(())
        })
    }

    fn write_table_head(&mut self, version: MetaVersion, metadata: &str, out: &mut Vec<u8>) {
        let columns = (!self.columns_sent).then_some(self.presenter.row.strategy.columns);
        self.columns_sent = true;
        table::write_head(out, version, metadata, columns);
    }

    /// Says that every event up to `revision` has been sent.
    pub(crate) fn write_bookmark(
        &mut self,
        revision: Revision,
        initial_end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let annotations =
            if initial_end { format!(",\"annotations\":{{\"{INITIAL_EVENTS_END}\":\"true\"}}") } else { String::new() };
        let metadata = format!("{{\"resourceVersion\":\"{revision}\",\"creationTimestamp\":null{annotations}}}");
        self.frame("BOOKMARK", out, |framer, out| {
            match framer.presenter.output.form {
                Form::Object => {
                    let row = &framer.presenter.row;
                    push_object(&row.resource.kind, &row.api_version, &metadata, out);
                }
                Form::Partial(version) => push_object("PartialObjectMetadata", version.api_version(), &metadata, out),
                Form::Table(version) => {
                    let list_metadata = format!("{{\"resourceVersion\":\"{revision}\"}}");
                    framer.write_table_head(version, &list_metadata, out);
                    out.extend(b"{\"cells\":[],\"object\":");
                    push_object("PartialObjectMetadata", version.api_version(), &metadata, out);
                    out.push(b'}');
                    out.extend(table::TAIL);
                }
            }
            Ok(())
        })
    }

    pub(crate) fn write_error(&mut self, status: &Status, out: &mut Vec<u8>) -> Result<(), Status> {
        self.frame("ERROR", out, |_framer, out| {
            out.extend(status.to_json());
            Ok(())
        })
    }

    /// One frame of the stream around the JSON that `object` writes: a line of JSON, or protobuf behind its length.
    fn frame(
        &mut self,
        kind: &str,
        out: &mut Vec<u8>,
        object: impl FnOnce(&mut Self, &mut Vec<u8>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        if self.presenter.output.encoding == Encoding::Protobuf {
            let mut json = Vec::new();
            object(self, &mut json)?;
            out.extend(codec::protobuf::encode_watch_event(kind, &to_protobuf(&json)?));
            return Ok(());
        }
        out.extend(b"{\"type\":\"");
        out.extend(kind.as_bytes());
        out.extend(b"\",\"object\":");
        object(self, out)?;
        out.extend(b"}\n");
        Ok(())
    }
}

fn push_object(kind: &str, api_version: &str, metadata: &str, out: &mut Vec<u8>) {
    out.extend(format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata}}}").as_bytes());
}
