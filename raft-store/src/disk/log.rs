//! The seam to the log's disk, its RocksDB and its simulated twin.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use rocksdb::{DB, DBCompressionType, DBRecoveryMode, ReadOptions, WriteBatch, WriteOptions};

use super::DiskError;
use super::rocks_state::{common_options, disk_error};
use crate::room;

/// What can happen to the log, in the order in which it must.
#[derive(Clone, Debug)]
pub(crate) enum LogOp {
    Put {
        index: u64,
        record: Bytes,
    },
    /// Remove this index and all after it.
    RemoveFrom {
        index: u64,
    },
    /// Remove this index and all before it.
    RemoveThrough {
        index: u64,
    },
    Meta {
        name: &'static str,
        value: Bytes,
    },
}

/// Written by one thread, read by some.
pub(crate) trait LogDisk: Send + Sync + 'static {
    /// Write atomically; durable when it returns.
    fn write(&self, ops: &[LogOp]) -> Result<(), DiskError>;
    /// After a failed write: make the disk usable again, if it is.
    fn recover(&self) -> Result<(), DiskError>;
    /// The records from `from` on and before `to`, at most about `max_bytes` but at least one.
    fn read(&self, from: u64, to: u64, max_bytes: usize) -> Result<Vec<(u64, Bytes)>, DiskError>;
    fn last(&self) -> Result<Option<(u64, Bytes)>, DiskError>;
    fn meta(&self, name: &'static str) -> Result<Option<Bytes>, DiskError>;
}

/// The simulated twin. What was written is durable; what the writer still held when it crashed is not.
#[derive(Debug, Default)]
pub(crate) struct MemoryLog(Mutex<MemoryLogContent>);

#[derive(Debug, Default)]
struct MemoryLogContent {
    records: BTreeMap<u64, Bytes>,
    meta: BTreeMap<&'static str, Bytes>,
    full: bool,
}

impl MemoryLog {
    /// Refuse writes as a full disk does, or stop that.
    pub(crate) fn set_full(&self, full: bool) {
        self.0.lock().full = full;
    }
}

impl LogDisk for MemoryLog {
    fn write(&self, ops: &[LogOp]) -> Result<(), DiskError> {
        let mut content = self.0.lock();
        if content.full {
            return Err(DiskError::Full("simulated".to_owned()));
        }
        for op in ops {
            match op {
                LogOp::Put { index, record } => drop(content.records.insert(*index, record.clone())),
                LogOp::RemoveFrom { index } => drop(content.records.split_off(index)),
                LogOp::RemoveThrough { index } => content.records = content.records.split_off(&(index + 1)),
                LogOp::Meta { name, value } => drop(content.meta.insert(name, value.clone())),
            }
        }
        Ok(())
    }

    fn recover(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn read(&self, from: u64, to: u64, max_bytes: usize) -> Result<Vec<(u64, Bytes)>, DiskError> {
        let content = self.0.lock();
        let mut bytes = 0;
        let records = content.records.range(from..to.max(from)).take_while(|(_, record)| {
            let fits = bytes == 0 || bytes + record.len() <= max_bytes;
            bytes += record.len().max(1);
            fits
        });
        Ok(records.map(|(index, record)| (*index, record.clone())).collect())
    }

    fn last(&self) -> Result<Option<(u64, Bytes)>, DiskError> {
        Ok(self.0.lock().records.last_key_value().map(|(index, record)| (*index, record.clone())))
    }

    fn meta(&self, name: &'static str) -> Result<Option<Bytes>, DiskError> {
        Ok(self.0.lock().meta.get(name).cloned())
    }
}

const MEMTABLE_BYTES: usize = 8 << 20;
const MAX_OPEN_FILES: i32 = 64;
/// Reads wait while the log is opened again, so that this must not go on for long.
const REOPEN_TRIES: u32 = 25;
/// The write-ahead log is cut by a flush when it is so large.
const MAX_WAL_BYTES: u64 = 32 << 20;

/// The log in a RocksDB of its own: its write-ahead log holds the only sync on the way of a write.
pub(crate) struct RocksLog {
    path: std::path::PathBuf,
    /// `None` only while it is reopened.
    db: RwLock<Option<DB>>,
}

impl std::fmt::Debug for RocksLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksLog").field("path", &self.path).finish_non_exhaustive()
    }
}

fn log_key(index: u64) -> [u8; 9] {
    let mut key = [b'L'; 9];
    key[1..].copy_from_slice(&index.to_be_bytes());
    key
}

