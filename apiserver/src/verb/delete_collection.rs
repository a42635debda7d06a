//! DELETE of a collection: what selectors, limit and continue token leave, some objects at a time.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use quorate_api::status::{Reason, Status};
use quorate_raft_store::{Consistency, Range, Revision};
use serde_json::json;

use super::get::presenter;
use super::list;
use super::options::DeleteOptions;
use super::read::{Snapshot, reach};
use super::selection::Selection;
use super::write::Writer;
use crate::body::Body;
use crate::call::Call;
use crate::present::{Presenter, encoded};
use crate::registry::Row;
use crate::storage::continuation::Continuation;
use crate::storage::{Stored, stored_status};

/// Objects per read of the store.
const PAGE: usize = 500;
/// Deletes under way at one time.
const CONCURRENT: usize = 16;
/// Everything selected is deleted, but what the answer tells of it ends here.
const MAX_ANSWER_BYTES: usize = 16 << 20;

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let mut selection = Selection::parse(call, row)?;
    let presenter = presenter(call, row)?;
    let limit = list::limit(call)?;
    let snapshot = Snapshot::of_list(&call.query, limit)?;
    let options = DeleteOptions::read(call).await?;
    let dry_run = options.is_dry_run() || call.query.get("dryRun") == "All";
    reach(&call.server, snapshot.consistency()).await?;
    if let Snapshot::Continue(continuation) = &snapshot {
        selection.continue_at(row, continuation)?;
    }
    let mut out = Items { presenter, bytes: Vec::new(), count: 0, left_out: 0 };
    let mut left = if limit > 0 { limit } else { usize::MAX };
    let mut revision = snapshot.pinned();
    let mut consistency = snapshot.consistency();
    loop {
        let start = selection.start.clone();
        let range = Range { start, end: selection.end.clone(), limit: PAGE, revision, ..Range::default() };
        let page = call.server.storage().page(range, consistency).await?;
        let shown = *revision.get_or_insert(page.revision);
        consistency = Consistency::Local;
        let mut selected = Vec::new();
        let mut rest = None;
        for item in &page.items {
            let stored = Stored::open(item).map_err(stored_status)?;
            if !selection.matches(&stored) {
                continue;
            }
            if left == 0 {
                rest = Some(stored.key.clone());
                break;
            }
            left -= 1;
            selected.push(stored);
        }
        for batch in selected.chunks(CONCURRENT) {
            let deletes = batch.iter().map(|stored| delete_one(call, row, stored, &options, dry_run));
            // A refusal ends the request, but only after the deletes beside it have come to their end.
            for outcome in futures::future::join_all(deletes).await {
                outcome?;
            }
            for stored in batch {
                out.push(stored)?;
            }
        }
        match page.next_start() {
            Some(next) if rest.is_none() => selection.start = next,
            _ => return out.respond(call, shown, rest.as_ref()),
        }
    }
}

async fn delete_one(
    call: &Call,
    row: &Row,
    stored: &Stored,
    options: &DeleteOptions,
    dry_run: bool,
) -> Result<(), Status> {
    let (namespace, name) = place(row, &stored.key);
    let writer = Writer { call, row, namespace: &namespace, name: &name, subresource: "", dry_run };
    match writer.delete(options).await {
        Ok(_) => Ok(()),
        // Somebody else was faster.
        Err(status) if status.is(Reason::NotFound) => Ok(()),
        Err(status) => Err(status),
    }
}

fn place(row: &Row, key: &Bytes) -> (String, String) {
    let relative = String::from_utf8_lossy(row.home.relative(key)).into_owned();
    match relative.split_once('/') {
        Some((namespace, name)) if row.namespaced() => (namespace.to_owned(), name.to_owned()),
        _ => (String::new(), relative),
    }
}

/// The answer: a list of what was deleted, as it was.
struct Items {
    presenter: Presenter,
    bytes: Vec<u8>,
    count: usize,
    left_out: usize,
}

impl Items {
    fn push(&mut self, stored: &Stored) -> Result<(), Status> {
        if self.bytes.len() > MAX_ANSWER_BYTES {
            self.left_out += 1;
            return Ok(());
        }
        if self.count > 0 {
            self.bytes.push(b',');
        }
        self.count += 1;
        self.presenter.write_item(stored, &mut self.bytes)
    }

    /// `rest` is the first object that the limit left.
    fn respond(self, call: &Call, revision: Revision, rest: Option<&Bytes>) -> Result<Response<Body>, Status> {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if let Some(key) = rest {
            let start = String::from_utf8_lossy(self.presenter.row.home.relative(key)).into_owned();
            metadata["continue"] = Continuation { revision: Some(revision), start }.encode().into();
        }
        if self.left_out > 0 {
            let all = self.count + self.left_out;
            call.warnings.add(format!("{all} objects were deleted, the answer holds the first {} of them", self.count));
        }
        let mut out = Vec::with_capacity(self.bytes.len() + 256);
        self.presenter.write_list_head(&metadata.to_string(), &mut out);
        out.extend(self.bytes);
        out.extend(crate::table::TAIL);
        encoded(StatusCode::OK, self.presenter.output.encoding, out)
    }
}
