//! Keeps an in-memory view equal to a range of the store: the whole state first, then every change.
//!
//! When a watch ends, the state is read anew beside the view and takes its place when it is whole: meanwhile questions
//! are answered from what was known, never from a part.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use prometheus::IntCounter;
use quorate_api::status::Status;
use quorate_env::{Backoff, Env, Scope};
use quorate_raft_store::{Change, Consistency, Range, Revision, WatchRange, Watcher};
use tokio::sync::{mpsc, oneshot, watch};

use crate::storage::{Storage, Stored};

const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Failures in a row before they are more than a matter of start-up.
const QUIET_FAILURES: u32 = 3;
/// Callers that wait for a view to catch up at once; more go without, and are counted.
const MAX_WAITING: usize = 1024;
/// A view further behind than this is not waited for.
const CATCH_UP: Duration = Duration::from_millis(250);

/// What is kept up to date.
pub(crate) trait View: Send + Sync + 'static {
    type State: Default + Send + Sync;

    fn state(&self) -> &RwLock<Self::State>;
    fn put(&self, state: &mut Self::State, stored: &Stored);
    fn delete(&self, state: &mut Self::State, key: &[u8]);
}

/// What all followers of one server are given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) env: &'a Env,
    /// Owns the followers' tasks.
    pub(crate) scope: &'a Scope,
    /// Counts callers that were not waited for.
    pub(crate) unheard: &'a IntCounter,
}

/// A handle on a view's follower.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    env: Env,
    loaded: watch::Receiver<bool>,
    catch_up: mpsc::Sender<oneshot::Sender<()>>,
    unheard: IntCounter,
}

impl Follower {
    /// Starts a task that keeps `view` equal to `range`.
    pub(crate) fn start(name: &str, source: Source<'_>, range: WatchRange, view: Arc<impl View>) -> Self {
        let (loaded_sender, loaded) = watch::channel(false);
        let (catch_up, mut waiting) = mpsc::channel(MAX_WAITING);
        let (storage, env) = (source.storage.clone(), source.env.clone());
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX, env.random.clone());
        let (clock, name_of_view) = (env.clock.clone(), name.to_owned());
        source.scope.spawn_until_cancelled(name, async move {
            let mut failures = 0;
            loop {
                match load(&storage, &range, &*view).await {
                    Ok(mut watcher) => {
                        backoff.reset();
                        failures = 0;
                        loaded_sender.send_replace(true);
                        follow(&mut watcher, &*view, &mut waiting).await;
                    }
                    Err(status) => {
                        failures += 1;
                        if failures <= QUIET_FAILURES {
                            tracing::debug!(view = name_of_view, %status, "cannot read the view's state yet");
                        } else {
                            tracing::warn!(view = name_of_view, %status, failures, "cannot read the view's state");
                        }
                    }
                }
                clock.sleep(backoff.next_delay()).await;
            }
        });
        Self { env, loaded, catch_up, unheard: source.unheard.clone() }
    }

    pub(crate) fn is_loaded(&self) -> bool {
        *self.loaded.borrow()
    }

    /// Resolves when the whole state has been read once.
    pub(crate) async fn wait_loaded(&self) {
        let mut loaded = self.loaded.clone();
        // An error means that the follower has ended with its scope: nothing will be loaded any more.
        drop(loaded.wait_for(|loaded| *loaded).await);
    }

    /// As [`Follower::wait_loaded`], for so long at most; tells whether the state has been read.
    pub(crate) async fn loaded_within(&self, limit: Duration) -> bool {
        self.is_loaded() || (self.env.clock.timeout(limit, self.wait_loaded()).await.is_ok() && self.is_loaded())
    }

    /// Waits, bounded, until every change has been taken in that this member had applied when this was called.
    pub(crate) async fn catch_up(&self) {
        let (sender, receiver) = oneshot::channel();
        match self.catch_up.try_send(sender) {
            Ok(()) => drop(self.env.clock.timeout(CATCH_UP, receiver).await),
            Err(_full_or_ended) => self.unheard.inc(),
        }
    }
}

async fn load<V: View>(storage: &Storage, range: &WatchRange, view: &V) -> Result<Watcher, Status> {
    let mut fresh = V::State::default();
    let mut start = range.start.clone();
    let mut revision: Option<Revision> = None;
    loop {
        let page = storage
            .page(Range { start, end: range.end.clone(), revision, ..Range::default() }, Consistency::Local)
            .await?;
        for item in &page.items {
            match Stored::open(item) {
                Ok(stored) => view.put(&mut fresh, &stored),
                // One object that cannot be read must not take the others' effect away.
                Err(error) => tracing::error!(%error, "cannot read a stored object"),
            }
        }
        revision = Some(page.revision);
        match page.next_start() {
            Some(next) => start = next,
            None => {
                let watcher = storage.watch(range.clone(), page.revision)?;
                *view.state().write() = fresh;
                return Ok(watcher);
            }
        }
    }
}

/// Ends when the watch does. Events come before those who wait, so an answered waiter has seen what was queued.
async fn follow<V: View>(watcher: &mut Watcher, view: &V, waiting: &mut mpsc::Receiver<oneshot::Sender<()>>) {
    loop {
        tokio::select! {
            biased;
            batch = watcher.next() => {
                let Ok(batch) = batch else { return };
                for event in &*batch.events {
                    match &event.change {
                        Change::Put(kv) => match Stored::open(kv) {
                            Ok(stored) => view.put(&mut view.state().write(), &stored),
                            Err(error) => tracing::error!(%error, "cannot read a stored object"),
                        },
                        Change::Delete => view.delete(&mut view.state().write(), &event.key),
                    }
                }
            }
            Some(waiter) = waiting.recv() => drop(waiter.send(())),
        }
    }
}

#[cfg(test)]
mod tests;
