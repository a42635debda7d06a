//! One watcher: a queue while it keeps up, a cursor while it does not.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::{Hub, RING_STEP_EVENTS};
use crate::error::{ReadError, WatchEnd};
use crate::model::{Event, Revision, WatchRange};
use crate::mvcc::weight;
use crate::read::Reader;

/// A live watcher's queue; one that is fuller reads on by itself.
const QUEUE_EVENTS: usize = 4096;
const QUEUE_BYTES: usize = 4 << 20;
/// A batch has at most about so many events.
const BATCH_EVENTS: usize = 1024;
/// A watcher that is behind the ring reads pieces of about this size from the disk.
const CATCH_UP_BYTES: usize = 1 << 20;

/// Events in revision order; never a part of a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Every event at or before this revision has been returned with this batch or before it.
    pub revision: Revision,
    pub events: Vec<Arc<Event>>,
}

/// The part of a watcher that the dispatcher sees.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: u64,
    pub(crate) range: WatchRange,
    /// Only later events are wanted.
    after: Revision,
    waiting: Mutex<Waiting>,
    arrived: tokio::sync::Notify,
}

#[derive(Debug)]
struct Waiting {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// The events up to here are complete.
    reached: Revision,
    detached: bool,
}

impl Queue {
    fn new(id: u64, range: WatchRange, after: Revision) -> Self {
        let waiting = Waiting { events: VecDeque::new(), bytes: 0, reached: after, detached: false };
        Self { id, range, after, waiting: Mutex::new(waiting), arrived: tokio::sync::Notify::new() }
    }

    /// Returns false if there is no room.
    pub(super) fn push(&self, event: &Arc<Event>) -> bool {
        if event.revision <= self.after {
            return true;
        }
        let mut waiting = self.waiting.lock();
        let bytes = weight(event);
        let full = waiting.events.len() >= QUEUE_EVENTS || waiting.bytes + bytes > QUEUE_BYTES;
        if full && !waiting.events.is_empty() {
            return false;
        }
        waiting.bytes += bytes;
        waiting.events.push_back(Arc::clone(event));
        true
    }

    pub(super) fn reached(&self, through: Revision) {
        let mut waiting = self.waiting.lock();
        waiting.reached = waiting.reached.max(through);
    }

    /// Nothing more will come; what is complete may still be taken.
    pub(super) fn detach(&self) {
        let mut waiting = self.waiting.lock();
        let reached = waiting.reached;
        waiting.events.retain(|event| event.revision <= reached);
        waiting.detached = true;
    }

    pub(super) fn wake(&self) {
        self.arrived.notify_one();
    }

    fn take(&self) -> Taken {
        let mut waiting = self.waiting.lock();
        let mut events = Vec::new();
        while let Some(event) = waiting.events.front() {
            let splits = events.last().is_some_and(|last: &Arc<Event>| last.revision == event.revision);
            if event.revision > waiting.reached || (events.len() >= BATCH_EVENTS && !splits) {
                break;
            }
            waiting.bytes -= weight(event);
            events.extend(waiting.events.pop_front());
        }
        let complete = waiting.events.front().is_none_or(|next| next.revision > waiting.reached);
        match events.last() {
            Some(last) => {
                Taken::Events(Batch { revision: if complete { waiting.reached } else { last.revision }, events })
            }
            None if waiting.detached => Taken::Detached { reached: waiting.reached },
            None => Taken::Nothing,
        }
    }

    fn is_empty(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.events.is_empty() && !waiting.detached
    }
}

enum Taken {
    Events(Batch),
    Nothing,
    Detached { reached: Revision },
}

/// Receives every event of its range after a revision, in order, without gap or duplicate.
#[derive(Debug)]
pub struct Watcher {
    hub: Arc<Hub>,
    reader: Reader,
    range: WatchRange,
    /// Every event up to here was returned.
    cursor: Revision,
    queue: Option<Arc<Queue>>,
}

