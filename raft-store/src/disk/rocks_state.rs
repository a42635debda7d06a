//! The state in RocksDB: no write-ahead log of its own (the raft log is it), all families flushed at one point.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::RwLock;
use rocksdb::checkpoint::Checkpoint as RocksCheckpoint;
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DBRawIterator, FlushOptions, LogLevel,
    Options, ReadOptions, ReadTier, WriteBatch, WriteOptions,
};

use crate::room;

use super::{Batch, Checkpoint, CheckpointDirectory, Cursor, DiskError, Family, StateDisk, View};

/// Blocks of the state that stay in memory. Index and filter blocks are outside it: in a small cache they thrash.
const BLOCK_CACHE_BYTES: usize = 16 << 20;
/// What is not yet flushed, over all families.
const MEMTABLES_BYTES: usize = 12 << 20;
const BLOOM_BITS_PER_KEY: f64 = 10.0;
const MAX_OPEN_FILES: i32 = 256;
/// Not used.
const DEFAULT_FAMILY: &str = "default";
/// Names the directory that holds the state now.
const POINTER: &str = "STATE";

/// See the module.
pub(crate) struct RocksState {
    root: PathBuf,
    /// Replaced when a checkpoint is installed; readers keep what they have.
    db: RwLock<Arc<Db>>,
    next_directory: AtomicU64,
    cache: Cache,
}

/// An open database that removes its directory once it has been replaced and the last reader is gone.
struct Db {
    handle: DB,
    path: PathBuf,
    replaced: std::sync::atomic::AtomicBool,
}

impl Drop for Db {
    fn drop(&mut self) {
        self.handle.cancel_all_background_work(true);
        if self.replaced.load(Ordering::Acquire) {
            drop(CheckpointDirectory::new(self.path.clone()));
        }
    }
}

impl std::fmt::Debug for RocksState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksState").field("root", &self.root).finish_non_exhaustive()
    }
}

pub(crate) fn disk_error(error: rocksdb::Error) -> DiskError {
    let text = error.into_string();
    // RocksDB words it in several ways, by operation.
    if text.contains("No space left") || text.contains("NoSpace") || text.contains("Out of space") {
        DiskError::Full(text)
    } else if text.starts_with("Corruption") || text.contains("create_if_missing is false") {
        DiskError::Corrupt(text)
    } else {
        DiskError::Io(text)
    }
}

pub(crate) fn io_error(error: std::io::Error) -> DiskError {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => DiskError::Full(error.to_string()),
        _ => DiskError::Io(error.to_string()),
    }
}

impl RocksState {
    /// Whether there is a state at `root`.
    pub(crate) fn exists(root: &Path) -> Result<bool, DiskError> {
        root.join(POINTER).try_exists().map_err(io_error)
    }

    /// Makes a state where there is none only if it may `create` it.
    pub(crate) fn open(root: &Path, create: bool) -> Result<Self, DiskError> {
        std::fs::create_dir_all(root).map_err(io_error)?;
        let current = read_pointer(root)?;
        if current.is_none() && !create {
            return Err(DiskError::Corrupt(format!("file {POINTER} is missing")));
        }
        let newest = remove_strays(root, current)?;
        let cache = Cache::new_lru_cache(BLOCK_CACHE_BYTES);
        let path = directory(root, current.unwrap_or(newest + 1));
        let db = open_db(&path, &cache, current.is_none())?;
        if current.is_none() {
            write_pointer(root, newest + 1)?;
        }
        Ok(Self {
            root: root.to_owned(),
            db: RwLock::new(Arc::new(Db { handle: db, path, replaced: false.into() })),
            next_directory: AtomicU64::new(current.unwrap_or(0).max(newest) + 2),
            cache,
        })
    }

    fn db(&self) -> Arc<Db> {
        Arc::clone(&self.db.read())
    }

    /// A flush that finds the disk full stops RocksDB, and with it applies. It starts again by itself when there is room,
    /// but never if it is asked to flush meanwhile.
    fn check_room(&self, db: &DB) -> Result<(), DiskError> {
        if room::is_short(&self.root).map_err(|error| DiskError::Io(error.to_string()))? {
            return Err(DiskError::Full("less than the reserve is left".to_owned()));
        }
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        db.write_opt(WriteBatch::default(), &options).map_err(disk_error)
    }

