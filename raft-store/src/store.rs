//! The handle that callers hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::async_runtime::WatchReceiver;
use quorate_env::{Env, Scope};
use tokio::sync::watch;

use crate::config::Config;
use crate::entry;
use crate::error::{CommitError, OpenError, ReadError};
use crate::model::{Consistency, KeyValue, Outcome, Page, Range, Revision, Transaction, WatchRange};
use crate::open::{self, Parts};
use crate::propose::Refused;
use crate::status::{Leadership, MemberId, MemberStatus, StoreStatus};
use crate::upkeep::meeting::cluster_id;
use crate::watch::Watcher;

/// A replicated, durable, watchable map from byte keys to byte values. Clones share it.
#[derive(Clone)]
pub struct Store(Arc<Parts>);

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("name", &self.0.config.name).field("head", &self.head()).finish()
    }
}

impl Store {
    /// Recover what the disk has and join the quorum group. A new group needs all of its members to meet; the
    /// call waits for them until `scope` ends.
    pub async fn open(config: Config, env: Env, scope: Scope) -> Result<Self, OpenError> {
        Ok(Self(Arc::new(open::open(config, env, scope).await?)))
    }

    /// Apply a transaction once, wherever the leader is. Answered when it is durable on a quorum, applied here,
    /// visible to reads and queued for watchers.
    pub async fn commit(&self, transaction: Transaction) -> Result<Outcome, CommitError> {
        self.expect_quorum().map_err(CommitError::Unavailable)?;
        self.0.committer.commit(&transaction).await
    }

