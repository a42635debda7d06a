//! WATCH: what happens to the selected objects, from a revision on.
//!
//! A task per watch moves events from the store's watcher into the response, in the store's order, with back-pressure:
//! a client that does not read stops its own task only. A bookmark carries the watcher's progress, so it never
//! overtakes an event.

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use quorate_api::field::{FieldError, FieldPath};
use quorate_api::status::Status;
use quorate_env::clock::Instant;
use quorate_raft_store::{Consistency, Range, Revision, WatchEnd, WatchRange, Watcher};
use tracing::Instrument;

use super::get::presenter;
use super::read;
use super::selection::Selection;
use crate::body::{Body, BodySender, Gone};
use crate::call::Call;
use crate::query::Query;
use crate::registry::Row;
use crate::server::Server;
use crate::storage::{Stored, read_status, stored_status, too_old_version};
use crate::watch::{EventKind, Framer};

/// A watch without `timeoutSeconds` ends after this long plus up to as much again, as upstream.
const MIN_WATCH: Duration = Duration::from_secs(1_800);
/// Whatever a client asks for, its watch ends after a day.
const MAX_WATCH: Duration = Duration::from_hours(24);
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Objects per read of the initial state.
const INITIAL_PAGE: usize = 500;
/// Events are put together into chunks of about this size where many are waiting.
const CHUNK_BYTES: usize = 64 << 10;

pub(crate) async fn handle(call: &mut Call, row: &Arc<Row>) -> Result<Response<Body>, Status> {
    let options = WatchOptions::parse(&call.query)?;
    let selection = Selection::parse(call, row)?;
    let presenter = presenter(call, row)?;
    let content_type = crate::watch::content_type(presenter.output)?;
    let limit = options.timeout.unwrap_or_else(|| call.server.env().random.jitter(MIN_WATCH, 1.0));
    let consistency = options.consistency();
    let after = match options.revision {
        Some(revision) if revision > Revision(0) && !options.starts_with_state() => revision,
        _ => {
            read::reach(&call.server, consistency).await?;
            newest(&call.server, &selection, consistency).await?
        }
    };
    let (sender, body) = Body::channel();
    let stream = Stream {
        server: call.server.clone(),
        framer: Framer::new(presenter),
        selection,
        bookmarks: options.bookmarks,
        initial: options.starts_with_state(),
        announce_initial: options.send_initial == Some(true),
        deadline: call.server.env().clock.now() + limit,
        sender,
        out: Vec::new(),
    };
    call.server.scope().spawn_until_cancelled("watch", stream.run(after).in_current_span());
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

/// The revision of the state that a watch without a start begins with.
async fn newest(server: &Server, selection: &Selection, consistency: Consistency) -> Result<Revision, Status> {
    let range = Range {
        start: selection.start.clone(),
        end: selection.end.clone(),
        limit: 1,
        keys_only: true,
        ..Range::default()
    };
    Ok(server.storage().page(range, consistency).await?.revision)
}

struct WatchOptions {
    /// `None`: not given.
    revision: Option<Revision>,
    send_initial: Option<bool>,
    bookmarks: bool,
    timeout: Option<Duration>,
}

impl WatchOptions {
    fn parse(query: &Query) -> Result<Self, Status> {
        let send_initial = query.has("sendInitialEvents").then(|| query.flag("sendInitialEvents"));
        let matching = query.get("resourceVersionMatch");
        read::refuse(watch_errors(send_initial, matching, query.get("continue")))?;
        let timeout = match query.get("timeoutSeconds") {
            "" => None,
            text => Some(text.parse().map_err(|_not_a_number| {
                Status::bad_request(format!(
                    "invalid timeoutSeconds: strconv.ParseInt: parsing {text:?}: invalid syntax"
                ))
            })?),
        };
        Ok(Self {
            revision: read::version(query.get("resourceVersion"), "resourceVersion")?,
            send_initial,
            bookmarks: query.flag("allowWatchBookmarks"),
            timeout: timeout.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds).min(MAX_WATCH)),
        })
    }

    /// Whether the state comes before the changes: asked for, or the old meaning of starting at no version or at 0.
    fn starts_with_state(&self) -> bool {
        self.send_initial.unwrap_or(matches!(self.revision, None | Some(Revision(0))))
    }

    fn consistency(&self) -> Consistency {
        match self.revision {
            None => Consistency::Linearizable,
            Some(Revision(0)) => Consistency::Local,
            Some(revision) => Consistency::AtLeast(revision),
        }
    }
}

