//! Tasks with an owner: a scope cancels and joins what was spawned in it.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Clock;

/// Tasks of this process that panicked, whichever scope they were in.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// How many tasks of this process have panicked; a figure for its metrics.
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Owns tasks and child scopes. Clones share the ownership; [`Scope::close`] ends all of them.
#[derive(Clone, Debug)]
pub struct Scope(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    token: CancellationToken,
    tracker: TaskTracker,
    running: Mutex<BTreeMap<u64, String>>,
    next_id: AtomicU64,
    /// A child that is gone had nothing left to end.
    children: Mutex<Vec<Weak<Inner>>>,
}

/// Removes the task's name when it ends, also by panic or by being dropped.
struct Registration {
    scope: Scope,
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.scope.0.running).remove(&self.id);
    }
}

impl Registration {
    fn name(&self) -> String {
        lock(&self.scope.0.running).get(&self.id).cloned().unwrap_or_default()
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scope {
    pub fn root(name: &str) -> Self {
        Self::with_token(name.to_owned(), CancellationToken::new())
    }

    fn with_token(name: String, token: CancellationToken) -> Self {
        Self(Arc::new(Inner {
            name,
            token,
            tracker: TaskTracker::new(),
            running: Mutex::default(),
            next_id: AtomicU64::new(0),
            children: Mutex::default(),
        }))
    }

    /// A scope that ends with this one, and may end earlier.
    pub fn child(&self, name: &str) -> Self {
        let child = Self::with_token(format!("{}/{name}", self.0.name), self.0.token.child_token());
        let mut children = lock(&self.0.children);
        children.retain(|child| child.strong_count() > 0);
        children.push(Arc::downgrade(&child.0));
        child
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Run `future` as a task of this scope. It must end by itself soon after [`Scope::cancelled`] resolves: it is
    /// never dropped, and [`Scope::close`] names it if it takes too long. A panic ends the task alone; it is logged and
    /// counted by [`panics`].
    #[expect(clippy::disallowed_methods, reason = "this is the owner that the ban points to")]
    pub fn spawn<F>(&self, name: &str, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let registration = self.register(name);
        tokio::spawn(self.0.tracker.track_future(async move {
            if let Err(panic) = AssertUnwindSafe(future).catch_unwind().await {
                PANICS.fetch_add(1, Ordering::Relaxed);
                tracing::error!(task = registration.name(), panic = message(&*panic), "a task panicked");
            }
            drop(registration);
        }));
    }

    /// As [`Scope::spawn`], but the future is dropped at its next await point once the scope is cancelled.
    pub fn spawn_until_cancelled<F>(&self, name: &str, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let token = self.token();
        self.spawn(name, async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = future => {}
            }
        });
    }

    fn register(&self, name: &str) -> Registration {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        lock(&self.0.running).insert(id, format!("{}/{name}", self.0.name));
        Registration { scope: self.clone(), id }
    }

    /// Resolves when the scope has been asked to end.
    pub async fn cancelled(&self) {
        self.0.token.cancelled().await;
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.token.is_cancelled()
    }

    pub fn token(&self) -> CancellationToken {
        self.0.token.clone()
    }

    /// Ask all tasks to end, without waiting.
    pub fn cancel(&self) {
        self.0.token.cancel();
    }

    /// Cancel, then wait up to `deadline` for every task here and below. Returns the names of those that did not end.
    pub async fn close(&self, deadline: Duration) -> Vec<String> {
        self.cancel();
        let all = self.family();
        let joined = async {
            for scope in &all {
                scope.0.tracker.close();
                scope.0.tracker.wait().await;
            }
        };
        // No clock is asked for the time of day, so any will do; under simulation both are tokio's paused time.
        if Clock::real().timeout(deadline, joined).await.is_ok() {
            return Vec::new();
        }
        all.iter().flat_map(|scope| lock(&scope.0.running).values().cloned().collect::<Vec<_>>()).collect()
    }

    /// This scope and all below it.
    fn family(&self) -> Vec<Scope> {
        let children: Vec<Scope> = lock(&self.0.children).iter().filter_map(Weak::upgrade).map(Self).collect();
        std::iter::once(self.clone()).chain(children.iter().flat_map(Self::family)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn close_joins_children() {
        let root = Scope::root("root");
        let child = root.child("part");
        let waiting = child.clone();
        child.spawn("waits", async move { waiting.cancelled().await });
        child.spawn_until_cancelled("forever", std::future::pending());
        assert_eq!(root.close(Duration::from_secs(5)).await, Vec::<String>::new());
        assert!(child.is_cancelled());
    }

    #[tokio::test]
    async fn a_panic_ends_its_task_alone_and_is_counted() {
        let root = Scope::root("root");
        let before = panics();
        root.spawn("broken", async { panic!("as this test wants") });
        assert_eq!(root.close(Duration::from_secs(5)).await, Vec::<String>::new());
        assert_eq!(panics(), before + 1);
    }

    #[tokio::test]
    async fn a_child_that_is_gone_is_forgotten() {
        let root = Scope::root("root");
        let busy = root.child("busy");
        busy.spawn_until_cancelled("waits", std::future::pending());
        drop(busy);
        for _ in 0..100 {
            drop(root.child("short"));
        }
        assert!(lock(&root.0.children).len() <= 2, "a scope lives as long as its tasks or its owners");
        assert_eq!(root.family().len(), 2, "the busy one is still joined");
        assert_eq!(root.close(Duration::from_secs(5)).await, Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn close_names_what_did_not_end() {
        let root = Scope::root("root");
        root.child("part").spawn("stuck", std::future::pending());
        assert_eq!(root.close(Duration::from_millis(10)).await, ["root/part/stuck"]);
    }
}
