//! Who leads, and how to reach it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use parking_lot::Mutex;
use quorate_env::Clock;
use tokio::sync::watch;

use crate::admission::Admission;
use crate::members::Members;
use crate::peer::link::{Link, Links};
use crate::peer::proto;
use crate::raft::Raft;
use crate::status::Leadership;

/// A hand-over of leadership that takes longer has failed.
const TRANSFER_LIMIT: Duration = Duration::from_secs(1);

/// Follows the leader and keeps a link to each member that has led. Clones share it.
#[derive(Clone)]
pub(crate) struct LeaderLink {
    raft: Raft,
    leadership: watch::Sender<Leadership>,
    links: Links,
    /// As configured now.
    addresses: Arc<BTreeMap<String, String>>,
    made: Arc<Mutex<BTreeMap<String, Link>>>,
    admission: Arc<Admission>,
    clock: Clock,
}

impl LeaderLink {
    pub(crate) fn new(
        raft: Raft,
        links: Links,
        addresses: Arc<BTreeMap<String, String>>,
        admission: Arc<Admission>,
        clock: Clock,
    ) -> Self {
        Self { raft, leadership: watch::Sender::default(), links, addresses, made: Arc::default(), admission, clock }
    }

    /// What goes with each message to the leader.
    pub(crate) fn cluster_tag(&self) -> u64 {
        self.admission.tag()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    pub(crate) fn now(&self) -> Leadership {
        *self.leadership.borrow()
    }

    pub(crate) fn is_self(&self) -> bool {
        self.now().is_self
    }

    /// Publish what the library says; returns whether it changed.
    pub(crate) fn update(&self, new: Leadership) -> bool {
        self.leadership.send_if_modified(|old| std::mem::replace(old, new) != new)
    }

    /// Hand leadership to the member that is furthest, if this one leads and another one could. Returns whether another
    /// member leads afterwards.
    pub(crate) async fn hand_over(&self, members: &Members) -> bool {
        let mut changes = self.subscribe();
        if !changes.borrow_and_update().is_self {
            return false;
        }
        // In a quiet group a dead member is as far as any other.
        let able: Vec<u64> =
            members.alive().iter().filter(|member| !member.disk_full).map(|member| member.id).collect();
        let progress = self.raft.metrics().borrow_watched().replication.clone().unwrap_or_default();
        let others = progress.into_iter().filter(|(id, _)| able.contains(id));
        let Some((to, _)) = others.max_by_key(|(_, matched)| *matched) else { return false };
        if self.raft.trigger().transfer_leader(to).await.is_err() {
            return false;
        }
        let moved = changes.wait_for(|now| !now.is_self && now.leader.is_some());
        matches!(self.clock.timeout(TRANSFER_LIMIT, moved).await, Ok(Ok(_)))
    }

    /// The link to a member by its number.
    fn link(&self, id: u64) -> Option<Link> {
        let membership = self.raft.metrics().borrow_watched().membership_config.clone();
        let peer = membership.get_node(&id)?;
        let address = self.addresses.get(&peer.name).unwrap_or(&peer.address);
        let mut made = self.made.lock();
        Some(made.entry(address.clone()).or_insert_with(|| self.links.to(address)).clone())
    }

    /// The link to the leader, if there is one and it is another member.
    pub(crate) fn to_leader(&self) -> Option<Link> {
        let Leadership { leader, is_self, .. } = self.now();
        if is_self { None } else { self.link(leader?) }
    }

    pub(crate) async fn read_index(&self, limit: Duration) -> Option<u64> {
        let mut link = self.to_leader()?;
        let mut changes = self.subscribe();
        let before = *changes.borrow_and_update();
        let request = proto::ReadIndexRequest { cluster_tag: self.cluster_tag() };
        let answer = tokio::select! {
            answer = link.read_index(request, limit) => answer.ok()?,
            // A leader that fell silent need not be waited for once there is another.
            _changed = changes.wait_for(|now| now.leader != before.leader) => return None,
        };
        let proto::ReadIndexResponse { leader, index } = answer;
        leader.then_some(index)
    }
}
