//! DELETE of a collection: what the selectors leave, one object after another.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use quorate_api::status::{Reason, Status};
use quorate_raft_store::{Consistency, Range, Revision};

use super::get::presenter;
use super::options::DeleteOptions;
use super::selection::Selection;
use super::write::Writer;
use crate::body::Body;
use crate::call::Call;
use crate::present::{Presenter, encoded};
use crate::registry::Row;
use crate::storage::{Stored, stored_status};

/// Objects per read of the store.
const PAGE: usize = 500;
/// Deletes under way at one time.
const CONCURRENT: usize = 16;

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let selection = Selection::parse(call, row)?;
    let presenter = presenter(call, row)?;
    let options = DeleteOptions::read(call).await?;
    let dry_run = options.is_dry_run() || call.query.get("dryRun") == "All";
    let mut out = Items { presenter, bytes: Vec::new(), count: 0 };
    let mut start = selection.start.clone();
    let mut revision = None;
    loop {
        let range = Range { start, end: selection.end.clone(), limit: PAGE, revision, ..Range::default() };
        let consistency = if revision.is_none() { Consistency::Linearizable } else { Consistency::Local };
        let page = call.server.storage().page(range, consistency).await?;
        revision = Some(page.revision);
        let mut selected = Vec::new();
        for item in &page.items {
            let stored = Stored::open(item).map_err(stored_status)?;
            if selection.matches(&stored) {
                selected.push(stored);
            }
        }
        for batch in selected.chunks(CONCURRENT) {
            let deletes = batch.iter().map(|stored| delete_one(call, row, stored, &options, dry_run));
            futures::future::try_join_all(deletes).await?;
            for stored in batch {
                out.push(stored)?;
            }
        }
        match page.next_start() {
            Some(next) => start = next,
            None => break,
        }
    }
    out.respond(revision.unwrap_or_default())
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
}

impl Items {
    fn push(&mut self, stored: &Stored) -> Result<(), Status> {
        if self.count > 0 {
            self.bytes.push(b',');
        }
        self.count += 1;
        self.presenter.write_item(stored, &mut self.bytes)
    }

    fn respond(self, revision: Revision) -> Result<Response<Body>, Status> {
        let metadata = format!("{{\"resourceVersion\":\"{revision}\"}}");
        let mut out = Vec::with_capacity(self.bytes.len() + 256);
        self.presenter.write_list_head(&metadata, &mut out);
        out.extend(self.bytes);
        out.extend(crate::table::TAIL);
        encoded(StatusCode::OK, self.presenter.output.encoding, out)
    }
}
