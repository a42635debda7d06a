//! LIST: a page, or everything, from one snapshot, streamed with back-pressure.
//!
//! The first page of the store is read before the response begins, so that refusals are still a `Status`; the rest is
//! produced by a task while the client reads. What a request holds in memory is a store page and a few chunks. A list
//! with a limit is put together before it is answered, up to a size at which it stops with a continue token.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use quorate_api::status::Status;
use quorate_raft_store::{Consistency, Page, Range, ReadError, Revision};
use tracing::Instrument;

use super::get::presenter;
use super::read::{Snapshot, reach};
use super::selection::Selection;
use crate::body::{Body, BodySender, Gone};
use crate::call::Call;
use crate::negotiate::{Encoding, JSON};
use crate::present::{Presenter, encoded, push_json};
use crate::registry::Row;
use crate::server::Server;
use crate::storage::continuation::Continuation;
use crate::storage::{Stored, read_status, stored_status};
use crate::table;

/// Objects per read of the store.
const STORE_PAGE: usize = 1_000;
/// A chunk is sent when it has grown so large.
const CHUNK_BYTES: usize = 128 << 10;
/// A page of a limited list stops after so many bytes, however many items were asked for.
const LIMITED_BYTES: usize = 8 << 20;
/// A client that takes no chunk for so long is given up.
const WRITE_DEADLINE: Duration = Duration::from_secs(60);
/// A list that must be re-encoded whole (YAML, protobuf) may be so large; clients page beyond it.
const MAX_REENCODED_BYTES: usize = 64 << 20;

/// What 410 says when the snapshot of a continued list is gone; the token in it goes on at the newest state.
const INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent list result. You can \
    start a new list without the continue parameter, or use the continue token in this response to retrieve the \
    remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
    created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let presenter = presenter(call, row)?;
    let encoding = presenter.output.encoding;
    let listing = Listing::start(call, row, presenter).await?;
    if encoding != Encoding::Json {
        return encoded(StatusCode::OK, encoding, listing.collect().await?);
    }
    if listing.limited || !listing.page.more {
        return Ok(crate::respond::bytes(StatusCode::OK, JSON, listing.collect().await?));
    }
    let (sender, body) = Body::channel();
    call.server.scope().spawn_until_cancelled("list", listing.stream(sender).in_current_span());
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    Ok(response)
}

/// A list being produced.
struct Listing {
    server: Server,
    presenter: Presenter,
    selection: Selection,
    /// Items wanted; `usize::MAX` without a limit.
    left: usize,
    limited: bool,
    revision: Revision,
    page: Page,
    written: usize,
}

impl Listing {
    async fn start(call: &Call, row: &Arc<Row>, presenter: Presenter) -> Result<Self, Status> {
        let mut selection = Selection::parse(call, row)?;
        let limit = limit(call)?;
        let snapshot = Snapshot::of_list(&call.query, limit)?;
        reach(&call.server, snapshot.consistency()).await?;
        if let Snapshot::Continue(continuation) = &snapshot {
            selection.continue_at(row, continuation)?;
        }
        // From the member's own state upstream ignores the limit, and informers count on a whole list.
        let limited = limit > 0 && snapshot != Snapshot::Any;
        let mut listing = Self {
            server: call.server.clone(),
            presenter,
            selection,
            left: if limited { limit } else { usize::MAX },
            limited,
            revision: Revision(0),
            page: Page::default(),
            written: 0,
        };
        listing.page =
            listing.read(snapshot.pinned(), snapshot.consistency()).await.map_err(|error| expired(error, &snapshot))?;
        listing.revision = match &snapshot {
            Snapshot::Continue(Continuation { revision: Some(revision), .. }) | Snapshot::Exact(revision) => *revision,
            _ => listing.page.revision,
        };
        Ok(listing)
    }

    async fn read(&self, revision: Option<Revision>, consistency: Consistency) -> Result<Page, ReadError> {
        let everything = self.selection.is_everything();
        // One more than wanted tells whether a continue token is due.
        let limit = if everything { self.left.saturating_add(1).min(STORE_PAGE) } else { STORE_PAGE };
        let range = Range {
            start: self.selection.start.clone(),
            end: self.selection.end.clone(),
            limit,
            revision,
            count_remaining: self.limited && everything,
            ..Range::default()
        };
        self.server.storage().store().range(range, consistency).await
    }

    /// Appends the items of the page at hand. Returns the rest of the list, if the limit left one.
    fn write_page(&mut self, out: &mut Vec<u8>) -> Result<Option<Rest>, Status> {
        let page = std::mem::take(&mut self.page);
        for (index, item) in page.items.iter().enumerate() {
            let stored = Stored::open(item).map_err(stored_status)?;
            if !self.selection.matches(&stored) {
                continue;
            }
            let full = self.limited && self.written > 0 && out.len() >= LIMITED_BYTES;
            if self.left == 0 || full {
                let here = (page.items.len() - index) as u64;
                let remaining = page.remaining.map(|beyond| beyond + here).filter(|_| self.selection.is_everything());
                return Ok(Some(Rest { start: stored.key.clone(), remaining }));
            }
            if self.written > 0 {
                out.push(b',');
            }
            self.presenter.write_item(&stored, out)?;
            self.written += 1;
            self.left -= 1;
        }
        self.page.more = page.more;
        if let Some(next) = page.next_start() {
            self.selection.start = next;
        }
        Ok(None)
    }

