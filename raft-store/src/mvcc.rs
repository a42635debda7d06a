//! Reads of the multi-version state: a key, a range at a revision, the changes after a revision.

use std::sync::Arc;

use bytes::Bytes;

use crate::apply::Scalars;
use crate::disk::{Cursor, DiskError, Family, View};
use crate::envelope;
use crate::error::ReadError;
use crate::model::{Change, Event, KeyValue, MAX_PAGE_BYTES, Page, Range, Revision};
use crate::record::{
    Changed, Current, Old, escaped, escaped_bound, old_key, revision_key, split_old_key, split_revision_key,
};

/// The name of the scalars' record in family `meta`.
pub(crate) const SCALARS_KEY: &[u8] = b"scalars";

pub(crate) fn scalars(view: &dyn View) -> Result<Scalars, DiskError> {
    view.get(Family::Meta, SCALARS_KEY)?.map_or_else(|| Ok(Scalars::default()), |record| envelope::open(&record))
}

/// The key's record at the head.
pub(crate) fn get(view: &dyn View, key: &Bytes) -> Result<Option<KeyValue>, DiskError> {
    let record = view.get(Family::Current, key)?.map(Current::decode).transpose()?;
    Ok(record.map(|record| record.into_key_value(key.clone())))
}

/// One page of a range.
pub(crate) fn range(view: &dyn View, range: &Range) -> Result<Page, ReadError> {
    let scalars = scalars(view)?;
    let head = Revision(scalars.revision);
    let at = range.revision.unwrap_or(head);
    if at > head {
        return Err(ReadError::FutureRevision { head });
    }
    if at.0 < scalars.compacted {
        return Err(ReadError::Compacted { at: Revision(scalars.compacted) });
    }
    let mut page = PageBuilder::new(range, at);
    if at == head {
        let mut heads = Heads::open(view, range, at)?;
        while let Some(item) = heads.next(page.wants_values())? {
            if page.add(item) {
                break;
            }
        }
    } else {
        merge(Heads::open(view, range, at)?, Olds::open(view, range, at)?, &mut page)?;
    }
    Ok(page.finish())
}

/// Walk both sources in key order; a key visible at a revision is in exactly one of them.
fn merge(mut heads: Heads<'_>, mut olds: Olds<'_>, page: &mut PageBuilder<'_>) -> Result<(), DiskError> {
    let mut head = heads.next(page.wants_values())?;
    let mut old = olds.next(page.wants_values())?;
    loop {
        let head_is_next = match (&head, &old) {
            (None, None) => return Ok(()),
            (Some(head), Some(old)) => head.key < old.key,
            (head, _) => head.is_some(),
        };
        let source = if head_is_next { &mut head } else { &mut old };
        if let Some(item) = source.take()
            && page.add(item)
        {
            return Ok(());
        }
        if head_is_next {
            head = heads.next(page.wants_values())?;
        } else {
            old = olds.next(page.wants_values())?;
        }
    }
}

/// Collects items until a bound is met; counts on behind it where asked.
struct PageBuilder<'a> {
    range: &'a Range,
    page: Page,
    bytes: usize,
    full: bool,
    beyond: u64,
}

impl<'a> PageBuilder<'a> {
    fn new(range: &'a Range, revision: Revision) -> Self {
        let page = Page { revision, ..Page::default() };
        Self { range, page, bytes: 0, full: false, beyond: 0 }
    }

    fn wants_values(&self) -> bool {
        !(self.range.keys_only || self.range.count_only || self.full)
    }

    /// Returns whether the page needs nothing more.
    fn add(&mut self, item: KeyValue) -> bool {
        let limited = self.range.limit > 0 && self.page.items.len() >= self.range.limit;
        let size = item.key.len() + item.value.len();
        let heavy = !self.page.items.is_empty() && self.bytes + size > MAX_PAGE_BYTES;
        if self.range.count_only || self.full || limited || heavy {
            self.full = true;
            self.beyond += 1;
            return !(self.range.count_only || self.range.count_remaining);
        }
        self.bytes += size;
        self.page.items.push(item);
        false
    }

    fn finish(self) -> Page {
        let counted = self.range.count_only || self.range.count_remaining;
        Page { more: self.full && !self.range.count_only, remaining: counted.then_some(self.beyond), ..self.page }
    }
}

/// The head records that were already there at a revision.
struct Heads<'a> {
    cursor: Box<dyn Cursor + 'a>,
    at: Revision,
}

impl<'a> Heads<'a> {
    fn open(view: &'a dyn View, range: &Range, at: Revision) -> Result<Self, DiskError> {
        Ok(Self { cursor: view.cursor(Family::Current, &range.start, &range.end)?, at })
    }

    fn next(&mut self, values: bool) -> Result<Option<KeyValue>, DiskError> {
        while let Some((key, record)) = self.cursor.entry() {
            let visible = Current::peek_modified(record)? <= self.at;
            let item = if visible { Some(head_item(key, record, values)?) } else { None };
            self.cursor.advance()?;
            if item.is_some() {
                return Ok(item);
            }
        }
        Ok(None)
    }
}