fn index_of(key: &[u8]) -> Result<u64, DiskError> {
    match key {
        [b'L', index @ ..] => <[u8; 8]>::try_from(index).ok().map(u64::from_be_bytes),
        _ => None,
    }
    .ok_or_else(|| DiskError::Corrupt("a key of the log".to_owned()))
}

/// Just past the last log key.
const LOG_END: &[u8] = b"M";

fn meta_key(name: &str) -> Vec<u8> {
    format!("M{name}").into_bytes()
}

fn open_log(path: &Path, create: bool) -> Result<DB, DiskError> {
    let mut options = common_options(create);
    // A torn tail was never acknowledged; damage before it must not be skipped.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_max_total_wal_size(MAX_WAL_BYTES);
    options.set_write_buffer_size(MEMTABLE_BYTES);
    options.set_arena_block_size(64 << 10);
    options.set_max_open_files(MAX_OPEN_FILES);
    options.set_compression_type(DBCompressionType::Lz4);
    DB::open(&options, path).map_err(disk_error)
}

impl RocksLog {
    /// Makes a log that is not there only if it may `create` it.
    pub(crate) fn open(path: &Path, create: bool) -> Result<Self, DiskError> {
        Ok(Self { path: path.to_owned(), db: RwLock::new(Some(open_log(path, create)?)) })
    }

    fn with<T>(&self, act: impl FnOnce(&DB) -> Result<T, DiskError>) -> Result<T, DiskError> {
        match &*self.db.read() {
            Some(db) => act(db),
            None => Err(DiskError::Io("the log could not be reopened".to_owned())),
        }
    }
}

impl LogDisk for RocksLog {
    fn write(&self, ops: &[LogOp]) -> Result<(), DiskError> {
        let mut batch = WriteBatch::default();
        for op in ops {
            match op {
                LogOp::Put { index, record } => batch.put(log_key(*index), record),
                LogOp::RemoveFrom { index } => batch.delete_range(log_key(*index).as_slice(), LOG_END),
                LogOp::RemoveThrough { index } => batch.delete_range(log_key(0), log_key(index.saturating_add(1))),
                LogOp::Meta { name, value } => batch.put(meta_key(name), value),
            }
        }
        let mut options = WriteOptions::default();
        options.set_sync(true);
        self.with(|db| db.write_opt(batch, &options).map_err(disk_error))
    }

    fn recover(&self) -> Result<(), DiskError> {
        // To open it needs room, too; until then it can be read as it is.
        if room::is_short(&self.path).map_err(|error| DiskError::Io(error.to_string()))? {
            return Err(DiskError::Full("less than the reserve is left".to_owned()));
        }
        let mut db = self.db.write();
        // Closed before it is opened again: RocksDB locks its directory.
        drop(db.take());
        for _ in 0..REOPEN_TRIES {
            match open_log(&self.path, false) {
                Ok(opened) => {
                    *db = Some(opened);
                    return Ok(());
                }
                // The room has gone again meanwhile.
                Err(DiskError::Full(_)) => std::thread::sleep(room::RETRY_FULL),
                Err(error) => return Err(error),
            }
        }
        Err(DiskError::Io("there is no room to open the log".to_owned()))
    }

    fn read(&self, from: u64, to: u64, max_bytes: usize) -> Result<Vec<(u64, Bytes)>, DiskError> {
        self.with(|db| {
            let mut options = ReadOptions::default();
            options.set_iterate_lower_bound(log_key(from));
            options.set_iterate_upper_bound(log_key(to));
            let mut iterator = db.raw_iterator_opt(options);
            iterator.seek(log_key(from));
            let mut records = Vec::new();
            let mut bytes = 0;
            while let Some((key, record)) = iterator.item() {
                if !records.is_empty() && bytes + record.len() > max_bytes {
                    break;
                }
                bytes += record.len();
                records.push((index_of(key)?, Bytes::copy_from_slice(record)));
                iterator.next();
            }
            iterator.status().map_err(disk_error)?;
            Ok(records)
        })
    }

    fn last(&self) -> Result<Option<(u64, Bytes)>, DiskError> {
        self.with(|db| {
            let mut options = ReadOptions::default();
            options.set_iterate_lower_bound(log_key(0));
            options.set_iterate_upper_bound(LOG_END);
            let mut iterator = db.raw_iterator_opt(options);
            iterator.seek_to_last();
            iterator.status().map_err(disk_error)?;
            let last = iterator.item().map(|(key, record)| Ok((index_of(key)?, Bytes::copy_from_slice(record))));
            last.transpose()
        })
    }

    fn meta(&self, name: &'static str) -> Result<Option<Bytes>, DiskError> {
        self.with(|db| Ok(db.get(meta_key(name)).map_err(disk_error)?.map(Bytes::from)))
    }
}
