//! The raft log: recent entries in memory, all of them on disk, written by one writer in groups.

pub(crate) mod record;
mod writer;

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, RaftLogReader};
use parking_lot::Mutex;

use crate::disk::DiskError;
use crate::disk::log::{LogDisk, LogOp};
use crate::envelope;
use crate::pool::Pool;
use crate::raft::{Entry, LogId, TypeConfig, Vote};
use cache::Cache;
pub(crate) use writer::Writer;

mod cache;

/// One read of the log from the disk takes about so much.
const READ_BYTES: usize = 2 << 20;

const VOTE: &str = "vote";
const COMMITTED: &str = "committed";
const PURGED: &str = "purged";

/// Handles to the log; clones share it.
#[derive(Clone)]
pub(crate) struct LogStore {
    disk: Arc<dyn LogDisk>,
    cache: Arc<Mutex<Cache>>,
    writer: Writer,
    pool: Pool,
}

fn io_error(error: DiskError) -> io::Error {
    let kind = match &error {
        DiskError::Full(_) => io::ErrorKind::StorageFull,
        DiskError::Io(_) => io::ErrorKind::Other,
        DiskError::Corrupt(_) => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error)
}

/// A scalar of the library as stored beside the log.
fn read_meta<T: serde::de::DeserializeOwned>(disk: &dyn LogDisk, name: &'static str) -> Result<Option<T>, DiskError> {
    let Some(sealed) = disk.meta(name)? else { return Ok(None) };
    let bincode::serde::Compat(value) = envelope::open(&sealed)?;
    Ok(Some(value))
}

fn meta<T: serde::Serialize>(name: &'static str, value: &T) -> LogOp {
    LogOp::Meta { name, value: envelope::seal(&bincode::serde::Compat(value)) }
}

impl LogStore {
    /// Read where the log stands and start using it.
    pub(crate) fn open(disk: Arc<dyn LogDisk>, writer: Writer, pool: Pool) -> Result<Self, DiskError> {
        let purged: Option<LogId> = read_meta(&*disk, PURGED)?;
        let last = match disk.last()? {
            Some((index, record)) => Some(record::decode(index, &record)?.log_id),
            None => None,
        };
        let vote = read_meta(&*disk, VOTE)?;
        let cache = Cache::new(purged, last.max(purged), vote);
        Ok(Self { disk, cache: Arc::new(Mutex::new(cache)), writer, pool })
    }

    /// The entries of `[from, to)`, a prefix of them if they are many.
    async fn read(&self, from: u64, to: u64) -> io::Result<Vec<Entry>> {
        let (to, mut entries, cached_from) = {
            let cache = self.cache.lock();
            let to = to.min(cache.next_index());
            let cached_from = cache.first_index().max(from).min(to);
            (to, cache.read(cached_from, to), cached_from)
        };
        if from >= to || from == cached_from {
            return Ok(entries);
        }
        let disk = Arc::clone(&self.disk);
        let records = self.pool.run(move || disk.read(from, cached_from, READ_BYTES)).await;
        let records = records.map_err(|_closed| io::Error::other("the store is closing"))?.map_err(io_error)?;
        let complete = records.last().is_some_and(|(index, _)| index + 1 == cached_from);
        let decoded = records.iter().map(|(index, record)| record::decode(*index, record));
        let mut read = decoded.collect::<Result<Vec<_>, _>>().map_err(io_error)?;
        if complete {
            read.append(&mut entries);
        }
        Ok(read)
    }
}

fn bounds(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let from = match range.start_bound() {
        Bound::Included(from) => *from,
        Bound::Excluded(from) => from + 1,
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(to) => to + 1,
        Bound::Excluded(to) => *to,
        Bound::Unbounded => u64::MAX,
    };
    (from, to)
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + openraft::OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let (from, to) = bounds(&range);
        let mut entries = self.read(from, to).await?;
        // All that was asked for, however many reads it takes.
        while let Some(last) = entries.last().map(|entry| entry.log_id.index)
            && last + 1 < to
        {
            let mut more = self.read(last + 1, to).await?;
            if more.is_empty() {
                break;
            }
            entries.append(&mut more);
        }
        Ok(entries)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        let mut entries = self.read(start, end).await?;
        let mut bytes = 0;
        let fitting = entries.iter().take_while(|entry| {
            let fits = bytes < READ_BYTES;
            bytes += cache::weight(entry);
            fits
        });
        let count = fitting.count();
        entries.truncate(count);
        Ok(entries)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.cache.lock().vote)
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let cache = self.cache.lock();
        Ok(LogState { last_purged_log_id: cache.purged, last_log_id: cache.last })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        self.writer.run(vec![meta(VOTE, vote)]).await?;
        self.cache.lock().vote = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        // Goes with the next synced batch: losing it costs a restart some replay, no data.
        if let Some(committed) = committed {
            self.writer.set_committed(meta(COMMITTED, &committed));
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        read_meta(&*self.disk, COMMITTED).map_err(io_error)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + openraft::OptionalSend,
        I::IntoIter: openraft::OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        // Readable at once; durable when the callback says so.
        self.cache.lock().append(&entries, self.writer.flushed());
        self.writer.append(entries, callback);
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        let index = last_log_id.map_or(0, |last| last.index + 1);
        self.cache.lock().truncate(index, last_log_id);
        self.writer.unflush(index);
        self.writer.run(vec![LogOp::RemoveFrom { index }]).await
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        self.cache.lock().purge(log_id);
        // One range removal; in the same write the mark, so that they never disagree.
        self.writer.run(vec![meta(PURGED, &log_id), LogOp::RemoveThrough { index: log_id.index }]).await
    }
}
