//! Applies entries in log order: state machine, disk, watchers, in this order, before anyone is answered.

use std::sync::Arc;

use bytes::Bytes;

use crate::apply::dedup::Dedup;
use crate::apply::overlay::Overlay;
use crate::apply::{self, Effect, Machine, Reply, Scalars};
use crate::disk::{Batch, DiskError, Family, StateDisk};
use crate::entry;
use crate::envelope;
use crate::metrics::Metrics;
use crate::model::{Event, Revision};
use crate::mvcc::{self, SCALARS_KEY};
use crate::room::Room;
use crate::watch::Hub;

/// Owned by the one applier.
pub(crate) struct Engine {
    disk: Arc<dyn StateDisk>,
    machine: Machine,
    hub: Arc<Hub>,
    /// The scalars as of the last batch, for those who must not wait for an apply.
    scalars: tokio::sync::watch::Sender<Scalars>,
    metrics: Arc<Metrics>,
    room: Arc<Room>,
}

/// One entry to apply: its index, and its body if it is not one of raft's own.
pub(crate) struct Pending {
    pub(crate) index: u64,
    pub(crate) body: Option<Bytes>,
}

/// Read what the machine keeps in memory.
pub(crate) fn load(disk: &dyn StateDisk) -> Result<Machine, DiskError> {
    let mut loaded = Ok(Machine::default());
    disk.view(&mut |view| {
        loaded = mvcc::scalars(view).and_then(|scalars| Dedup::load(view).map(|dedup| Machine { scalars, dedup }));
    });
    loaded
}

impl Engine {
    pub(crate) fn new(
        disk: Arc<dyn StateDisk>,
        machine: Machine,
        hub: Arc<Hub>,
        metrics: Arc<Metrics>,
        room: Arc<Room>,
    ) -> Self {
        let scalars = tokio::sync::watch::Sender::new(machine.scalars.clone());
        Self { disk, machine, hub, scalars, metrics, room }
    }

    /// Apply entries in order as one write, with `extra` in the same write; then publish their events.
    pub(crate) fn apply(&mut self, entries: Vec<Pending>, extra: Batch) -> Result<Vec<Reply>, DiskError> {
        let Self { disk, machine, .. } = self;
        let count = entries.len() as u64;
        let mut applied = Ok((Batch::default(), Vec::new(), Vec::new()));
        let mut entries = Some(entries);
        disk.view(&mut |view| {
            if let Some(entries) = entries.take() {
                applied = run(machine, Overlay::new(view), entries);
            }
        });
        let (mut batch, replies, events) = applied?;
        batch.put(Family::Meta, SCALARS_KEY, envelope::seal(&self.machine.scalars));
        for (changes, extra) in batch.changes.iter_mut().zip(extra.changes) {
            changes.extend(extra);
        }
        // The entries are in the log: a full disk is waited out.
        self.room.wait(|| self.disk.write(&batch))?;
        self.hub.publish(events, Revision(self.machine.scalars.revision));
        self.publish_scalars();
        self.metrics.applied_entries.inc_by(count);
        self.metrics.revision.set(i64::try_from(self.machine.scalars.revision).unwrap_or(i64::MAX));
        Ok(replies)
    }

    /// Read all again after the disk's content was replaced; watchers behind it find out by themselves.
    pub(crate) fn reload(&mut self) -> Result<(), DiskError> {
        self.machine = load(&*self.disk)?;
        self.hub.reset(Revision(self.machine.scalars.revision));
        self.publish_scalars();
        Ok(())
    }

    /// Follow the scalars; wakes for more than a new revision or time only.
    pub(crate) fn subscribe_scalars(&self) -> tokio::sync::watch::Receiver<Scalars> {
        self.scalars.subscribe()
    }

    fn publish_scalars(&self) {
        let new = &self.machine.scalars;
        self.scalars.send_if_modified(|scalars| {
            let rest = Scalars { revision: new.revision, clock: new.clock, ..scalars.clone() };
            let notable = rest != *new;
            scalars.clone_from(new);
            notable
        });
    }
}

type Applied = (Batch, Vec<Reply>, Vec<Arc<Event>>);

fn run(machine: &mut Machine, mut overlay: Overlay<'_>, entries: Vec<Pending>) -> Result<Applied, DiskError> {
    let mut replies = Vec::with_capacity(entries.len());
    let mut published = Vec::with_capacity(entries.len());
    for Pending { index, body } in entries {
        let Some(body) = body else {
            replies.push(Reply::Done);
            continue;
        };
        let Effect { reply, events } = apply::apply(machine, &mut overlay, index, entry::decode(&body)?)?;
        replies.push(reply);
        published.extend(events);
    }
    Ok((overlay.batch, replies, published))
}
