//! The one writer of the log: whatever waits becomes one synced write, then everyone in it is told, in order.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use openraft::storage::IOFlushed;
use parking_lot::{Condvar, Mutex};
use quorate_env::Clock;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::record;
use crate::disk::DiskError;
use crate::disk::log::{LogDisk, LogOp};
use crate::metrics::Metrics;
use crate::raft::{Entry, TypeConfig};
use crate::room::RETRY_FULL;

/// One synced write takes at most about so many bytes.
const GROUP_BYTES: usize = 4 << 20;

/// The queue to the writer. Its length is bounded by what the proposers may have in flight and, on a follower, by the
/// leader's replication window.
#[derive(Clone)]
pub(crate) struct Writer(Arc<WriterShared>);

pub(crate) struct WriterShared {
    queue: Mutex<Queue>,
    thread_wake: Condvar,
    task_wake: Notify,
    flushed: AtomicU64,
    /// Where a removal that waits for the writer begins; there is one at a time.
    removed_from: AtomicU64,
    /// Bytes of entries written since the last reset: what a restart would have to replay.
    unflushed_bytes: AtomicU64,
    full: AtomicBool,
    ended: CancellationToken,
    metrics: Arc<Metrics>,
    clock: Clock,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    committed: Option<LogOp>,
    closed: bool,
}

enum Job {
    Append(Vec<Entry>, IOFlushed<TypeConfig>),
    Run(Vec<LogOp>, oneshot::Sender<io::Result<()>>),
}

impl Writer {
    pub(crate) fn new(metrics: Arc<Metrics>, clock: Clock) -> Self {
        Self(Arc::new(WriterShared {
            queue: Mutex::default(),
            thread_wake: Condvar::new(),
            task_wake: Notify::new(),
            flushed: AtomicU64::new(0),
            removed_from: AtomicU64::new(u64::MAX),
            unflushed_bytes: AtomicU64::new(0),
            full: AtomicBool::new(false),
            ended: CancellationToken::new(),
            metrics,
            clock,
        }))
    }

    /// Entries up to this index are on disk.
    pub(super) fn flushed(&self) -> u64 {
        let removed_from = self.0.removed_from.load(Ordering::Acquire);
        self.0.flushed.load(Ordering::Acquire).min(removed_from.saturating_sub(1))
    }

    /// `index` and what follows is about to be removed: it does not count as flushed, whatever is still on its way.
    pub(super) fn unflush(&self, index: u64) {
        self.0.removed_from.store(index, Ordering::Release);
    }

    /// The disk refused the last write for want of space.
    pub(crate) fn is_full(&self) -> bool {
        self.0.full.load(Ordering::Acquire)
    }

