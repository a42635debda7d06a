//! The replicated memory of applied requests, so that a resend gets the first result and is never applied twice.

use std::collections::{HashMap, VecDeque};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::overlay::Overlay;
use crate::disk::{DiskError, Family, View};
use crate::entry::RequestId;
use crate::model::Revision;

/// So many requests are remembered; a resend of an older one is answered "unknown". All members must agree on it:
/// changing it needs a feature level.
const REMEMBERED: usize = 32_768;
/// Forget in steps, so that the disk sees one range removal for many.
const FORGET_STEP: usize = 1024;

/// What a committed transaction answered, as far as it cannot be told from the transaction itself: its revision, then
/// for each operation the revision of the record that it replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remembered(Box<[u64]>);

impl Remembered {
    pub(super) fn new(revision: Revision, previous: impl Iterator<Item = u64>) -> Self {
        Self(std::iter::once(revision.0).chain(previous).collect())
    }

    pub(super) fn revision(&self) -> Revision {
        Revision(self.0.first().copied().unwrap_or_default())
    }

    pub(super) fn previous(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().skip(1).copied()
    }
}

/// See the module. Lookups only: the map is never iterated.
#[derive(Debug, Default)]
pub(crate) struct Dedup {
    by_id: HashMap<RequestId, Remembered>,
    /// Oldest first; indexes ascend.
    order: VecDeque<(u64, RequestId)>,
    forgotten_through: u64,
}

impl Dedup {
    pub(super) fn get(&self, id: RequestId) -> Option<Remembered> {
        self.by_id.get(&id).cloned()
    }

    /// Requests at or below this log index may have been forgotten.
    pub(super) fn forgotten_through(&self) -> u64 {
        self.forgotten_through
    }

    pub(super) fn remember(&mut self, state: &mut Overlay<'_>, index: u64, id: RequestId, remembered: Remembered) {
        state.batch.put(Family::Dedup, index.to_be_bytes().to_vec(), encode(id, &remembered));
        self.insert(index, id, remembered);
        if self.order.len() >= REMEMBERED + FORGET_STEP {
            self.forget(state);
        }
    }

    fn insert(&mut self, index: u64, id: RequestId, remembered: Remembered) {
        self.by_id.insert(id, remembered);
        self.order.push_back((index, id));
    }

    fn forget(&mut self, state: &mut Overlay<'_>) {
        for (index, id) in self.order.drain(..FORGET_STEP) {
            self.by_id.remove(&id);
            self.forgotten_through = index;
        }
        let to = (self.forgotten_through + 1).to_be_bytes();
        state.batch.changes[Family::Dedup as usize].retain(|key, _| key[..] >= to[..]);
        state.batch.removed_ranges.push((Family::Dedup, Bytes::new(), Bytes::copy_from_slice(&to)));
        state.batch.put(Family::Meta, FORGOTTEN_KEY, self.forgotten_through.to_be_bytes().to_vec());
    }

    /// Rebuild from the disk.
    pub(crate) fn load(view: &dyn View) -> Result<Self, DiskError> {
        let mut dedup = Self::default();
        if let Some(value) = view.get(Family::Meta, FORGOTTEN_KEY)? {
            dedup.forgotten_through = index(&value)?;
        }
        let mut cursor = view.cursor(Family::Dedup, &[], &[])?;
        while let Some((key, value)) = cursor.entry() {
            let (id, remembered) = decode(value)?;
            dedup.insert(index(key)?, id, remembered);
            cursor.advance()?;
        }
        Ok(dedup)
    }
}

const FORGOTTEN_KEY: &[u8] = b"dedup_forgotten";

fn index(bytes: &[u8]) -> Result<u64, DiskError> {
    <[u8; 8]>::try_from(bytes).map(u64::from_be_bytes).map_err(|_length| damaged())
}

fn damaged() -> DiskError {
    DiskError::Corrupt("a record of family dedup".to_owned())
}

fn encode(id: RequestId, remembered: &Remembered) -> Bytes {
    let mut out = BytesMut::with_capacity(16 + 8 * remembered.0.len());
    out.put_u64(id.origin);
    out.put_u64(id.sequence);
    for number in &remembered.0 {
        out.put_u64(*number);
    }
    out.freeze()
}

fn decode(mut record: &[u8]) -> Result<(RequestId, Remembered), DiskError> {
    if record.len() < 24 || !record.len().is_multiple_of(8) {
        return Err(damaged());
    }
    let id = RequestId { origin: record.get_u64(), sequence: record.get_u64() };
    let mut numbers = Vec::with_capacity(record.len() / 8);
    while record.has_remaining() {
        numbers.push(record.get_u64());
    }
    Ok((id, Remembered(numbers.into())))
}
