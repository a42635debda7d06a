//! Watches: a ring of recent events in memory, queues for those that keep up, catch-up from the disk for the others.
//!
//! Apply only appends to the ring. The dispatcher moves new events from the ring to the queues of the watchers that
//! want them; a watcher whose queue is full is detached and reads on by itself, so that it costs nobody else.

pub(crate) mod index;
pub(crate) mod ring;
pub(crate) mod watcher;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::metrics::Metrics;
use crate::model::{Event, Revision};
pub use watcher::{Batch, Watcher};

use index::Index;
use ring::Ring;

/// The ring keeps about so much.
const RING_BYTES: usize = 16 << 20;
/// A detached watcher takes so many events at once from the ring.
pub(crate) const RING_STEP_EVENTS: usize = 512;

/// Where events wait for their watchers.
#[derive(Debug)]
pub(crate) struct Hub {
    ring: Mutex<Ring>,
    live: Mutex<Live>,
    /// Wakes the dispatcher.
    appended: tokio::sync::Notify,
    head: tokio::sync::watch::Sender<Revision>,
    /// Events up to here are queued with the live watchers.
    dispatched: AtomicU64,
    metrics: Arc<Metrics>,
    closed: tokio_util::sync::CancellationToken,
}

/// The watchers that keep up, and how far they have been served.
#[derive(Debug)]
struct Live {
    index: Index,
    dispatched: Revision,
    next_id: u64,
}

impl Hub {
    pub(crate) fn new(head: Revision, metrics: Arc<Metrics>, closed: tokio_util::sync::CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            ring: Mutex::new(Ring::new(head, RING_BYTES)),
            live: Mutex::new(Live { index: Index::default(), dispatched: head, next_id: 0 }),
            appended: tokio::sync::Notify::new(),
            head: tokio::sync::watch::Sender::new(head),
            dispatched: AtomicU64::new(head.0),
            metrics,
            closed,
        })
    }

    /// Make applied events known; `head` is the state's revision after them.
    pub(crate) fn publish(&self, events: Vec<Arc<Event>>, head: Revision) {
        if head == *self.head.borrow() {
            return;
        }
        self.ring.lock().append(events, head);
        self.head.send_replace(head);
        self.appended.notify_one();
    }

    /// The state was replaced by one at `head`; what lies between is on the disk or gone.
    pub(crate) fn reset(&self, head: Revision) {
        self.ring.lock().reset(head);
        self.head.send_replace(head);
        self.appended.notify_one();
    }

    pub(crate) fn head(&self) -> Revision {
        *self.head.borrow()
    }

    pub(crate) fn subscribe_head(&self) -> tokio::sync::watch::Receiver<Revision> {
        self.head.subscribe()
    }

    /// Move events from the ring to the watchers until the store closes.
    pub(crate) async fn dispatch(&self) {
        while !self.closed.is_cancelled() {
            if !self.dispatch_step() {
                tokio::select! {
                    () = self.appended.notified() => {}
                    () = self.closed.cancelled() => {}
                }
            }
        }
    }

    /// Returns whether there was anything to do.
    fn dispatch_step(&self) -> bool {
        let mut live = self.live.lock();
        let (step, head) = {
            let ring = self.ring.lock();
            (ring.after(live.dispatched, RING_STEP_EVENTS), ring.head())
        };
        let Some((events, through)) = step else {
            // The ring was reset or has dropped what was not yet dispatched: all read on by themselves.
            let dispatched = live.dispatched;
            live.index.detach_all(dispatched);
            live.dispatched = head;
            self.dispatched.store(head.0, Ordering::Release);
            return true;
        };
        if through == live.dispatched {
            return false;
        }
        for event in &events {
            live.index.offer(event);
        }
        live.index.wake_offered(through);
        live.dispatched = through;
        self.dispatched.store(through.0, Ordering::Release);
        true
    }
}
