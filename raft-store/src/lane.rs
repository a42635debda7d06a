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
    ended: CancellationToken,
}

impl Lane {
    pub(crate) fn current() -> Self {
        Self { handle: Handle::current(), stop: CancellationToken::new(), ended: ended() }
    }

    pub(crate) fn thread() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let lane = Self { handle: runtime.handle().clone(), stop, ended };
        let (stop, ended) = (lane.stop.clone(), lane.ended.clone());
        std::thread::Builder::new().name("raft".to_owned()).spawn(move || {
            runtime.block_on(stop.cancelled());
            drop(runtime);
            ended.cancel();
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

    /// Drop all that runs there; returns when nothing of it is left.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }
}

/// The caller's own runtime is not ours to end.
fn ended() -> CancellationToken {
    let ended = CancellationToken::new();
    ended.cancel();
    ended
}
