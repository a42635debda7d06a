//! The first meeting of the members, and the birth of the group.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use futures::future::join_all;
use openraft::async_runtime::WatchReceiver;
use quorate_env::{Clock, Scope};
use sha2::{Digest, Sha256};

use crate::admission::Admission;
use crate::disk::rocks_state::io_error;
use crate::error::OpenError;
use crate::leader::LeaderLink;
use crate::members::{self, Members};
use crate::peer::link::{Failure, Link};
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
    pub(crate) admission: std::sync::Arc<Admission>,
    /// The other members that have this directory on record.
    pub(crate) recorded_by: BTreeSet<String>,
    pub(crate) links: BTreeMap<String, Link>,
    pub(crate) clock: Clock,
    pub(crate) scope: Scope,
}

impl Forming {
    /// Returns once this member belongs to a group.
    pub(crate) async fn run(mut self) -> Result<(), OpenError> {
        if self.is_formed().await? {
            self.compare_with_record()?;
            self.admission.open();
        }
        if self.links.is_empty() {
            self.admission.open();
            return self.alone().await;
        }
        if self.admission.is_admitted() {
            self.admission.open();
        }
        let mut limit = if self.is_formed().await? { RESTART_MEET_LIMIT } else { MEET_LIMIT };
        for round in 1u32.. {
            let meetings = self.meet_all(limit).await?;
            if self.is_formed().await? {
                return Ok(());
            }
            limit = MEET_LIMIT;
            let formed = meetings.iter().any(|meeting| meeting.member.as_ref().is_some_and(|member| member.formed));
            // Where the group exists, its leader brings the log; a second one must not be born beside it.
            if self.seek_admission(&meetings).await? && !formed && meetings.len() + 1 > self.list.len() / 2 {
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

    /// The group's members are those of its log; a list that names others would be followed for addresses only.
    fn compare_with_record(&self) -> Result<(), OpenError> {
        let membership = self.raft.metrics().borrow_watched().membership_config.clone();
        let on_record: Vec<String> = membership.nodes().map(|(_, peer)| peer.name.clone()).collect();
        // A log that has just been born elsewhere may not have reached this member.
        if on_record.is_empty() {
            return Ok(());
        }
        match members::differs_from_record(&self.list, &on_record) {
            Some(difference) => Err(OpenError::MembersOnRecord { path: self.path.clone(), difference }),
            None => Ok(()),
        }
    }

    /// Whether this member may take part. Once all others have been met and agree, they are asked to put this
    /// directory on record; it takes part once all of them have.
    async fn seek_admission(&mut self, meetings: &[proto::Meeting]) -> Result<bool, OpenError> {
        if self.admission.is_admitted() {
            return Ok(true);
        }
        let own = self.members.own();
        if own.joining {
            let on_record = meetings.iter().filter(|meeting| meeting.incarnation == own.incarnation);
            let names = on_record.filter_map(|meeting| meeting.member.as_ref()).map(|member| member.name.clone());
            self.recorded_by.extend(names);
        } else if self.links.keys().all(|name| self.members.get(name).is_some()) {
            self.members.update_own(|own| own.joining = true);
        }
        if !self.links.keys().all(|name| self.recorded_by.contains(name)) {
            return Ok(false);
        }
        let admitted = self.admission.admit().await;
        admitted.map_err(|error| OpenError::of_disk(&self.path, io_error(error)))?;
        self.members.update_own(|own| own.joining = false);
        Ok(true)
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
    async fn meet_all(&self, limit: Duration) -> Result<Vec<proto::Meeting>, OpenError> {
        let own = self.members.own();
        let calls = self.links.iter().map(|(name, link)| (name, link.clone()));
        let calls = calls.map(async |(name, mut link)| (name, link.meet(own.clone(), limit).await));
        let mut meetings = Vec::new();
        let mut strangers = 0;
        for (name, meeting) in join_all(calls).await {
            let meeting = match meeting {
                Ok(meeting) => meeting,
                // Without all others this member cannot begin; one that has begun may do with fewer.
                Err(Failure::Untrusted(detail)) if !own.formed => {
                    let address = self.list.get(name).cloned().unwrap_or_default();
                    return Err(OpenError::Untrusted { peer: name.clone(), address, detail });
                }
                Err(error) => {
                    tracing::debug!(name, %error, "not met");
                    continue;
                }
            };
            match members::judge(&own, &meeting, &self.path) {
                Ok(()) => {}
                // This member is astray only if most others say so; else the stranger is, and is not listened to.
                Err(error @ OpenError::OtherCluster { .. }) => {
                    strangers += 1;
                    if strangers > self.list.len() / 2 {
                        return Err(error);
                    }
                    tracing::error!("{error}");
                    continue;
                }
                // Nor must a newcomer that was told wrong things keep a member of the group from its work.
                Err(error) if own.formed && meeting.member.as_ref().is_some_and(|theirs| !theirs.formed) => {
                    tracing::error!("{error}");
                    continue;
                }
                Err(error) => return Err(error),
            }
            if let Some(member) = &meeting.member {
                self.members.met(member.clone());
            }
            meetings.push(meeting);
        }
        // Who called this member may have gone since, with the answer it needed.
        for theirs in self.members.alive().into_iter().filter(|_| !own.formed) {
            members::judge(&own, &proto::Meeting { member: Some(theirs), incarnation: 0 }, &self.path)?;
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
