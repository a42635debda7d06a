//! Recent events, bounded by bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::model::{Event, Revision};
use crate::mvcc::weight;

#[derive(Debug)]
pub(crate) struct Ring {
    /// By revision; never begins or ends within a transaction.
    groups: VecDeque<Group>,
    /// Everything after this is here.
    after: Revision,
    head: Revision,
    bytes: usize,
    max_bytes: usize,
}

/// The events of one apply step, visible at once.
#[derive(Debug)]
struct Group {
    events: Vec<Arc<Event>>,
    through: Revision,
    bytes: usize,
}

impl Ring {
    pub(crate) fn new(head: Revision, max_bytes: usize) -> Self {
        Self { groups: VecDeque::new(), after: head, head, bytes: 0, max_bytes }
    }

    pub(crate) fn head(&self) -> Revision {
        self.head
    }

    pub(crate) fn append(&mut self, events: Vec<Arc<Event>>, head: Revision) {
        let bytes = events.iter().map(|event| weight(event)).sum();
        self.groups.push_back(Group { events, through: head, bytes });
        self.bytes += bytes;
        self.head = head;
        // One group always stays, so that a big transaction is not lost at once.
        while self.bytes > self.max_bytes && self.groups.len() > 1 {
            if let Some(dropped) = self.groups.pop_front() {
                self.bytes -= dropped.bytes;
                self.after = dropped.through;
            }
        }
    }

    pub(crate) fn reset(&mut self, head: Revision) {
        *self = Self::new(head, self.max_bytes);
    }

    /// About `max` events after `after` (whole groups), and the revision that they reach; `None` if some are gone.
    pub(crate) fn after(&self, after: Revision, max: usize) -> Option<(Vec<Arc<Event>>, Revision)> {
        if after < self.after || after > self.head {
            return None;
        }
        let first = self.groups.partition_point(|group| group.through <= after);
        let mut events = Vec::new();
        let mut through = after;
        for group in self.groups.range(first..) {
            // A watch may begin within a group.
            events.extend(group.events.iter().filter(|event| event.revision > after).cloned());
            through = group.through;
            if events.len() >= max {
                break;
            }
        }
        Some((events, through))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Change;

    fn event(revision: u64) -> Arc<Event> {
        let revision = Revision(revision);
        Arc::new(Event { revision, key: "k".into(), change: Change::Delete, previous: None })
    }

    #[test]
    fn keeps_the_newest_groups_and_tells_what_is_gone() {
        let mut ring = Ring::new(Revision(10), weight(&event(0)) * 3);
        ring.append(vec![event(11), event(12)], Revision(12));
        assert_eq!(ring.after(Revision(11), 9).unwrap(), (vec![event(12)], Revision(12)));
        ring.append(vec![event(13), event(14)], Revision(14));
        assert!(ring.after(Revision(11), 9).is_none());
        assert_eq!(ring.after(Revision(12), 1).unwrap().1, Revision(14));
        assert_eq!(ring.after(Revision(14), 9).unwrap(), (vec![], Revision(14)));
        assert!(ring.after(Revision(15), 9).is_none());
    }
}
