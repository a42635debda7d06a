//! The first meeting of the members, and the birth of the group.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::join_all;
use quorate_env::{Clock, Scope};
use sha2::{Digest, Sha256};

use crate::error::OpenError;
use crate::leader::LeaderLink;
use crate::members::{self, Members};
use crate::peer::link::Link;
use crate::peer::proto;
use crate::raft::{Peer, Raft};

/// A member that does not answer a meeting by then is asked again later.
pub(crate) const MEET_LIMIT: Duration = Duration::from_millis(800);
const MEET_AGAIN: Duration = Duration::from_millis(100);
/// A member that restarts gives the others this long to object.
const RESTART_MEET_LIMIT: Duration = Duration::from_millis(300);
/// Tell whom one waits for after so many rounds, and every so many again.
const TELL_AFTER_ROUNDS: u32 = 30;
/// A lone member leads at once; waiting longer than this means that something is wrong with its disk.
const LONE_LEADER_LIMIT: Duration = Duration::from_secs(30);

/// A member's number: from its name, so that all members count the same.
pub(crate) fn member_id(name: &str) -> u64 {
    let digest = Sha256::digest(format!("quorate member {name}"));
    let first = digest.first_chunk::<8>().copied().unwrap_or_default();
    u64::from_be_bytes(first) >> 1
}

/// What forming needs.
pub(crate) struct Forming {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) list: BTreeMap<String, String>,
    pub(crate) raft: Raft,
    pub(crate) leader: LeaderLink,
    pub(crate) members: std::sync::Arc<Members>,
    pub(crate) links: BTreeMap<String, Link>,
    pub(crate) clock: Clock,
    pub(crate) scope: Scope,
}

impl Forming {
    /// Returns once this member belongs to a group.
    pub(crate) async fn run(mut self) -> Result<(), OpenError> {
        if self.links.is_empty() {
            return self.alone().await;
        }
        let mut limit = if self.is_formed().await? { RESTART_MEET_LIMIT } else { MEET_LIMIT };
        for round in 1u32.. {
            let meetings = self.meet_all(limit).await?;
            if self.is_formed().await? {
                return Ok(());
            }
            limit = MEET_LIMIT;
            let formed = meetings.iter().any(|meeting| meeting.member.as_ref().is_some_and(|member| member.formed));
            // The others' leader brings the log to this member; a second group must not be born beside it.
            if !formed && meetings.len() + 1 > self.list.len() / 2 {
                self.initialize().await?;
                return Ok(());
            }
            if round.is_multiple_of(TELL_AFTER_ROUNDS) {
                let missing: Vec<&String> = self.links.keys().filter(|name| self.members.get(name).is_none()).collect();
                tracing::info!(?missing, "waiting for other members");
            }
            tokio::select! {
                () = self.clock.sleep(MEET_AGAIN) => {}
                () = self.scope.cancelled() => return Err(OpenError::Stopped),
            }
        }
        Err(OpenError::Stopped)
    }

    async fn is_formed(&self) -> Result<bool, OpenError> {
        let formed = self.raft.is_initialized().await.map_err(|_fatal| OpenError::Stopped)?;
        self.members.update_own(|own| own.formed = formed);
        Ok(formed)
    }

    async fn alone(&self) -> Result<(), OpenError> {
        if self.is_formed().await? {
            // Nobody else can lead, so there is no need to wait for a timeout.
            self.raft.trigger().elect(false).await.map_err(|_fatal| OpenError::Stopped)?;
        } else {
            self.initialize().await?;
        }
        let mut changes = self.leader.subscribe();
        let leads = self.clock.timeout(LONE_LEADER_LIMIT, changes.wait_for(|now| now.is_self)).await;
        if matches!(leads, Ok(Ok(_))) { Ok(()) } else { Err(OpenError::Stopped) }
    }

    async fn initialize(&self) -> Result<(), OpenError> {
        let peers: BTreeMap<u64, Peer> = self
            .list
            .iter()
            .map(|(name, address)| (member_id(name), Peer { name: name.clone(), address: address.clone() }))
            .collect();
        // Several members may do so at once: the first entry is the same for all. One that was reached by the others
        // meanwhile is refused, which is as good.
        if let Err(error) = self.raft.initialize(peers).await {
            tracing::debug!(%error, "the group was born elsewhere");
        }
        self.members.update_own(|own| own.formed = true);
        Ok(())
    }

    /// Meet everyone at once; who disagrees ends the opening.
    async fn meet_all(&mut self, limit: Duration) -> Result<Vec<proto::Meeting>, OpenError> {
        let own = self.members.own();
        let calls = self.links.values_mut().map(|link| link.meet(own.clone(), limit));
        let mut meetings = Vec::new();
        for meeting in join_all(calls).await.into_iter().flatten() {
            members::judge(&own, &meeting, &self.path)?;
            if let Some(member) = &meeting.member {
                self.members.met(member.clone());
            }
            meetings.push(meeting);
        }
        tracing::debug!(name = self.name, met = meetings.len(), "met other members");
        Ok(meetings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_frozen() {
        assert_eq!(member_id("a"), member_id("a"));
        assert_ne!(member_id("a"), member_id("b"));
    }
}
