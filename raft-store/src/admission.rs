//! Whether this member may take part in raft, and whom it talks raft with.
//!
//! A member that lost its directory has forgotten its votes and what it acknowledged: taking part as if it were new, it
//! could vote away what was acknowledged with its help. So every member keeps durably which directory the others came
//! with, and a directory that never took part begins to only when *all* others have put it on record. Any of them tells
//! whatever comes under the name with another directory.
//!
//! Messages carry a tag of the cluster, so that a directory of another cluster, however it got there, is not listened
//! to: its higher term would be obeyed and its log would replace ours.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bincode::{Decode, Encode};
use parking_lot::Mutex;

use crate::apply::Scalars;
use crate::disk::DiskError;
use crate::disk::log::LogDisk;
use crate::envelope;
use crate::log::Writer;
use crate::members::Members;
use crate::upkeep::meeting::cluster_id;

/// Beside the log, because it must be as durable as votes are.
const STANDING: &str = "standing";
/// The tag of a member that does not know its cluster yet.
const UNKNOWN: u64 = 0;

/// What outlasts a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
struct Standing {
    /// All others have this directory on record.
    admitted: bool,
    /// Member → the incarnation of the directory it came with first.
    known: BTreeMap<String, u64>,
    cluster: Option<u128>,
}

/// See the module.
pub(crate) struct Admission {
    standing: Mutex<Standing>,
    /// Changes go to the disk one after another.
    changing: tokio::sync::Mutex<()>,
    open: AtomicBool,
    tag: AtomicU64,
    writer: Writer,
}

/// Why a message of raft is not listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this member is not admitted yet")]
    NotAdmitted,
    #[error("this member belongs to another cluster")]
    OtherCluster,
}

impl Admission {
    pub(crate) fn load(log: &dyn LogDisk, writer: Writer) -> Result<Arc<Self>, DiskError> {
        let standing: Standing = match log.meta(STANDING)? {
            Some(sealed) => envelope::open(&sealed)?,
            None => Standing::default(),
        };
        let tag = standing.cluster.map_or(UNKNOWN, tag_of);
        Ok(Arc::new(Self {
            standing: Mutex::new(standing),
            changing: tokio::sync::Mutex::default(),
            open: AtomicBool::new(false),
            tag: AtomicU64::new(tag),
            writer,
        }))
    }

    /// All others have this directory on record.
    pub(crate) fn is_admitted(&self) -> bool {
        self.standing.lock().admitted
    }

    /// Take part from now on.
    pub(crate) fn open(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// Remember that all others have this directory on record, then take part.
    pub(crate) async fn admit(&self) -> io::Result<()> {
        self.change(|standing| standing.admitted = true).await?;
        self.open();
        Ok(())
    }

    /// The incarnation of the directory that `name` came with; 0 for none.
    pub(crate) fn known(&self, name: &str) -> u64 {
        self.standing.lock().known.get(name).copied().unwrap_or_default()
    }

    /// Put the first directory of a member on record, durably; returns the one that is on record.
    pub(crate) async fn put_on_record(&self, name: &str, incarnation: u64) -> io::Result<u64> {
        if self.known(name) == 0 {
            self.change(|standing| {
                standing.known.entry(name.to_owned()).or_insert(incarnation);
            })
            .await?;
        }
        Ok(self.known(name))
    }

    /// Keep to this cluster for good.
    async fn belong_to(&self, cluster: u128) -> io::Result<()> {
        if self.standing.lock().cluster.is_none() {
            self.change(|standing| {
                standing.cluster.get_or_insert(cluster);
            })
            .await?;
            self.tag.store(tag_of(cluster), Ordering::Release);
        }
        Ok(())
    }

    /// Keep to the cluster as soon as it has a number. What stops this is the store's end.
    pub(crate) async fn follow(
        self: Arc<Self>,
        mut scalars: tokio::sync::watch::Receiver<Scalars>,
        members: Arc<Members>,
    ) {
        let Ok(cluster) = scalars.wait_for(|scalars| scalars.cluster.is_some()).await.map(|now| now.cluster) else {
            return;
        };
        let Some(cluster) = cluster else { return };
        members.update_own(|own| own.cluster_id = cluster_id(cluster));
        if let Err(error) = self.belong_to(cluster).await {
            tracing::debug!(%error, "the cluster was not noted");
        }
    }

    /// The cluster as this directory knows it, before its state does.
    pub(crate) fn cluster(&self) -> Option<u128> {
        self.standing.lock().cluster
    }

    /// What goes with each message.
    pub(crate) fn tag(&self) -> u64 {
        self.tag.load(Ordering::Acquire)
    }

    /// Whether a message with this tag is listened to.
    pub(crate) fn check(&self, theirs: u64) -> Result<(), Refusal> {
        if !self.open.load(Ordering::Acquire) {
            return Err(Refusal::NotAdmitted);
        }
        let own = self.tag();
        if own != theirs && own != UNKNOWN && theirs != UNKNOWN {
            return Err(Refusal::OtherCluster);
        }
        Ok(())
    }

    /// On disk first, then in memory.
    async fn change(&self, change: impl FnOnce(&mut Standing)) -> io::Result<()> {
        let _one_at_a_time = self.changing.lock().await;
        let mut new = self.standing.lock().clone();
        change(&mut new);
        self.writer.put_meta(STANDING, envelope::seal(&new)).await?;
        *self.standing.lock() = new;
        Ok(())
    }
}

fn tag_of(cluster: u128) -> u64 {
    let half = cluster.to_be_bytes().last_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(half) | 1
}
