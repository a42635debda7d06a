//! The runtime that raft and the member network have to themselves, so that no other work starves them.

use std::future::Future;

use quorate_env::Scope;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// A runtime of one thread, or the caller's own where there must be no threads.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    handle: Handle,
    stop: CancellationToken,
}

impl Lane {
    pub(crate) fn current() -> Self {
        Self { handle: Handle::current(), stop: CancellationToken::new() }
    }

    pub(crate) fn thread() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let lane = Self { handle: runtime.handle().clone(), stop: CancellationToken::new() };
        let stop = lane.stop.clone();
        std::thread::Builder::new().name("raft".to_owned()).spawn(move || {
            runtime.block_on(stop.cancelled());
            runtime.shutdown_background();
        })?;
        Ok(lane)
    }

    /// Run a future there; `None` if the lane has stopped.
    pub(crate) async fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Option<T> {
        self.handle.spawn(future).await.ok()
    }

    /// Start a task of `scope` there.
    pub(crate) fn spawn(&self, scope: &Scope, name: &str, future: impl Future<Output = ()> + Send + 'static) {
        let _context = self.handle.enter();
        scope.spawn_until_cancelled(name, future);
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }
}
