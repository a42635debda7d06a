//! Lets go of old history: the leader decides up to where, every member removes it in its own time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorate_env::Clock;
use tokio::sync::watch;

use crate::apply::Scalars;
use crate::config::Timers;
use crate::disk::{Batch, DiskError, Family, StateDisk, View};
use crate::entry;
use crate::leader::LeaderLink;
use crate::model::Revision;
use crate::pool::Pool;
use crate::propose::Proposer;
use crate::record::{Changed, old_key, revision_key, split_revision_key};

/// Samples of (time, revision) in the history that is kept.
const SAMPLES: u32 = 5;
/// One step of removal, and the pause after it.
const STEP_RECORDS: usize = 512;
const STEP_PAUSE: Duration = Duration::from_millis(5);
const SWEPT_KEY: &[u8] = b"swept";

/// Propose, while leading, to compact what is older than the history to keep.
pub(crate) async fn decide_as_leader(
    leader: LeaderLink,
    proposer: Proposer,
    scalars: watch::Receiver<Scalars>,
    timers: Timers,
) {
    if timers.compact_every.is_zero() {
        return;
    }
    let clock = leader.clock().clone();
    let mut samples = VecDeque::new();
    let mut next = clock.now() + timers.compact_every;
    // Everyone samples, so that a new leader knows the past.
    let period = (timers.keep_history / SAMPLES).min(timers.compact_every).max(Duration::from_millis(10));
    loop {
        clock.sleep(period).await;
        let now = clock.now();
        let revision = scalars.borrow().revision;
        samples.push_back((now, revision));
        let is_old = |sample: &(quorate_env::clock::Instant, u64)| now.duration_since(sample.0) >= timers.keep_history;
        while samples.get(1).is_some_and(is_old) {
            samples.pop_front();
        }
        if now < next || !leader.is_self() {
            continue;
        }
        next = now + timers.compact_every;
        let Some((_, revision)) = samples.front().copied().filter(is_old) else { continue };
        if revision > scalars.borrow().compacted {
            let body = entry::encode_compact(proposer.wall_ms(), Revision(revision));
            if let Err(refused) = proposer.propose(body).await {
                tracing::debug!(?refused, "compaction is left to the next round");
            }
        }
    }
}

/// Remove compacted history from this member's disk, step by step.
pub(crate) async fn sweep(disk: Arc<dyn StateDisk>, pool: Pool, mut scalars: watch::Receiver<Scalars>, clock: Clock) {
    let mut swept = 0;
    loop {
        let Ok(compacted) = scalars.wait_for(|scalars| scalars.compacted > swept).await.map(|now| now.compacted) else {
            return;
        };
        loop {
            let disk = Arc::clone(&disk);
            let step = pool.run(move || sweep_step(&*disk, Revision(compacted))).await;
            match step {
                Ok(Ok(true)) => clock.sleep(STEP_PAUSE).await,
                Ok(Ok(false)) => break,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "old history stays until the next compaction");
                    break;
                }
                Err(_closed) => return,
            }
        }
        swept = compacted;
    }
}

/// Returns whether there is more to do.
fn sweep_step(disk: &dyn StateDisk, through: Revision) -> Result<bool, DiskError> {
    let mut step = Ok((Batch::default(), false));
    disk.view(&mut |view| step = plan_step(view, through));
    let (batch, more) = step?;
    disk.write(&batch)?;
    Ok(more)
}

/// The records that a change ended go first with it: they are visible before the change only.
fn plan_step(view: &dyn View, through: Revision) -> Result<(Batch, bool), DiskError> {
    let mut batch = Batch::default();
    let from = match view.get(Family::Meta, SWEPT_KEY)? {
        Some(value) => <[u8; 8]>::try_from(&value[..]).map(u64::from_be_bytes).unwrap_or_default(),
        None => 0,
    };
    let start = revision_key(Revision(from + 1), 0);
    let end = revision_key(Revision(through.0 + 1), 0);
    let mut cursor = view.cursor(Family::Revisions, &start, &end)?;
    let mut count = 0;
    let mut reached = through;
    let mut last = from;
    while let Some((stored, record)) = cursor.entry() {
        let revision = split_revision_key(stored)?;
        if count >= STEP_RECORDS && revision.0 != last {
            reached = Revision(last);
            break;
        }
        last = revision.0;
        count += 1;
        let changed = Changed::decode(record)?;
        if changed.previous.0 > 0 {
            batch.delete(Family::Old, old_key(&changed.key, changed.previous));
        }
        cursor.advance()?;
    }
    let removed_to = revision_key(Revision(reached.0 + 1), 0);
    batch.removed_ranges.push((Family::Revisions, start.into(), removed_to.into()));
    batch.put(Family::Meta, SWEPT_KEY, reached.0.to_be_bytes().to_vec());
    Ok((batch, reached < through))
}