    fn fresh_directory(&self) -> PathBuf {
        directory(&self.root, self.next_directory.fetch_add(1, Ordering::Relaxed))
    }
}

fn directory(root: &Path, number: u64) -> PathBuf {
    root.join(format!("state-{number}"))
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("state-")?.parse().ok()
}

fn read_pointer(root: &Path) -> Result<Option<u64>, DiskError> {
    match std::fs::read_to_string(root.join(POINTER)) {
        Ok(text) => {
            let number = text.trim().parse();
            number.map(Some).map_err(|_invalid| DiskError::Corrupt(format!("file {POINTER} names no directory")))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(error)),
    }
}

/// Replace the pointer durably: written aside, synced, renamed, directory synced.
fn write_pointer(root: &Path, number: u64) -> Result<(), DiskError> {
    let aside = root.join(format!("{POINTER}.new"));
    let write = || {
        std::fs::write(&aside, format!("{number}\n"))?;
        std::fs::File::open(&aside)?.sync_all()?;
        std::fs::rename(&aside, root.join(POINTER))?;
        std::fs::File::open(root)?.sync_all()
    };
    write().map_err(io_error)
}

/// Remove checkpoints that a crash left behind; returns the highest number in use.
fn remove_strays(root: &Path, current: Option<u64>) -> Result<u64, DiskError> {
    let mut newest = current.unwrap_or(0);
    for entry in std::fs::read_dir(root).map_err(io_error)? {
        let path = entry.map_err(io_error)?.path();
        let Some(number) = number_of(&path) else { continue };
        newest = newest.max(number);
        if current != Some(number) {
            drop(CheckpointDirectory::new(path));
        }
    }
    Ok(newest)
}

fn open_db(path: &Path, cache: &Cache, create: bool) -> Result<DB, DiskError> {
    let mut options = common_options(create);
    options.create_missing_column_families(true);
    options.set_atomic_flush(true);
    options.set_db_write_buffer_size(MEMTABLES_BYTES);
    options.set_max_open_files(MAX_OPEN_FILES);
    // The one that RocksDB always has would count with its own, larger, buffer when RocksDB judges whether a disk that
    // was full has room again.
    let names = std::iter::once(DEFAULT_FAMILY).chain(Family::ALL.map(Family::name));
    let families = names.map(|name| ColumnFamilyDescriptor::new(name, family_options(cache)));
    DB::open_cf_descriptors(&options, path, families).map_err(disk_error)
}

/// What both databases share.
pub(super) fn common_options(create: bool) -> Options {
    let mut options = Options::default();
    options.create_if_missing(create);
    options.set_max_background_jobs(2);
    options.set_stats_dump_period_sec(0);
    options.set_skip_stats_update_on_db_open(true);
    options.set_keep_log_file_num(2);
    options.set_max_log_file_size(1 << 20);
    options.set_log_level(LogLevel::Warn);
    options.set_table_cache_num_shard_bits(2);
    options
}

fn family_options(cache: &Cache) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_cache_index_and_filter_blocks(false);
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
    table.set_format_version(5);
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_size(MEMTABLES_BYTES);
    options.set_arena_block_size(64 << 10);
    options.set_max_write_buffer_number(3);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_bottommost_compression_type(DBCompressionType::Zstd);
    options.set_level_compaction_dynamic_level_bytes(true);
    options
}

fn family_of(db: &DB, family: Family) -> Result<&rocksdb::ColumnFamily, DiskError> {
    db.cf_handle(family.name()).ok_or_else(|| DiskError::Corrupt(format!("column family {} is missing", family.name())))
}

struct RocksView<'a> {
    db: &'a DB,
    snapshot: rocksdb::Snapshot<'a>,
}

impl View for RocksView<'_> {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Bytes>, DiskError> {
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.snapshot);
        let found = self.db.get_pinned_cf_opt(family_of(self.db, family)?, key, &options).map_err(disk_error)?;
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn cursor<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Result<Box<dyn Cursor + 'a>, DiskError> {
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.snapshot);
        options.set_total_order_seek(true);
        if !to.is_empty() {
            options.set_iterate_upper_bound(to);
        }
        // Tells RocksDB that range tombstones below the bound need no look.
        options.set_iterate_lower_bound(from);
        let mut iterator = self.db.raw_iterator_cf_opt(family_of(self.db, family)?, options);
        iterator.seek(from);
        iterator.status().map_err(disk_error)?;
        Ok(Box::new(RocksCursor(iterator)))
    }
}