fn watch_errors(send_initial: Option<bool>, matching: &str, token: &str) -> Vec<FieldError> {
    let path = FieldPath::new("resourceVersionMatch");
    let mut errors = Vec::new();
    if send_initial.is_some() && matching != "NotOlderThan" {
        errors.push(FieldError::forbidden(
            &path,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if !matching.is_empty() {
        if send_initial.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(&path, why));
        }
        if matching != "NotOlderThan" {
            errors.push(FieldError::not_supported(&path, matching, &["NotOlderThan"]));
        }
        if !token.is_empty() {
            errors.push(FieldError::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
        }
    }
    errors
}

/// Why the stream stops.
enum Stop {
    /// The client went away, the time is over, or the server closes: nothing more to say.
    Quiet,
    /// Said as an ERROR event.
    Failed(Status),
}

/// One watch being served.
struct Stream {
    server: Server,
    framer: Framer,
    selection: Selection,
    bookmarks: bool,
    /// The state is sent before the changes …
    initial: bool,
    /// … and its end is announced by a bookmark.
    announce_initial: bool,
    deadline: Instant,
    sender: BodySender,
    out: Vec<u8>,
}

impl Stream {
    async fn run(mut self, after: Revision) {
        let stop = match self.follow(after).await {
            Ok(stop) | Err(stop) => stop,
        };
        if let Stop::Failed(status) = stop {
            if let Err(unwritten) = self.framer.write_error(&status, &mut self.out) {
                tracing::error!(%status, %unwritten, "the end of a watch cannot be told");
            }
            if self.flush().await.is_err() {
                tracing::debug!("the client of a watch went away");
            }
        }
        self.sender.end();
    }

    async fn follow(&mut self, after: Revision) -> Result<Stop, Stop> {
        if self.initial {
            self.send_state(after).await?;
        }
        let range = WatchRange { start: self.selection.start.clone(), end: self.selection.end.clone() };
        let mut watcher = self.server.storage().watch(range, after).map_err(Stop::Failed)?;
        let clock = self.server.env().clock.clone();
        let closing = self.server.closing().clone();
        let mut bookmark_at = clock.now() + BOOKMARK_INTERVAL;
        loop {
            let wake = if self.bookmarks { bookmark_at.min(self.deadline) } else { self.deadline };
            tokio::select! {
                batch = watcher.next() => {
                    let batch = batch.map_err(|end| ended(end, after))?;
                    for event in &batch.events {
                        self.push_event(event)?;
                        if self.out.len() >= CHUNK_BYTES {
                            self.flush().await?;
                        }
                    }
                    self.flush().await?;
                }
                () = clock.sleep_until(wake) => {
                    if self.bookmarks {
                        self.send_bookmark(&watcher).await?;
                    }
                    if clock.now() >= self.deadline {
                        return Ok(Stop::Quiet);
                    }
                    bookmark_at = clock.now() + BOOKMARK_INTERVAL;
                }
                () = closing.cancelled() => return Ok(Stop::Quiet),
                () = self.sender.closed() => return Ok(Stop::Quiet),
            }
        }
    }

    /// Sends the selected objects at `revision` as ADDED, then the bookmark that ends them.
    async fn send_state(&mut self, revision: Revision) -> Result<(), Stop> {
        let mut start = self.selection.start.clone();
        loop {
            let range = Range {
                start,
                end: self.selection.end.clone(),
                limit: INITIAL_PAGE,
                revision: (revision > Revision(0)).then_some(revision),
                ..Range::default()
            };
            let store = self.server.storage().store();
            let page =
                store.range(range, Consistency::Local).await.map_err(|error| Stop::Failed(read_status(error)))?;
            for item in &page.items {
                let stored = Stored::open(item).map_err(|error| Stop::Failed(stored_status(error)))?;
                if self.selection.matches(&stored) {
                    let now = self.server.env().clock.wall();
                    self.framer.write(EventKind::Added, &stored, now, &mut self.out).map_err(Stop::Failed)?;
                    if self.out.len() >= CHUNK_BYTES {
                        self.flush().await?;
                    }
                }
            }
            match page.next_start() {
                Some(next) => start = next,
                None => break,
            }
        }
        if self.announce_initial && self.bookmarks {
            self.framer.write_bookmark(revision, true, &mut self.out).map_err(Stop::Failed)?;
        }
        self.flush().await
    }

    fn push_event(&mut self, event: &quorate_raft_store::Event) -> Result<(), Stop> {
        let seen =
            crate::watch::transition(event, &self.selection).map_err(|error| Stop::Failed(stored_status(error)))?;
        if let Some((kind, stored)) = seen {
            let now = self.server.env().clock.wall();
            self.framer.write(kind, &stored, now, &mut self.out).map_err(Stop::Failed)?;
        }
        Ok(())
    }

    async fn send_bookmark(&mut self, watcher: &Watcher) -> Result<(), Stop> {
        self.framer.write_bookmark(watcher.progress(), false, &mut self.out).map_err(Stop::Failed)?;
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Stop> {
        if self.out.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.out);
        let closing = self.server.closing().clone();
        tokio::select! {
            // What the client has room for is sent even when time is up: the last bookmark comes at the deadline itself.
            biased;
            sent = self.sender.send(chunk) => sent.map_err(|Gone| Stop::Quiet),
            () = closing.cancelled() => Err(Stop::Quiet),
            () = self.server.env().clock.sleep_until(self.deadline) => Err(Stop::Quiet),
        }
    }
}

fn ended(end: WatchEnd, after: Revision) -> Stop {
    match end {
        WatchEnd::Compacted { at } => Stop::Failed(too_old_version(after, at)),
        WatchEnd::Overflow => Stop::Failed(Status::expired("too old resource version: the watch fell behind")),
        WatchEnd::Closed => Stop::Quiet,
    }
}