    /// Bytes of entries written since the last call of [`Writer::reset_bytes`].
    pub(crate) fn bytes(&self) -> u64 {
        self.0.unflushed_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn reset_bytes(&self) {
        self.0.unflushed_bytes.store(0, Ordering::Relaxed);
    }

    pub(super) fn append(&self, entries: Vec<Entry>, callback: IOFlushed<TypeConfig>) {
        self.push(Job::Append(entries, callback));
    }

    pub(super) fn set_committed(&self, op: LogOp) {
        self.0.queue.lock().committed = Some(op);
    }

    /// Write and wait until it is durable.
    pub(super) async fn run(&self, ops: Vec<LogOp>) -> io::Result<()> {
        let (answer, answered) = oneshot::channel();
        self.push(Job::Run(ops, answer));
        answered.await.unwrap_or_else(|_closed| Err(closing()))
    }

    /// Put one scalar beside the log and wait until it is durable.
    pub(crate) async fn put_meta(&self, name: &'static str, value: bytes::Bytes) -> io::Result<()> {
        self.run(vec![LogOp::Meta { name, value }]).await
    }

    fn push(&self, job: Job) {
        {
            let mut queue = self.0.queue.lock();
            if queue.closed {
                job.finish(Err(closing()));
                return;
            }
            queue.jobs.push_back(job);
        }
        self.0.thread_wake.notify_one();
        self.0.task_wake.notify_one();
    }

    /// Stop the writer; what still waits is written first.
    pub(crate) fn close(&self) {
        self.0.queue.lock().closed = true;
        self.0.thread_wake.notify_one();
        self.0.task_wake.notify_one();
    }

    pub(crate) fn set_ended(&self) {
        self.0.ended.cancel();
    }

    /// Resolves when the writer has ended and let go of its disk.
    pub(crate) async fn ended(&self) {
        self.0.ended.cancelled().await;
    }

    /// The writer as a thread's whole life.
    pub(crate) fn run_thread(&self, disk: &dyn LogDisk) {
        while let Some((jobs, committed)) = self.0.wait() {
            let ops = self.0.ops(&jobs, committed);
            while let Err(error) = self.0.write(disk, &ops) {
                self.0.note_full(&error);
                if self.0.queue.lock().closed {
                    return WriterShared::fail(jobs);
                }
                std::thread::sleep(RETRY_FULL);
                WriterShared::recover(disk);
            }
            self.0.finish(jobs);
        }
    }

    /// The writer as a task, for a disk that never waits.
    pub(crate) async fn run_task(&self, disk: Arc<dyn LogDisk>) {
        loop {
            let group = {
                let mut queue = self.0.queue.lock();
                if queue.jobs.is_empty() && queue.closed {
                    return;
                }
                queue.take()
            };
            let Some((jobs, committed)) = group else {
                self.0.task_wake.notified().await;
                continue;
            };
            let ops = self.0.ops(&jobs, committed);
            while let Err(error) = self.0.write(&*disk, &ops) {
                self.0.note_full(&error);
                if self.0.queue.lock().closed {
                    return WriterShared::fail(jobs);
                }
                self.0.clock.sleep(RETRY_FULL).await;
                WriterShared::recover(&*disk);
            }
            self.0.finish(jobs);
        }
    }
}

fn closing() -> io::Error {
    io::Error::other("the store is closing")
}

type Group = (Vec<Job>, Option<LogOp>);

impl Queue {
    /// What goes into the next write.
    fn take(&mut self) -> Option<Group> {
        let mut jobs = Vec::new();
        let mut bytes = 0;
        while bytes < GROUP_BYTES
            && let Some(job) = self.jobs.pop_front()
        {
            if let Job::Append(entries, _) = &job {
                bytes += entries.iter().map(super::cache::weight).sum::<usize>();
            }
            jobs.push(job);
        }
        if jobs.is_empty() { None } else { Some((jobs, self.committed.take())) }
    }
}

impl Job {
    fn finish(self, result: io::Result<()>) {
        match self {
            Self::Append(_, callback) => callback.io_completed(result),
            Self::Run(_, answer) => drop(answer.send(result)),
        }
    }
}

impl WriterShared {
    fn wait(&self) -> Option<Group> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(group) = queue.take() {
                return Some(group);
            }
            if queue.closed {
                return None;
            }
            self.thread_wake.wait(&mut queue);
        }
    }

    fn ops(&self, jobs: &[Job], committed: Option<LogOp>) -> Vec<LogOp> {
        let mut ops = Vec::with_capacity(jobs.len() + 1);
        let mut entries = 0u32;
        for job in jobs {
            match job {
                Job::Append(appended, _) => {
                    entries += u32::try_from(appended.len()).unwrap_or(u32::MAX);
                    let put = |entry: &Entry| LogOp::Put { index: entry.log_id.index, record: record::encode(entry) };
                    ops.extend(appended.iter().map(put));
                }
                Job::Run(run, _) => ops.extend(run.iter().cloned()),
            }
        }
        ops.extend(committed);
        self.metrics.entries_per_fsync.observe(f64::from(entries));
        ops
    }

    /// Returns an error only if the disk is full. Any other failure of a synced write leaves unknown what is on disk:
    /// the process must not go on with it.
    fn write(&self, disk: &dyn LogDisk, ops: &[LogOp]) -> Result<(), DiskError> {
        let started = self.clock.now();
        match disk.write(ops) {
            Ok(()) => {
                self.metrics.fsync_seconds.observe(started.elapsed().as_secs_f64());
                if self.full.swap(false, Ordering::AcqRel) {
                    tracing::info!("there is space for the log again; writes go on");
                }
                Ok(())
            }
            Err(error @ DiskError::Full(_)) => Err(error),
            Err(error) => crate::fatal::abort("the log cannot be written", &error),
        }
    }

    fn note_full(&self, error: &DiskError) {
        if !self.full.swap(true, Ordering::AcqRel) {
            tracing::error!(%error, "no space left for the log; writes wait until there is some");
        }
    }

    fn note_removal(&self, op: &LogOp) {
        if let LogOp::RemoveFrom { index } = op {
            self.flushed.fetch_min(index.saturating_sub(1), Ordering::AcqRel);
            self.removed_from.store(u64::MAX, Ordering::Release);
        }
    }

    /// Nothing of it was acknowledged.
    fn fail(jobs: Vec<Job>) {
        for job in jobs {
            job.finish(Err(closing()));
        }
    }

    fn recover(disk: &dyn LogDisk) {
        match disk.recover() {
            Ok(()) | Err(DiskError::Full(_)) => {}
            Err(error) => crate::fatal::abort("the log cannot be opened again", &error),
        }
    }

    fn finish(&self, jobs: Vec<Job>) {
        for job in jobs {
            match &job {
                Job::Append(entries, _) => {
                    let bytes = entries.iter().map(super::cache::weight).sum::<usize>() as u64;
                    self.unflushed_bytes.fetch_add(bytes, Ordering::Relaxed);
                    if let Some(last) = entries.last() {
                        self.flushed.store(last.log_id.index, Ordering::Release);
                    }
                }
                Job::Run(ops, _) => ops.iter().for_each(|op| self.note_removal(op)),
            }
            job.finish(Ok(()));
        }
    }
}
