//! Keeps an in-memory view equal to a range of the store: the whole state first, then every change.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_api::status::Status;
use quorate_env::{Backoff, Env, Scope};
use quorate_raft_store::{Change, Consistency, Range, Revision, WatchRange, Watcher};
use tokio::sync::{mpsc, oneshot, watch};

use crate::storage::{Storage, Stored, stored_status};

const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Callers that wait for a view to catch up at once; more go without.
const MAX_WAITING: usize = 1024;
/// A view further behind than this is not waited for.
const CATCH_UP: Duration = Duration::from_millis(250);

/// What is kept up to date.
pub(crate) trait View: Send + Sync + 'static {
    /// Forget everything; the whole state follows.
    fn clear(&self);
    fn put(&self, stored: &Stored);
    fn delete(&self, key: &[u8]);
}

/// A handle on a view's follower.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    env: Env,
    loaded: watch::Receiver<bool>,
    catch_up: mpsc::Sender<oneshot::Sender<()>>,
}

impl Follower {
    /// Starts a task of `scope` that keeps `view` equal to `[start, end)`.
    pub(crate) fn start(
        name: &str,
        storage: Storage,
        range: WatchRange,
        view: Arc<impl View>,
        env: Env,
        scope: &Scope,
    ) -> Self {
        let (loaded_sender, loaded) = watch::channel(false);
        let (catch_up, mut waiting) = mpsc::channel(MAX_WAITING);
        let clock = env.clock.clone();
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX, env.random.clone());
        let name_of_view = name.to_owned();
        scope.spawn_until_cancelled(name, async move {
            loop {
                match load(&storage, &range, &*view).await {
                    Ok(mut watcher) => {
                        backoff.reset();
                        loaded_sender.send_replace(true);
                        follow(&mut watcher, &*view, &mut waiting).await;
                    }
                    Err(status) => tracing::debug!(view = name_of_view, %status, "cannot read the view's state yet"),
                }
                clock.sleep(backoff.next_delay()).await;
            }
        });
        Self { env, loaded, catch_up }
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

    /// Waits, bounded, until every change has been taken in that this member had applied when this was called.
    pub(crate) async fn catch_up(&self) {
        let (sender, receiver) = oneshot::channel();
        if self.catch_up.try_send(sender).is_ok() {
            drop(self.env.clock.timeout(CATCH_UP, receiver).await);
        }
    }
}

async fn load(storage: &Storage, range: &WatchRange, view: &impl View) -> Result<Watcher, Status> {
    view.clear();
    let mut start = range.start.clone();
    let mut revision: Option<Revision> = None;
    loop {
        let page = storage
            .page(Range { start, end: range.end.clone(), revision, ..Range::default() }, Consistency::Local)
            .await?;
        for item in &page.items {
            view.put(&Stored::open(item).map_err(stored_status)?);
        }
        revision = Some(page.revision);
        match page.next_start() {
            Some(next) => start = next,
            None => return storage.watch(range.clone(), page.revision),
        }
    }
}

/// Ends when the watch does. Events come before those who wait, so an answered waiter has seen what was queued.
async fn follow(watcher: &mut Watcher, view: &impl View, waiting: &mut mpsc::Receiver<oneshot::Sender<()>>) {
    loop {
        tokio::select! {
            biased;
            batch = watcher.next() => {
                let Ok(batch) = batch else { return };
                for event in &*batch.events {
                    take(view, &event.change, &event.key);
                }
            }
            Some(waiter) = waiting.recv() => drop(waiter.send(())),
        }
    }
}

fn take(view: &impl View, change: &Change, key: &Bytes) {
    match change {
        Change::Put(kv) => match Stored::open(kv) {
            Ok(stored) => view.put(&stored),
            Err(error) => tracing::error!(%error, "cannot read a stored object"),
        },
        Change::Delete => view.delete(key),
    }
}