impl Watcher {
    pub(crate) fn new(hub: Arc<Hub>, reader: Reader, range: WatchRange, after: Revision) -> Self {
        Self { hub, reader, range, cursor: after, queue: None }
    }

    /// The next events. Cancel-safe: what was not returned comes with the next call.
    pub async fn next(&mut self) -> Result<Batch, WatchEnd> {
        loop {
            if self.hub.closed.is_cancelled() {
                return Err(WatchEnd::Closed);
            }
            let batch = match self.queue.clone() {
                Some(queue) => self.take_or_wait(&queue).await,
                None => self.catch_up().await?,
            };
            if let Some(batch) = batch {
                self.cursor = self.cursor.max(batch.revision);
                if !batch.events.is_empty() {
                    return Ok(batch);
                }
            }
        }
    }

    /// A revision such that every event at or before it has been returned by [`Watcher::next`].
    pub fn progress(&self) -> Revision {
        // Read before the queue is looked at: all events up to it were queued by then.
        let dispatched = Revision(self.hub.dispatched.load(Ordering::Acquire));
        match &self.queue {
            Some(queue) if queue.is_empty() => self.cursor.max(dispatched),
            Some(_) | None => self.cursor,
        }
    }

    async fn take_or_wait(&mut self, queue: &Queue) -> Option<Batch> {
        match queue.take() {
            Taken::Events(batch) => Some(batch),
            Taken::Detached { reached } => {
                self.cursor = self.cursor.max(reached);
                self.queue = None;
                None
            }
            Taken::Nothing => {
                tokio::select! {
                    () = queue.arrived.notified() => {}
                    () = self.hub.closed.cancelled() => {}
                }
                None
            }
        }
    }

    /// A step towards the head: join the live watchers if near it, else read from the ring, else from the disk.
    async fn catch_up(&mut self) -> Result<Option<Batch>, WatchEnd> {
        match self.hub.join(&self.range, self.cursor) {
            Joined::Live(queue) => {
                self.queue = Some(queue);
                Ok(None)
            }
            Joined::Behind(events, through) => {
                let events = events.into_iter().filter(|event| self.range.contains(&event.key)).collect();
                Ok(Some(Batch { revision: through, events }))
            }
            Joined::OffRing => {
                let changes = self.reader.changes(self.cursor, CATCH_UP_BYTES, self.range.clone()).await;
                match changes {
                    Ok(changes) => Ok(Some(Batch { revision: changes.through, events: changes.events })),
                    Err(ReadError::Compacted { at }) => Err(WatchEnd::Compacted { at }),
                    Err(error) => {
                        tracing::error!(%error, "a watch cannot read its history");
                        Err(WatchEnd::Overflow)
                    }
                }
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            self.hub.live.lock().index.remove(&self.range, queue.id);
        }
        self.hub.metrics.watchers.dec();
    }
}

enum Joined {
    Live(Arc<Queue>),
    Behind(Vec<Arc<Event>>, Revision),
    OffRing,
}

impl Hub {
    /// Attach a watcher that has seen all up to `after`, or tell what it must read first.
    fn join(&self, range: &WatchRange, after: Revision) -> Joined {
        let mut live = self.live.lock();
        let dispatched = live.dispatched;
        let missed = if after >= dispatched {
            Vec::new()
        } else {
            let step = self.ring.lock().after(after, RING_STEP_EVENTS);
            match step {
                None => return Joined::OffRing,
                Some((events, through)) if through < dispatched => return Joined::Behind(events, through),
                // What lies after `dispatched` will be dispatched to it.
                Some((events, _)) => events.into_iter().filter(|event| event.revision <= dispatched).collect(),
            }
        };
        live.next_id += 1;
        let queue = Arc::new(Queue::new(live.next_id, range.clone(), after.max(dispatched)));
        {
            let mut waiting = queue.waiting.lock();
            waiting.events.extend(missed.into_iter().filter(|event| range.contains(&event.key)));
            waiting.bytes = waiting.events.iter().map(|event| weight(event)).sum();
        }
        live.index.insert(range, Arc::clone(&queue));
        Joined::Live(queue)
    }
}
