//! The state as the next entry sees it: a picture of the disk, and the writes of the entries before it in the batch.

use bytes::Bytes;

use crate::disk::{Batch, DiskError, Family, View};
use crate::model::{KeyValue, Revision};
use crate::record::{Current, Old, old_key};

pub(crate) struct Overlay<'a> {
    base: &'a dyn View,
    pub(crate) batch: Batch,
}

impl<'a> Overlay<'a> {
    pub(crate) fn new(base: &'a dyn View) -> Self {
        Self { base, batch: Batch::default() }
    }

    pub(crate) fn get(&self, family: Family, key: &[u8]) -> Result<Option<Bytes>, DiskError> {
        match self.batch.get(family, key) {
            Some(written) => Ok(written.clone()),
            None => self.base.get(family, key),
        }
    }

    pub(crate) fn current(&self, key: &[u8]) -> Result<Option<Current>, DiskError> {
        self.get(Family::Current, key)?.map(Current::decode).transpose()
    }

    /// The superseded record of `key` that `modified` wrote, if history still has it.
    pub(crate) fn old(&self, key: &Bytes, modified: Revision) -> Result<Option<KeyValue>, DiskError> {
        let Some(record) = self.get(Family::Old, &old_key(key, modified))? else { return Ok(None) };
        Ok(Some(Old::decode(record)?.into_key_value(key.clone(), modified)))
    }
}