    async fn next_page(&mut self) -> Result<bool, Status> {
        if !self.page.more {
            return Ok(false);
        }
        self.page = self.read(Some(self.revision), Consistency::Local).await.map_err(read_status)?;
        Ok(true)
    }

    async fn collect(mut self) -> Result<Vec<u8>, Status> {
        let mut items = Vec::new();
        let mut rest = self.write_page(&mut items)?;
        while rest.is_none() && self.next_page().await? {
            rest = self.write_page(&mut items)?;
            if items.len() > MAX_REENCODED_BYTES {
                return Err(Status::too_large("the list is too large for this encoding, use limit or JSON"));
            }
        }
        let mut out = Vec::with_capacity(items.len() + 256);
        self.write_head(&mut out, rest.as_ref());
        out.append(&mut items);
        out.extend(table::TAIL);
        Ok(out)
    }

    /// Sends a list without a limit, and so without a continue token, in chunks.
    async fn stream(mut self, sender: BodySender) {
        let sent = match self.send_all(&sender).await {
            Ok(()) => {
                sender.end();
                Ok(())
            }
            // The status line is out: all that is left is to break off, so that nobody takes this for a whole list.
            Err(Stop::Failed(status)) => sender.fail(status).await,
            Err(Stop::Gone) => Err(Gone),
        };
        if sent.is_err() {
            tracing::debug!("the client of a list went away");
        }
    }

    async fn send_all(&mut self, sender: &BodySender) -> Result<(), Stop> {
        let mut out = Vec::with_capacity(CHUNK_BYTES + (CHUNK_BYTES >> 1));
        self.write_head(&mut out, None);
        while self.pump(&mut out, sender).await? {}
        out.extend(table::TAIL);
        self.send(sender, out).await
    }

    /// A client that does not read holds a snapshot's page and a task; it does so for a while only.
    async fn send(&self, sender: &BodySender, chunk: Vec<u8>) -> Result<(), Stop> {
        match self.server.env().clock.timeout(WRITE_DEADLINE, sender.send(chunk)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Gone)) => Err(Stop::Gone),
            Err(_elapsed) => Err(Stop::Failed(Status::timeout("the client did not read the list", 0))),
        }
    }

    /// Writes the page at hand in chunks and reads the next; false at the end.
    async fn pump(&mut self, out: &mut Vec<u8>, sender: &BodySender) -> Result<bool, Stop> {
        let mut page = std::mem::take(&mut self.page);
        let (more, next) = (page.more, page.next_start());
        for item in page.items.drain(..) {
            let stored = Stored::open(&item).map_err(|error| Stop::Failed(stored_status(error)))?;
            if !self.selection.matches(&stored) {
                continue;
            }
            if self.written > 0 {
                out.push(b',');
            }
            self.presenter.write_item(&stored, out).map_err(Stop::Failed)?;
            self.written += 1;
            if out.len() >= CHUNK_BYTES {
                let full = std::mem::replace(out, Vec::with_capacity(CHUNK_BYTES + (CHUNK_BYTES >> 1)));
                self.send(sender, full).await?;
            }
        }
        self.page.more = more;
        if let Some(next) = next {
            self.selection.start = next;
        }
        self.next_page().await.map_err(Stop::Failed)
    }

    fn write_head(&self, out: &mut Vec<u8>, rest: Option<&Rest>) {
        self.presenter.write_list_head(&self.metadata(rest), out);
    }

    fn metadata(&self, rest: Option<&Rest>) -> String {
        let mut metadata = serde_json::Map::new();
        if let Some(rest) = rest {
            let start = String::from_utf8_lossy(self.presenter.row.home.relative(&rest.start)).into_owned();
            let token = Continuation { revision: Some(self.revision), start }.encode();
            metadata.insert("continue".to_owned(), token.into());
            if let Some(count) = rest.remaining {
                metadata.insert("remainingItemCount".to_owned(), count.into());
            }
        }
        metadata.insert("resourceVersion".to_owned(), self.revision.to_string().into());
        let mut text = Vec::new();
        push_json(&mut text, &metadata);
        String::from_utf8(text).unwrap_or_default()
    }
}

/// Where a limited list stopped.
struct Rest {
    start: Bytes,
    remaining: Option<u64>,
}

enum Stop {
    /// The client went away.
    Gone,
    Failed(Status),
}

/// The `limit` parameter; 0 is none.
pub(super) fn limit(call: &Call) -> Result<usize, Status> {
    let text = call.query.get("limit");
    if text.is_empty() {
        return Ok(0);
    }
    let bad = || Status::bad_request(format!("invalid limit: strconv.ParseInt: parsing {text:?}: invalid syntax"));
    let limit: i64 = text.parse().map_err(|_not_a_number| bad())?;
    Ok(usize::try_from(limit).unwrap_or(0))
}

/// 410; a continued list gets a token that goes on at the newest state.
fn expired(error: ReadError, snapshot: &Snapshot) -> Status {
    let ReadError::Compacted { .. } = error else { return read_status(error) };
    let Snapshot::Continue(continuation) = snapshot else { return read_status(error) };
    let mut status = Status::expired(INCONSISTENT);
    let token = Continuation { revision: None, start: continuation.start.clone() }.encode();
    status.metadata.insert("continue".to_owned(), token.into());
    status
}
