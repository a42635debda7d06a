//! Who wants an event: found by the event's key, not by asking every watcher.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use super::watcher::Queue;
use crate::model::{Event, Revision, WatchRange, key_after, prefix_end};

/// Watchers by the shape of their range. Most watch a prefix or one key; other ranges are asked one after another.
#[derive(Debug, Default)]
pub(crate) struct Index {
    exact: HashMap<Bytes, Vec<Arc<Queue>>>,
    prefixes: HashMap<Bytes, Vec<Arc<Queue>>>,
    /// The lengths that occur in `prefixes`, with their number.
    lengths: BTreeMap<usize, usize>,
    others: Vec<(WatchRange, Arc<Queue>)>,
    /// Who was offered something since the last wake-up.
    offered: BTreeMap<u64, Arc<Queue>>,
    /// Queues that overflowed and must leave.
    full: BTreeSet<u64>,
}

enum Shape {
    Exact,
    Prefix,
    Other,
}

fn shape(range: &WatchRange) -> Shape {
    if range.end == key_after(&range.start) {
        Shape::Exact
    } else if range.end == prefix_end(&range.start) {
        Shape::Prefix
    } else {
        Shape::Other
    }
}

impl Index {
    pub(crate) fn insert(&mut self, range: &WatchRange, queue: Arc<Queue>) {
        match shape(range) {
            Shape::Exact => self.exact.entry(range.start.clone()).or_default().push(queue),
            Shape::Prefix => {
                let watchers = self.prefixes.entry(range.start.clone()).or_default();
                if watchers.is_empty() {
                    *self.lengths.entry(range.start.len()).or_default() += 1;
                }
                watchers.push(queue);
            }
            Shape::Other => self.others.push((range.clone(), queue)),
        }
    }

    pub(crate) fn remove(&mut self, range: &WatchRange, id: u64) {
        self.offered.remove(&id);
        self.full.remove(&id);
        match shape(range) {
            Shape::Exact => {
                remove_from(&mut self.exact, &range.start, id);
            }
            Shape::Prefix => {
                if remove_from(&mut self.prefixes, &range.start, id)
                    && let Some(count) = self.lengths.get_mut(&range.start.len())
                {
                    *count -= 1;
                    if *count == 0 {
                        self.lengths.remove(&range.start.len());
                    }
                }
            }
            Shape::Other => self.others.retain(|(_, queue)| queue.id != id),
        }
    }

    /// Queue the event with everyone who wants it.
    pub(crate) fn offer(&mut self, event: &Arc<Event>) {
        let key = &event.key;
        let prefixes = self.lengths.keys().take_while(|length| **length <= key.len());
        let by_prefix = prefixes.filter_map(|length| self.prefixes.get(&key[..*length])).flatten();
        let others = self.others.iter().filter(|(range, _)| range.contains(key)).map(|(_, queue)| queue);
        let wanting = self.exact.get(&key[..]).into_iter().flatten().chain(by_prefix).chain(others);
        for queue in wanting {
            if self.full.contains(&queue.id) {
                continue;
            }
            if !queue.push(event) {
                self.full.insert(queue.id);
            }
            self.offered.entry(queue.id).or_insert_with(|| Arc::clone(queue));
        }
    }

    /// Wake those who were offered something; those with a full queue leave and read on by themselves.
    pub(crate) fn wake_offered(&mut self, through: Revision) {
        for (id, queue) in std::mem::take(&mut self.offered) {
            if self.full.remove(&id) {
                queue.detach();
                self.remove(&queue.range, id);
            } else {
                queue.reached(through);
            }
            queue.wake();
        }
    }

    /// Everyone reads on by themselves, from where all events up to `through` were offered to them.
    pub(crate) fn detach_all(&mut self, through: Revision) {
        let index = std::mem::take(self);
        let full = index.full;
        let exact = index.exact.into_values().flatten();
        let prefixes = index.prefixes.into_values().flatten();
        for queue in exact.chain(prefixes).chain(index.others.into_iter().map(|(_, queue)| queue)) {
            if !full.contains(&queue.id) {
                queue.reached(through);
            }
            queue.detach();
            queue.wake();
        }
    }
}

/// Returns whether the list became empty and went.
fn remove_from(map: &mut HashMap<Bytes, Vec<Arc<Queue>>>, start: &Bytes, id: u64) -> bool {
    let Some(watchers) = map.get_mut(start) else { return false };
    watchers.retain(|queue| queue.id != id);
    let empty = watchers.is_empty();
    if empty {
        map.remove(start);
    }
    empty
}
