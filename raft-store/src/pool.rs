//! Threads for calls that may wait for a disk, so that no async worker does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

/// So many calls may wait for a thread; further callers wait for a place.
const QUEUED_CALLS: usize = 1024;

type Job = Box<dyn FnOnce() + Send>;

/// A few threads of its own, or none: then calls run where they are made, as a simulation needs it.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Option<Arc<Threads>>);

struct Threads {
    queue: Mutex<Queue>,
    arrived: Condvar,
    places: Semaphore,
    running: AtomicUsize,
    ended: CancellationToken,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Threads")
    }
}

/// The pool has been closed.
#[derive(Debug)]
pub(crate) struct PoolClosed;

impl Pool {
    pub(crate) fn inline() -> Self {
        Self(None)
    }

    /// Start `count` threads. They end when the pool is closed.
    pub(crate) fn threads(name: &str, count: usize) -> std::io::Result<Self> {
        let threads = Arc::new(Threads {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            places: Semaphore::new(QUEUED_CALLS),
            running: AtomicUsize::new(count),
            ended: CancellationToken::new(),
        });
        for number in 0..count {
            let threads = Arc::clone(&threads);
            std::thread::Builder::new().name(format!("{name}-{number}")).spawn(move || {
                threads.work();
                if threads.running.fetch_sub(1, Ordering::AcqRel) == 1 {
                    threads.ended.cancel();
                }
            })?;
        }
        Ok(Self(Some(threads)))
    }

    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolClosed> {
        let Some(threads) = &self.0 else { return Ok(call()) };
        let _place = threads.places.acquire().await.map_err(|_closed| PoolClosed)?;
        let (answer, answered) = oneshot::channel();
        {
            let mut queue = threads.queue.lock();
            if queue.closed {
                return Err(PoolClosed);
            }
            queue.jobs.push_back(Box::new(move || {
                // The caller may have gone.
                drop(answer.send(call()));
            }));
        }
        threads.arrived.notify_one();
        answered.await.map_err(|_closed| PoolClosed)
    }

    /// Refuse further calls; waiting ones are dropped.
    pub(crate) fn close(&self) {
        if let Some(threads) = &self.0 {
            let mut queue = threads.queue.lock();
            queue.closed = true;
            queue.jobs.clear();
            drop(queue);
            threads.arrived.notify_all();
        }
    }
}

impl Pool {
    /// Resolves when no call runs any more, after [`Pool::close`].
    pub(crate) async fn ended(&self) {
        if let Some(threads) = &self.0 {
            threads.ended.cancelled().await;
        }
    }
}

impl Threads {
    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                parking_lot::MutexGuard::unlocked(&mut queue, job);
            } else if queue.closed {
                return;
            } else {
                self.arrived.wait(&mut queue);
            }
        }
    }
}
