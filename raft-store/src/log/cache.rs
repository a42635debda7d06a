//! The log's tail in memory: what is not yet on disk, and what appliers and followers are about to read.

use std::collections::VecDeque;

use crate::raft::{Entry, LogId, Payload, Vote};

/// Flushed entries beyond this are dropped from memory.
const MAX_BYTES: usize = 8 << 20;

/// See the module. Indexes are contiguous.
#[derive(Debug)]
pub(super) struct Cache {
    entries: VecDeque<Entry>,
    bytes: usize,
    pub(super) purged: Option<LogId>,
    pub(super) last: Option<LogId>,
    pub(super) vote: Option<Vote>,
}

/// About what an entry costs to keep.
pub(super) fn weight(entry: &Entry) -> usize {
    const OVERHEAD: usize = 128;
    match &entry.payload {
        Payload::Normal(body) => OVERHEAD + body.0.len(),
        Payload::Blank | Payload::Membership(_) => OVERHEAD,
    }
}

impl Cache {
    pub(super) fn new(purged: Option<LogId>, last: Option<LogId>, vote: Option<Vote>) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, purged, last, vote }
    }

    /// The index after the last entry of the log.
    pub(super) fn next_index(&self) -> u64 {
        self.last.map_or(0, |last| last.index + 1)
    }

    /// The first index that is in memory, or the next one.
    pub(super) fn first_index(&self) -> u64 {
        self.entries.front().map_or_else(|| self.next_index(), |entry| entry.log_id.index)
    }

    /// Entries of `[from, to)`, all of which are in memory.
    pub(super) fn read(&self, from: u64, to: u64) -> Vec<Entry> {
        let first = self.first_index();
        let position = |index: u64| usize::try_from(index.saturating_sub(first)).unwrap_or(usize::MAX);
        let end = position(to).min(self.entries.len());
        self.entries.range(position(from).min(end)..end).cloned().collect()
    }

    /// Add entries; drop the oldest that are flushed, up to index `flushed`, where memory is short.
    pub(super) fn append(&mut self, entries: &[Entry], flushed: u64) {
        let Some(first) = entries.first() else { return };
        if first.log_id.index != self.next_index() {
            // Entries are contiguous in memory, so what precedes a jump (after a checkpoint) goes.
            self.entries.clear();
            self.bytes = 0;
        }
        self.bytes += entries.iter().map(weight).sum::<usize>();
        self.entries.extend(entries.iter().cloned());
        self.last = entries.last().map(|entry| entry.log_id);
        while self.bytes > MAX_BYTES && self.entries.front().is_some_and(|entry| entry.log_id.index <= flushed) {
            self.drop_front();
        }
    }

    fn drop_front(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= weight(&entry);
        }
    }

    /// Remove `index` and all after it.
    pub(super) fn truncate(&mut self, index: u64, last: Option<LogId>) {
        while self.entries.back().is_some_and(|entry| entry.log_id.index >= index) {
            if let Some(entry) = self.entries.pop_back() {
                self.bytes -= weight(&entry);
            }
        }
        self.last = last;
    }

    pub(super) fn purge(&mut self, through: LogId) {
        while self.entries.front().is_some_and(|entry| entry.log_id.index <= through.index) {
            self.drop_front();
        }
        self.purged = self.purged.max(Some(through));
        self.last = self.last.max(Some(through));
    }
}
