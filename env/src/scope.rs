//! Tasks with an owner: a scope cancels and joins what was spawned in it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Owns tasks and child scopes. Clones share the ownership; [`Scope::close`] ends all of them.
#[derive(Clone, Debug)]
pub struct Scope(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    token: CancellationToken,
    tracker: TaskTracker,
    running: Mutex<BTreeMap<u64, String>>,
    next_id: std::sync::atomic::AtomicU64,
    children: Mutex<Vec<Scope>>,
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
            next_id: std::sync::atomic::AtomicU64::new(0),
            children: Mutex::default(),
        }))
    }

    /// A scope that ends with this one, and may end earlier.
    pub fn child(&self, name: &str) -> Self {
        let child = Self::with_token(format!("{}/{name}", self.0.name), self.0.token.child_token());
        let mut children = lock(&self.0.children);
        children.retain(|scope| !scope.is_finished());
        children.push(child.clone());
        child
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Run `future` as a task of this scope. It must end soon after [`Scope::cancelled`] resolves, else it is dropped
    /// at its next await point when the scope is cancelled and reported by [`Scope::close`] if even that takes too long.
    #[expect(clippy::disallowed_methods, reason = "this is the owner that the ban points to")]
    pub fn spawn<F>(&self, name: &str, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let registration = self.register(name);
        tokio::spawn(self.0.tracker.track_future(async move {
            let _registration = registration;
            future.await;
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
        let id = self.0.next_id.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
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

    fn is_finished(&self) -> bool {
        self.is_cancelled() && lock(&self.0.running).is_empty() && lock(&self.0.children).iter().all(Self::is_finished)
    }

    /// Cancel, then wait up to `deadline` for every task here and below. Returns the names of those that did not end.
    #[expect(clippy::disallowed_methods, reason = "a deadline on shutdown is wall-clock by nature")]
    pub async fn close(&self, deadline: Duration) -> Vec<String> {
        self.cancel();
        let all = self.family();
        let joined = async {
            for scope in &all {
                scope.0.tracker.close();
                scope.0.tracker.wait().await;
            }
        };
        if tokio::time::timeout(deadline, joined).await.is_ok() {
            return Vec::new();
        }
        all.iter().flat_map(|scope| lock(&scope.0.running).values().cloned().collect::<Vec<_>>()).collect()
    }

    /// This scope and all below it.
    fn family(&self) -> Vec<Scope> {
        let children = lock(&self.0.children).clone();
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

    #[tokio::test(start_paused = true)]
    async fn close_names_what_did_not_end() {
        let root = Scope::root("root");
        root.child("part").spawn("stuck", std::future::pending());
        assert_eq!(root.close(Duration::from_millis(10)).await, ["root/part/stuck"]);
    }
}