fn head_item(key: &[u8], record: &[u8], values: bool) -> Result<KeyValue, DiskError> {
    let record = if values { record } else { &record[..record.len().min(Current::HEADER)] };
    let key = Bytes::copy_from_slice(key);
    Ok(Current::decode(Bytes::copy_from_slice(record))?.into_key_value(key))
}

/// The superseded records that were visible at a revision.
struct Olds<'a> {
    cursor: Box<dyn Cursor + 'a>,
    at: Revision,
}

impl<'a> Olds<'a> {
    fn open(view: &'a dyn View, range: &Range, at: Revision) -> Result<Self, DiskError> {
        let to = if range.end.is_empty() { Vec::new() } else { escaped_bound(&range.end) };
        Ok(Self { cursor: view.cursor(Family::Old, &escaped_bound(&range.start), &to)?, at })
    }

    fn next(&mut self, values: bool) -> Result<Option<KeyValue>, DiskError> {
        while let Some((stored, _)) = self.cursor.entry() {
            let (key, modified) = split_old_key(stored)?;
            if modified > self.at {
                // Newer than asked for: go to the newest that is not.
                self.cursor.seek(&old_key(&key, self.at))?;
                continue;
            }
            let item = match self.cursor.entry() {
                Some((_, record)) if Old::peek_end(record)? > self.at => {
                    Some(old_item(&key, modified, record, values)?)
                }
                Some(_) | None => None,
            };
            // Whatever else this key has is older still.
            let mut behind = escaped(&key);
            behind.extend_from_slice(&[0xff; 9]);
            self.cursor.seek(&behind)?;
            if item.is_some() {
                return Ok(item);
            }
        }
        Ok(None)
    }
}

fn old_item(key: &[u8], modified: Revision, record: &[u8], values: bool) -> Result<KeyValue, DiskError> {
    let record = if values { record } else { &record[..record.len().min(Old::HEADER)] };
    let key = Bytes::copy_from_slice(key);
    Ok(Old::decode(Bytes::copy_from_slice(record))?.into_key_value(key, modified))
}

/// A piece of the change log, made of whole revisions.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) events: Vec<Arc<Event>>,
    /// Every change up to here has been seen.
    pub(crate) through: Revision,
}

/// The changes after `after`, at most about `max_bytes` of them, of keys that `wanted` accepts.
pub(crate) fn changes(
    view: &dyn View,
    after: Revision,
    max_bytes: usize,
    wanted: impl Fn(&[u8]) -> bool,
) -> Result<Changes, ReadError> {
    let scalars = scalars(view)?;
    if after.0 < scalars.compacted {
        return Err(ReadError::Compacted { at: Revision(scalars.compacted) });
    }
    let mut events = Vec::new();
    let mut bytes = 0;
    let from = revision_key(Revision(after.0 + 1), 0);
    let mut cursor = view.cursor(Family::Revisions, &from, &[])?;
    let mut through = after;
    while let Some((stored, record)) = cursor.entry() {
        let revision = split_revision_key(stored)?;
        if revision > through && bytes >= max_bytes {
            return Ok(Changes { events, through });
        }
        through = revision;
        // Walking costs time too, so skipped entries count a little.
        bytes += SKIPPED_ENTRY_BYTES;
        let changed = Changed::decode(record)?;
        if wanted(&changed.key) {
            let event = event(view, revision, changed)?;
            bytes += weight(&event);
            events.push(Arc::new(event));
        }
        cursor.advance()?;
    }
    Ok(Changes { events, through: Revision(scalars.revision.max(through.0)) })
}

const SKIPPED_ENTRY_BYTES: usize = 64;

/// What an event costs to keep.
pub(crate) fn weight(event: &Event) -> usize {
    const OVERHEAD: usize = 256;
    let value = match &event.change {
        Change::Put(kv) => kv.value.len(),
        Change::Delete => 0,
    };
    OVERHEAD + event.key.len() + value + event.previous.as_ref().map_or(0, |kv| kv.value.len())
}

fn event(view: &dyn View, revision: Revision, changed: Changed) -> Result<Event, DiskError> {
    let Changed { deleted, previous, key } = changed;
    let previous = match previous {
        Revision(0) => None,
        modified => Some(version(view, &key, modified)?),
    };
    let change = if deleted { Change::Delete } else { Change::Put(version(view, &key, revision)?) };
    Ok(Event { revision, key, change, previous })
}

/// The record of `key` that `modified` wrote, wherever it is now.
fn version(view: &dyn View, key: &Bytes, modified: Revision) -> Result<KeyValue, DiskError> {
    if let Some(record) = view.get(Family::Old, &old_key(key, modified))? {
        return Ok(Old::decode(record)?.into_key_value(key.clone(), modified));
    }
    let head = get(view, key)?.filter(|kv| kv.mod_revision == modified);
    head.ok_or_else(|| DiskError::Corrupt(format!("revision {modified} of a key is in the change log only")))
}
