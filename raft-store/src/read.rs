//! Reads of this member's state.

use std::sync::Arc;

use bytes::Bytes;

use crate::apply::counters;
use crate::disk::{DiskError, Family, StateDisk, View};
use crate::error::ReadError;
use crate::model::{KeyValue, Page, Range, Revision, WatchRange};
use crate::mvcc::{self, Changes};
use crate::pool::{Pool, PoolClosed};
use crate::record::{Current, escaped, split_escaped};

/// Runs reads where they may wait for a disk.
#[derive(Clone)]
pub(crate) struct Reader {
    disk: Arc<dyn StateDisk>,
    pool: Pool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

impl From<PoolClosed> for ReadError {
    fn from(PoolClosed: PoolClosed) -> Self {
        Self::Unavailable("the store is closing".to_owned())
    }
}

impl Reader {
    pub(crate) fn new(disk: Arc<dyn StateDisk>, pool: Pool) -> Self {
        Self { disk, pool }
    }

    /// Run `read` on a consistent picture of the state.
    async fn view<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn View) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let disk = Arc::clone(&self.disk);
        self.pool.run(move || view_once(&*disk, read)).await?
    }

    /// The key's record, which is at least as new as `at_least`, and a revision at which it stood so.
    pub(crate) async fn get(&self, key: Bytes, at_least: Revision) -> Result<(Option<KeyValue>, Revision), ReadError> {
        // A look at what is in memory never waits for the disk, and is what nearly every point read needs.
        if let Some(cached) = self.disk.get_cached(Family::Current, &key) {
            let record = cached?.map(Current::decode).transpose()?;
            let revision = record.as_ref().map_or(at_least, |record| at_least.max(record.modified));
            return Ok((record.map(|record| record.into_key_value(key)), revision));
        }
        self.view(move |view| {
            let revision = Revision(mvcc::scalars(view)?.revision);
            Ok((mvcc::get(view, &key)?, revision))
        })
        .await
    }

    /// One record as it is stored.
    pub(crate) async fn raw(&self, family: Family, key: Vec<u8>) -> Result<Option<Bytes>, ReadError> {
        self.view(move |view| Ok(view.get(family, &key)?)).await
    }

    pub(crate) async fn range(&self, range: Range) -> Result<Page, ReadError> {
        self.view(move |view| mvcc::range(view, &range)).await
    }

    pub(crate) async fn changes(
        &self,
        after: Revision,
        max_bytes: usize,
        range: WatchRange,
    ) -> Result<Changes, ReadError> {
        self.view(move |view| mvcc::changes(view, after, max_bytes, |key| range.contains(key))).await
    }

    /// All counters of `key` that are not zero.
    pub(crate) async fn counters(&self, key: Bytes) -> Result<std::collections::BTreeMap<String, i64>, ReadError> {
        self.view(move |view| {
            let from = escaped(&key);
            let to = crate::model::prefix_end(&from);
            let mut found = std::collections::BTreeMap::new();
            let mut cursor = view.cursor(Family::Counters, &from, &to)?;
            while let Some((stored, value)) = cursor.entry() {
                let (_key, name) = split_escaped(stored)?;
                let name = String::from_utf8(name.to_vec())
                    .map_err(|_invalid| DiskError::Corrupt("a counter's name".to_owned()))?;
                found.insert(name, counters::decode(&Bytes::copy_from_slice(value))?);
                cursor.advance()?;
            }
            Ok(found)
        })
        .await
    }

    /// Keys whose time has come, oldest first.
    pub(crate) async fn due(&self, now_ms: u64, limit: usize) -> Result<Vec<(Bytes, Revision)>, ReadError> {
        self.view(move |view| {
            let mut due = Vec::new();
            let to = now_ms.saturating_add(1).to_be_bytes();
            let mut cursor = view.cursor(Family::Expiry, &[], &to)?;
            while let Some((stored, value)) = cursor.entry().filter(|_| due.len() < limit) {
                let damaged = || DiskError::Corrupt("a record of family ttl".to_owned());
                let key = Bytes::copy_from_slice(stored.get(8..).ok_or_else(damaged)?);
                let revision = <[u8; 8]>::try_from(value).map_err(|_length| damaged())?;
                due.push((key, Revision(u64::from_be_bytes(revision))));
                cursor.advance()?;
            }
            Ok(due)
        })
        .await
    }
}

/// Run a closure that can be called once through the disk's interface.
pub(crate) fn view_once<T>(
    disk: &dyn StateDisk,
    read: impl FnOnce(&dyn View) -> Result<T, ReadError>,
) -> Result<T, ReadError> {
    let mut read = Some(read);
    let mut answer = None;
    disk.view(&mut |view| answer = read.take().map(|read| read(view)));
    answer.unwrap_or_else(|| Err(ReadError::Disk("the disk gave no view".to_owned())))
}