struct RocksCursor<'a>(DBRawIterator<'a>);

impl Cursor for RocksCursor<'_> {
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.0.item()
    }

    fn advance(&mut self) -> Result<(), DiskError> {
        if self.0.valid() {
            self.0.next();
            self.0.status().map_err(disk_error)?;
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<(), DiskError> {
        if self.0.key().is_some_and(|at| at < key) {
            self.0.seek(key);
            self.0.status().map_err(disk_error)?;
        }
        Ok(())
    }
}

impl StateDisk for RocksState {
    fn view(&self, read: &mut dyn FnMut(&dyn View)) {
        let db = self.db();
        read(&RocksView { snapshot: db.handle.snapshot(), db: &db.handle });
    }

    fn get_cached(&self, family: Family, key: &[u8]) -> Option<Result<Option<Bytes>, DiskError>> {
        let db = self.db();
        let mut options = ReadOptions::default();
        options.set_read_tier(ReadTier::BlockCache);
        let found = match family_of(&db.handle, family) {
            Ok(family) => db.handle.get_pinned_cf_opt(family, key, &options),
            Err(error) => return Some(Err(error)),
        };
        match found {
            Ok(value) => Some(Ok(value.map(|value| Bytes::copy_from_slice(&value)))),
            Err(error) if error.kind() == rocksdb::ErrorKind::Incomplete => None,
            Err(error) => Some(Err(disk_error(error))),
        }
    }

    fn write(&self, batch: &Batch) -> Result<(), DiskError> {
        let db = self.db();
        let mut writes = WriteBatch::default();
        for (family, from, to) in &batch.removed_ranges {
            writes.delete_range_cf(family_of(&db.handle, *family)?, from, to);
        }
        for (family, changes) in Family::ALL.iter().zip(&batch.changes) {
            let family = family_of(&db.handle, *family)?;
            for (key, value) in changes {
                match value {
                    Some(value) => writes.put_cf(family, key, value),
                    None => writes.delete_cf(family, key),
                }
            }
        }
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        db.handle.write_opt(writes, &options).map_err(disk_error)
    }

    fn flush(&self) -> Result<(), DiskError> {
        let db = self.db();
        self.check_room(&db.handle)?;
        let families: Result<Vec<_>, _> = Family::ALL.iter().map(|family| family_of(&db.handle, *family)).collect();
        let mut options = FlushOptions::default();
        options.set_wait(true);
        db.handle.flush_cfs_opt(&families?, &options).map_err(disk_error)
    }

    fn checkpoint(&self) -> Result<Checkpoint, DiskError> {
        let db = self.db();
        self.check_room(&db.handle)?;
        let path = self.fresh_directory();
        // Flushes first, which it must where there is no write-ahead log.
        let checkpoint = RocksCheckpoint::new(&db.handle).map_err(disk_error)?;
        checkpoint.create_checkpoint(&path).map_err(disk_error)?;
        Ok(Checkpoint::Directory(Arc::new(CheckpointDirectory::new(path))))
    }

    fn install(&self, checkpoint: &Checkpoint) -> Result<(), DiskError> {
        let Checkpoint::Directory(received) = checkpoint else {
            return Err(DiskError::Corrupt("a simulated checkpoint cannot go into RocksDB".to_owned()));
        };
        // It was received under a number of its own, so that it stays where it is.
        let path = received.path.clone();
        let number = number_of(&path).ok_or_else(|| DiskError::Corrupt("a checkpoint without a number".to_owned()))?;
        let db = open_db(&path, &self.cache, false)?;
        write_pointer(&self.root, number)?;
        received.kept.store(true, Ordering::Release);
        let new = Arc::new(Db { handle: db, path, replaced: false.into() });
        let old = std::mem::replace(&mut *self.db.write(), new);
        old.replaced.store(true, Ordering::Release);
        Ok(())
    }

    fn receive(&self) -> Result<Checkpoint, DiskError> {
        let path = self.fresh_directory();
        std::fs::create_dir_all(&path).map_err(io_error)?;
        Ok(Checkpoint::Directory(Arc::new(CheckpointDirectory::new(path))))
    }
}
