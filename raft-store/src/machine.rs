//! The state machine as the consensus library drives it; the work is done by `engine` on a thread of its own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{FutureExt, Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, RaftSnapshotBuilder};
use parking_lot::Mutex;
use quorate_env::Clock;

use crate::disk::{Batch, Checkpoint, DiskError, Family, StateDisk};
use crate::engine::{Engine, Pending};
use crate::envelope;
use crate::fatal;
use crate::pool::Pool;
use crate::raft::{LogId, Snapshot, SnapshotMeta, StoredMembership, TypeConfig};
use crate::room::Room;

/// One write of the state covers at most so many entries.
const APPLY_ENTRIES: usize = 1024;
const APPLIED_KEY: &[u8] = b"applied";

/// What the state is the result of; written with it in one batch.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Applied {
    pub(crate) log_id: Option<LogId>,
    pub(crate) membership: StoredMembership,
}

/// Clones share the state.
#[derive(Clone)]
pub(crate) struct StateMachine(Arc<Shared>);

struct Shared {
    disk: Arc<dyn StateDisk>,
    engine: Mutex<Engine>,
    /// To look at without waiting for an apply.
    scalars: tokio::sync::watch::Receiver<crate::apply::Scalars>,
    applied: Mutex<Applied>,
    applied_index: tokio::sync::watch::Sender<u64>,
    /// Applies only, so that a long read never delays it.
    applier: Pool,
    pool: Pool,
    /// The last checkpoint made, until the next flush.
    kept: Mutex<Option<(SnapshotMeta, Checkpoint)>>,
    started: AtomicBool,
    room: Arc<Room>,
    clock: Clock,
}

fn closing<T>(_closed: T) -> io::Error {
    io::Error::other("the store is closing")
}

fn closed() -> DiskError {
    DiskError::Io("the store is closing".to_owned())
}

pub(crate) fn load_applied(disk: &dyn StateDisk) -> Result<Applied, DiskError> {
    let mut loaded = Ok(Applied::default());
    disk.view(&mut |view| {
        loaded = view.get(Family::Meta, APPLIED_KEY).and_then(|sealed| {
            let Some(sealed) = sealed else { return Ok(Applied::default()) };
            let bincode::serde::Compat(applied) = envelope::open(&sealed)?;
            Ok(applied)
        });
    });
    loaded
}

impl StateMachine {
    pub(crate) fn open(
        disk: Arc<dyn StateDisk>,
        engine: Engine,
        (applier, pool): (Pool, Pool),
        room: Arc<Room>,
        clock: Clock,
    ) -> Result<Self, DiskError> {
        let applied = load_applied(&*disk)?;
        let index = applied.log_id.map_or(0, |log_id| log_id.index);
        Ok(Self(Arc::new(Shared {
            disk,
            scalars: engine.subscribe_scalars(),
            engine: Mutex::new(engine),
            applied: Mutex::new(applied),
            applied_index: tokio::sync::watch::Sender::new(index),
            applier,
            pool,
            kept: Mutex::new(None),
            started: AtomicBool::new(false),
            room,
            clock,
        })))
    }

    /// Follow the index of the last applied entry.
    pub(crate) fn subscribe_applied(&self) -> tokio::sync::watch::Receiver<u64> {
        self.0.applied_index.subscribe()
    }

    pub(crate) fn applied_index(&self) -> u64 {
        *self.0.applied_index.borrow()
    }

    /// Follow the replicated scalars.
    pub(crate) fn subscribe_scalars(&self) -> tokio::sync::watch::Receiver<crate::apply::Scalars> {
        self.0.scalars.clone()
    }

    /// Make the state durable, once there is room; returns what it then holds at least.
    pub(crate) async fn flush(&self) -> io::Result<SnapshotMeta> {
        let meta = self.0.meta();
        let flush = || {
            let (disk, pool) = (Arc::clone(&self.0.disk), self.0.pool.clone());
            async move { pool.run(move || disk.flush()).await.unwrap_or_else(|_closed| Err(closed())) }.boxed()
        };
        self.0.room.wait_async(&self.0.clock, flush).await.map_err(io::Error::other)?;
        self.0.kept.lock().take();
        Ok(meta)
    }

    /// Checkpoints are given out from now on. Before, the library would only ask to see how far the state is.
    pub(crate) fn started(&self) {
        self.0.started.store(true, Ordering::Release);
    }
}

type Item = EntryResponder<TypeConfig>;

