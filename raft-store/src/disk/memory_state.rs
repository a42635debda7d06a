//! The simulated twin of the state's disk: ordered maps, of which only what was flushed survives a crash.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use super::log::MemoryLog;
use super::{Batch, Checkpoint, Cursor, DiskError, Family, StateDisk, View};

type Families = [BTreeMap<Bytes, Bytes>; Family::ALL.len()];

/// A disk in memory that outlives the store on it. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SimulatedDisk {
    pub(crate) state: Arc<MemoryState>,
    pub(crate) log: Arc<MemoryLog>,
}

impl SimulatedDisk {
    /// Lose what was not synced, as a power cut does. The store on it must have been halted.
    pub fn crash(&self) {
        self.state.crash();
    }

    /// Refuse writes of the log for want of space, or stop refusing.
    pub fn set_full(&self, full: bool) {
        self.log.set_full(full);
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MemoryState {
    live: RwLock<Families>,
    flushed: Mutex<Families>,
}

impl MemoryState {
    /// Lose what was not flushed.
    pub(crate) fn crash(&self) {
        self.live.write().clone_from(&self.flushed.lock());
    }
}

struct MemoryView<'a>(&'a Families);

struct MemoryCursor<'a> {
    map: &'a BTreeMap<Bytes, Bytes>,
    to: Bound<Bytes>,
    at: Option<(&'a Bytes, &'a Bytes)>,
}

impl<'a> MemoryCursor<'a> {
    fn first(&self, from: Bound<&[u8]>) -> Option<(&'a Bytes, &'a Bytes)> {
        let to = self.to.as_ref().map(|key| &key[..]);
        if let (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to)) = (from, to)
            && from >= to
        {
            return None;
        }
        self.map.range::<[u8], _>((from, to)).next()
    }
}

impl Cursor for MemoryCursor<'_> {
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.at.map(|(key, value)| (&key[..], &value[..]))
    }

    fn advance(&mut self) -> Result<(), DiskError> {
        if let Some((key, _)) = self.at {
            self.at = self.first(Bound::Excluded(key));
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<(), DiskError> {
        if self.at.is_some_and(|(at, _)| at < key) {
            self.at = self.first(Bound::Included(key));
        }
        Ok(())
    }
}

impl View for MemoryView<'_> {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Bytes>, DiskError> {
        Ok(self.0[family as usize].get(key).cloned())
    }

    fn cursor<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Result<Box<dyn Cursor + 'a>, DiskError> {
        let to = if to.is_empty() { Bound::Unbounded } else { Bound::Excluded(Bytes::copy_from_slice(to)) };
        let mut cursor = MemoryCursor { map: &self.0[family as usize], to, at: None };
        cursor.at = cursor.first(Bound::Included(from));
        Ok(Box::new(cursor))
    }
}

impl StateDisk for MemoryState {
    fn view(&self, read: &mut dyn FnMut(&dyn View)) {
        read(&MemoryView(&self.live.read()));
    }

    fn get_cached(&self, family: Family, key: &[u8]) -> Option<Result<Option<Bytes>, DiskError>> {
        Some(MemoryView(&self.live.read()).get(family, key))
    }

    fn write(&self, batch: &Batch) -> Result<(), DiskError> {
        let mut live = self.live.write();
        for (family, from, to) in &batch.removed_ranges {
            live[*family as usize].retain(|key, _| *key < *from || *key >= *to);
        }
        for (family, changes) in batch.changes.iter().enumerate() {
            for (key, value) in changes {
                match value {
                    Some(value) => live[family].insert(key.clone(), value.clone()),
                    None => live[family].remove(key),
                };
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DiskError> {
        let live = self.live.read();
        self.flushed.lock().clone_from(&live);
        Ok(())
    }

    fn checkpoint(&self) -> Result<Checkpoint, DiskError> {
        let live = self.live.read();
        let files = Family::ALL.iter().map(|family| (family.name().to_owned(), dump(&live[*family as usize])));
        Ok(Checkpoint::Memory(Arc::new(Mutex::new(files.collect()))))
    }

    fn install(&self, checkpoint: &Checkpoint) -> Result<(), DiskError> {
        let Checkpoint::Memory(files) = checkpoint else {
            return Err(DiskError::Corrupt("a checkpoint directory cannot go into a simulated disk".to_owned()));
        };
        let files = files.lock();
        let mut families = Families::default();
        for family in Family::ALL {
            let dumped = files.get(family.name()).ok_or_else(|| truncated(family.name()))?;
            families[family as usize] = restore(dumped)?;
        }
        self.flushed.lock().clone_from(&families);
        *self.live.write() = families;
        Ok(())
    }

    fn receive(&self) -> Result<Checkpoint, DiskError> {
        Ok(Checkpoint::Memory(Arc::default()))
    }
}

fn dump(map: &BTreeMap<Bytes, Bytes>) -> Vec<u8> {
    let mut out = Vec::new();
    for part in map.iter().flat_map(|(key, value)| [key, value]) {
        out.extend_from_slice(&(part.len() as u64).to_be_bytes());
        out.extend_from_slice(part);
    }
    out
}

fn restore(mut dumped: &[u8]) -> Result<BTreeMap<Bytes, Bytes>, DiskError> {
    let mut map = BTreeMap::new();
    while !dumped.is_empty() {
        let (key, rest) = take(dumped)?;
        let (value, rest) = take(rest)?;
        map.insert(key, value);
        dumped = rest;
    }
    Ok(map)
}

fn take(dumped: &[u8]) -> Result<(Bytes, &[u8]), DiskError> {
    let short = || truncated("family");
    let (length, rest) = dumped.split_first_chunk::<8>().ok_or_else(short)?;
    let length = usize::try_from(u64::from_be_bytes(*length)).map_err(|_range| short())?;
    let (part, rest) = rest.split_at_checked(length).ok_or_else(short)?;
    Ok((Bytes::copy_from_slice(part), rest))
}

fn truncated(what: &str) -> DiskError {
    DiskError::Corrupt(format!("checkpoint {what} is cut short"))
}
