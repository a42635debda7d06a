//! Who leads, and how to reach it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use parking_lot::Mutex;
use quorate_env::Clock;
use tokio::sync::watch;

use crate::peer::link::{Link, Links};
use crate::peer::proto;
use crate::raft::Raft;
use crate::status::Leadership;

/// Follows the leader and keeps a link to each member that has led. Clones share it.
#[derive(Clone)]
pub(crate) struct LeaderLink {
    raft: Raft,
    leadership: watch::Sender<Leadership>,
    links: Links,
    /// As configured now.
    addresses: Arc<BTreeMap<String, String>>,
    made: Arc<Mutex<BTreeMap<String, Link>>>,
    clock: Clock,
}

impl LeaderLink {
    pub(crate) fn new(raft: Raft, links: Links, addresses: Arc<BTreeMap<String, String>>, clock: Clock) -> Self {
        Self { raft, leadership: watch::Sender::default(), links, addresses, made: Arc::default(), clock }
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
        let answer = tokio::select! {
            answer = link.read_index(limit) => answer.ok()?,
            // A leader that fell silent need not be waited for once there is another.
            _changed = changes.wait_for(|now| now.leader != before.leader) => return None,
        };
        let proto::ReadIndexResponse { leader, index } = answer;
        leader.then_some(index)
    }
}