impl Shared {
    fn meta(&self) -> SnapshotMeta {
        let applied = self.applied.lock();
        SnapshotMeta { last_log_id: applied.log_id, last_membership: applied.membership.clone() }
    }

    /// Apply entries and answer those who wait for them.
    fn apply(&self, items: Vec<Item>) -> Result<(), DiskError> {
        let _guard = fatal::AbortOnPanic("apply");
        let mut applied = self.applied.lock().clone();
        let mut pending = Vec::with_capacity(items.len());
        let mut responders = Vec::with_capacity(items.len());
        for (entry, responder) in items {
            applied.log_id = Some(entry.log_id);
            let body = match entry.payload {
                EntryPayload::Blank => None,
                EntryPayload::Normal(body) => Some(body.0),
                EntryPayload::Membership(membership) => {
                    applied.membership = StoredMembership::new(Some(entry.log_id), membership);
                    None
                }
            };
            pending.push(Pending { index: entry.log_id.index, body });
            responders.push(responder);
        }
        let mut extra = Batch::default();
        extra.put(Family::Meta, APPLIED_KEY, envelope::seal(&bincode::serde::Compat(&applied)));
        let index = applied.log_id.map_or(0, |log_id| log_id.index);
        let replies = match self.engine.lock().apply(pending, extra) {
            Ok(replies) => replies,
            // They are in the log, and the next start applies them.
            Err(error @ DiskError::Full(_)) if self.room.is_closing() => return Err(error),
            Err(error) => fatal::abort("the state cannot be written", &error),
        };
        *self.applied.lock() = applied;
        self.applied_index.send_replace(index);
        for (responder, reply) in responders.into_iter().zip(replies) {
            if let Some(responder) = responder {
                responder.send(reply);
            }
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<(SnapshotMeta, Checkpoint), DiskError> {
        // Runs where applies run, so that both are of one moment.
        let meta = self.meta();
        if let Some((kept, checkpoint)) = &*self.kept.lock()
            && *kept == meta
        {
            return Ok((meta, checkpoint.clone()));
        }
        let checkpoint = self.disk.checkpoint()?;
        *self.kept.lock() = Some((meta.clone(), checkpoint.clone()));
        Ok((meta, checkpoint))
    }

    fn install(&self, meta: SnapshotMeta, checkpoint: &Checkpoint) -> Result<(), DiskError> {
        let _guard = fatal::AbortOnPanic("install a checkpoint");
        self.room.wait(|| self.disk.install(checkpoint))?;
        self.engine.lock().reload()?;
        let index = meta.last_log_id.map_or(0, |log_id| log_id.index);
        *self.applied.lock() = Applied { log_id: meta.last_log_id, membership: meta.last_membership };
        self.applied_index.send_replace(index);
        Ok(())
    }
}

impl RaftSnapshotBuilder<TypeConfig> for StateMachine {
    type SnapshotData = Checkpoint;

    /// A flush is what the log may be cut up to; the files are made when a member needs them.
    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let meta = self.flush().await?;
        Ok(Snapshot { meta, snapshot: Checkpoint::Memory(Arc::default()) })
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = Checkpoint;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let applied = self.0.applied.lock();
        Ok((applied.log_id, applied.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<Item, io::Error>> + Unpin + openraft::OptionalSend,
    {
        loop {
            let mut items = Vec::new();
            while items.len() < APPLY_ENTRIES
                && let Some(item) = entries.next().await
            {
                items.push(item?);
            }
            if items.is_empty() {
                return Ok(());
            }
            let shared = Arc::clone(&self.0);
            let applied = self.0.applier.run(move || shared.apply(items)).await;
            applied.map_err(closing)?.map_err(io::Error::other)?;
        }
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Checkpoint) -> Result<(), io::Error> {
        let shared = Arc::clone(&self.0);
        let meta = meta.clone();
        let installed = self.0.applier.run(move || shared.install(meta, &snapshot)).await;
        installed.map_err(closing)?.map_err(io::Error::other)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        if !self.0.started.load(Ordering::Acquire) || self.0.meta().last_log_id.is_none() {
            return Ok(None);
        }
        let make = || {
            let (shared, applier) = (Arc::clone(&self.0), self.0.applier.clone());
            async move { applier.run(move || shared.checkpoint()).await.unwrap_or_else(|_closed| Err(closed())) }
                .boxed()
        };
        let made = self.0.room.wait_async(&self.0.clock, make).await;
        let (meta, snapshot) = made.map_err(io::Error::other)?;
        Ok(Some(Snapshot { meta, snapshot }))
    }
}