    /// The key's value, and a revision at which it stood so.
    pub async fn get(
        &self,
        key: impl Into<Bytes>,
        consistency: Consistency,
    ) -> Result<(Option<KeyValue>, Revision), ReadError> {
        let key = key.into();
        let at_least = self.confirm(consistency).await?;
        self.0.reader.get(key, at_least).await
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

    /// Let go of the history up to `revision`; reads at it and watches after it stay possible. Asked of the leader.
    pub async fn compact(&self, revision: Revision) -> Result<(), CommitError> {
        let body = entry::encode_compact(self.0.proposer.wall_ms(), revision);
        match self.0.proposer.propose(body).await {
            Ok(_) => Ok(()),
            Err(Refused::NotLeader) => Err(CommitError::Unavailable("this member does not lead".to_owned())),
            Err(Refused::Lost) => Err(CommitError::FateUnknown(Duration::ZERO)),
            Err(Refused::DiskFull) => Err(CommitError::DiskFull),
            Err(Refused::Overloaded) => Err(CommitError::Overloaded),
        }
    }

    /// Wait until this member has applied `revision`.
    pub async fn wait_for_revision(&self, revision: Revision, timeout: Duration) -> Result<(), ReadError> {
        if self.head() >= revision {
            return Ok(());
        }
        let mut head = self.0.hub.subscribe_head();
        let reached = self.0.clock.timeout(timeout, head.wait_for(|head| *head >= revision)).await;
        match reached {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_closed)) => Err(closing()),
            Err(_elapsed) => Err(ReadError::Timeout(timeout)),
        }
    }

    /// The newest revision applied here.
    pub fn head(&self) -> Revision {
        self.0.hub.head()
    }

    /// Follow [`Store::head`].
    pub fn subscribe_head(&self) -> watch::Receiver<Revision> {
        self.0.hub.subscribe_head()
    }

    /// The oldest revision that can still be read.
    pub fn compacted(&self) -> Revision {
        Revision(self.0.machine.subscribe_scalars().borrow().compacted)
    }

    pub fn status(&self) -> StoreStatus {
        let Parts { config, machine, readiness, .. } = &*self.0;
        let leadership = self.0.leader.now();
        let scalars = machine.subscribe_scalars().borrow().clone();
        StoreStatus {
            member: self.0.id,
            name: config.name.clone(),
            zone: config.zone.clone(),
            cluster_id: scalars.cluster.map(cluster_id),
            // A member that is cut off would name the last one for ever.
            leader: leadership.leader.filter(|_| readiness.has_quorum()),
            term: leadership.term,
            applied_index: machine.applied_index(),
            revision: self.head(),
            compacted: Revision(scalars.compacted),
            members: self.members(),
            ready: readiness.is_ready(),
            feature_level: scalars.feature_level,
        }
    }

    fn members(&self) -> Vec<MemberStatus> {
        let membership = self.0.raft.metrics().borrow_watched().membership_config.clone();
        let own = self.0.members.own();
        let status = |(id, peer): (&MemberId, &crate::raft::Peer)| {
            let known = if *id == self.0.id { Some((own.clone(), true)) } else { self.0.members.get(&peer.name) };
            let (member, alive) = known.unwrap_or_default();
            MemberStatus {
                id: *id,
                name: peer.name.clone(),
                peer_address: peer.address.clone(),
                api_address: member.api_address,
                zone: member.zone,
                feature_level: member.feature_level,
                alive,
            }
        };
        membership.nodes().map(status).collect()
    }

    /// Follow who leads.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.0.leader.subscribe()
    }

    /// Follow whether this member has confirmed its state with the quorum since it started.
    pub fn confirmed(&self) -> watch::Receiver<bool> {
        self.0.readiness.subscribe()
    }

    /// Whether this member may answer: [`StoreStatus::ready`], without the rest of the status.
    pub fn is_ready(&self) -> bool {
        self.0.readiness.is_ready()
    }

    /// Hand leadership to the member that is furthest, if this one leads and there is one. Returns whether another
    /// member leads afterwards.
    pub async fn transfer_leadership(&self) -> bool {
        self.0.leader.hand_over(&self.0.members).await
    }

    /// The store's metrics, to be gathered with the process's.
    pub fn metrics(&self) -> prometheus::Registry {
        self.0.metrics.registry()
    }

    /// Stop: end watches, flush, release the directory. Call it (after [`Store::transfer_leadership`]) before the
    /// scope is cancelled, and drop all watchers before the directory is opened again.
    pub async fn close(self) {
        self.0.close(true).await;
    }

    /// Stop as a killed process does: nothing is flushed, nothing handed over. For tests.
    pub async fn halt(self) {
        self.0.close(false).await;
    }

    /// Without a quorum nothing that needs one is waited for. The error says who is missed.
    fn expect_quorum(&self) -> Result<(), String> {
        if self.0.readiness.has_quorum() {
            return Ok(());
        }
        let members = self.members();
        let missed: Vec<&str> = members.iter().filter(|m| !m.alive).map(|m| m.name.as_str()).collect();
        let (met, all) = (members.len() - missed.len(), members.len());
        let missed = if missed.is_empty() { "no leader was elected".to_owned() } else { missed.join(", ") };
        Err(format!("no quorum: {met} of {all} members reachable from {}; missed: {missed}", self.0.config.name))
    }

    /// Wait until a read here is as fresh as asked; returns a revision that it will at least see.
    async fn confirm(&self, consistency: Consistency) -> Result<Revision, ReadError> {
        let limit = self.0.config.timers.read_deadline;
        match consistency {
            Consistency::Local => {}
            Consistency::AtLeast(revision) => self.wait_for_revision(revision, limit).await?,
            Consistency::Linearizable => {
                self.expect_quorum().map_err(ReadError::Unavailable)?;
                let index = self.0.read_indexer.confirm(&self.0.clock, limit).await?;
                if self.0.machine.applied_index() < index {
                    let mut applied = self.0.machine.subscribe_applied();
                    let reached = applied.wait_for(|applied| *applied >= index);
                    match self.0.clock.timeout(limit, reached).await {
                        Ok(Ok(_)) => {}
                        Ok(Err(_closed)) => return Err(closing()),
                        Err(_elapsed) => return Err(ReadError::Timeout(limit)),
                    }
                }
            }
        }
        Ok(self.head())
    }
}

fn closing() -> ReadError {
    ReadError::Unavailable("the store is closing".to_owned())
}
