//! Members introduce themselves to each other again and again; the leader puts on record what all must know.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use quorate_env::Random;
use tokio::sync::watch;

use crate::apply::Scalars;
use crate::entry;
use crate::error::OpenError;
use crate::form::MEET_LIMIT;
use crate::leader::LeaderLink;
use crate::members::{self, MEET_EVERY, Members};
use crate::peer::link::{Failure, Link};
use crate::peer::proto;
use crate::propose::Proposer;

/// See the module.
pub(crate) struct Meeting {
    pub(crate) path: PathBuf,
    pub(crate) members: Arc<Members>,
    pub(crate) links: BTreeMap<String, Link>,
    pub(crate) leader: LeaderLink,
    pub(crate) proposer: Proposer,
    pub(crate) scalars: watch::Receiver<Scalars>,
    pub(crate) random: Random,
    /// Members of the group, this one included.
    pub(crate) group_size: usize,
}

impl Meeting {
    pub(crate) async fn run(mut self) {
        let mut complaint = None;
        let mut leadership = self.leader.subscribe();
        loop {
            let disk_full = self.proposer.is_disk_full();
            self.members.update_own(|own| own.disk_full = disk_full);
            if disk_full {
                self.leader.hand_over(&self.members).await;
            }
            let told = self.meet_all().await;
            if let Some(text) = &told
                && told != complaint
            {
                tracing::error!("{text}");
            }
            complaint = told;
            if self.leader.is_self() {
                self.put_on_record().await;
            }
            // A new leader has things to put on record at once. Each change is taken once: what cannot be put on record
            // now is not tried without a pause.
            tokio::select! {
                () = self.leader.clock().sleep(MEET_EVERY) => {}
                _changed = leadership.changed() => {}
            }
        }
    }

    /// Returns what is wrong with somebody, if anything.
    async fn meet_all(&mut self) -> Option<String> {
        let own = self.members.own();
        let calls = self.links.iter_mut().map(async |(name, link)| (name, link.meet(own.clone(), MEET_LIMIT).await));
        let mut complaint = None;
        for (name, meeting) in join_all(calls).await {
            let meeting = match meeting {
                Ok(meeting) => meeting,
                Err(Failure::Untrusted(detail)) => {
                    let address = own.initial_members.get(name).cloned().unwrap_or_default();
                    complaint = Some(OpenError::Untrusted { peer: name.clone(), address, detail }.to_string());
                    continue;
                }
                Err(_not_met) => continue,
            };
            match members::judge(&own, &meeting, &self.path) {
                Err(error) => complaint = Some(error.to_string()),
                Ok(()) => meeting.member.into_iter().for_each(|member| self.members.met(member)),
            }
        }
        complaint
    }

    async fn put_on_record(&self) {
        let now = self.proposer.wall_ms();
        let scalars = self.scalars.borrow().clone();
        let mut bodies = Vec::new();
        if scalars.cluster.is_none() {
            let cluster = u128::from(self.random.u64()) << 64 | u128::from(self.random.u64());
            bodies.push(entry::encode_found(now, cluster));
        }
        let mut group: Vec<proto::Member> = self.members.alive();
        group.push(self.members.own());
        for member in &group {
            if self.members.enrolled(&member.name).await == 0 {
                bodies.push(entry::encode_enrol(now, &member.name, member.incarnation));
            }
        }
        // A new format or rule may be used only once every member understands it.
        let common = group.iter().map(|member| member.feature_level).min().unwrap_or_default();
        if group.len() == self.group_size && common > scalars.feature_level {
            bodies.push(entry::encode_feature_level(now, common));
        }
        for body in bodies {
            if let Err(refused) = self.proposer.propose(body).await {
                tracing::debug!(?refused, "left to the next round");
                return;
            }
        }
    }
}

pub(crate) fn cluster_id(cluster: u128) -> String {
    format!("{cluster:032x}")
}
