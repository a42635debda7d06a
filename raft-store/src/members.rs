//! The members as they introduce themselves to each other, and who was heard of lately.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quorate_env::Clock;
use quorate_env::clock::Instant;

use crate::apply::enrolment_key;
use crate::disk::Family;
use crate::error::OpenError;
use crate::peer::proto;
use crate::read::Reader;

/// Members introduce themselves this often.
pub(crate) const MEET_EVERY: Duration = Duration::from_millis(1000);
/// A member that was not heard of for so long is reported dead.
const ALIVE_WITHIN: Duration = Duration::from_millis(3500);

/// See the module.
pub(crate) struct Members {
    own: Mutex<proto::Member>,
    met: Mutex<BTreeMap<String, Met>>,
    reader: Reader,
    clock: Clock,
}

/// A member and when it was last heard of.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    pub(crate) member: proto::Member,
    at: Instant,
}

impl Members {
    pub(crate) fn new(own: proto::Member, reader: Reader, clock: Clock) -> Arc<Self> {
        Arc::new(Self { own: Mutex::new(own), met: Mutex::default(), reader, clock })
    }

    /// How this member introduces itself.
    pub(crate) fn own(&self) -> proto::Member {
        self.own.lock().clone()
    }

    pub(crate) fn update_own(&self, change: impl FnOnce(&mut proto::Member)) {
        change(&mut self.own.lock());
    }

    pub(crate) fn met(&self, member: proto::Member) {
        let at = self.clock.now();
        self.met.lock().insert(member.name.clone(), Met { member, at });
    }

    /// What is known of a member, and whether it was heard of lately.
    pub(crate) fn get(&self, name: &str) -> Option<(proto::Member, bool)> {
        let met = self.met.lock().get(name).cloned()?;
        let alive = self.clock.now().saturating_duration_since(met.at) < ALIVE_WITHIN;
        Some((met.member, alive))
    }

    /// All others that were heard of lately.
    pub(crate) fn alive(&self) -> Vec<proto::Member> {
        let now = self.clock.now();
        let met = self.met.lock();
        let alive = met.values().filter(|met| now.saturating_duration_since(met.at) < ALIVE_WITHIN);
        alive.map(|met| met.member.clone()).collect()
    }

    /// Which data directory the group has on record for a member; 0 for none.
    pub(crate) async fn enrolled(&self, name: &str) -> u64 {
        let record = self.reader.raw(Family::Meta, enrolment_key(name)).await;
        let record = record.ok().flatten().and_then(|value| <[u8; 8]>::try_from(&value[..]).ok());
        record.map_or(0, u64::from_be_bytes)
    }
}

/// What must not differ between two members, judged when they meet.
pub(crate) fn judge(own: &proto::Member, meeting: &proto::Meeting, path: &std::path::Path) -> Result<(), OpenError> {
    let Some(theirs) = &meeting.member else { return Ok(()) };
    if let Some(difference) = differ(own, theirs) {
        return Err(OpenError::MembersDisagree { peer: theirs.name.clone(), difference });
    }
    if !own.cluster_id.is_empty() && !theirs.cluster_id.is_empty() && own.cluster_id != theirs.cluster_id {
        return Err(OpenError::OtherCluster {
            path: path.to_owned(),
            found: own.cluster_id.clone(),
            peer: theirs.name.clone(),
            theirs: theirs.cluster_id.clone(),
        });
    }
    if meeting.incarnation != 0 && meeting.incarnation != own.incarnation {
        let (name, path, peer) = (own.name.clone(), path.to_owned(), theirs.name.clone());
        return Err(OpenError::Wiped { name, path, peer });
    }
    Ok(())
}

/// Two members' first difference about who the members are, in words of the first.
pub(crate) fn differ(own: &proto::Member, theirs: &proto::Member) -> Option<String> {
    difference(&own.initial_members, &theirs.initial_members)
}

/// The first difference between the configured list and the names that the group has on record.
pub(crate) fn differs_from_record(list: &BTreeMap<String, String>, on_record: &[String]) -> Option<String> {
    let added = list.keys().find(|name| !on_record.contains(name)).map(|name| format!("{name} is not on record"));
    let removed = || on_record.iter().find(|name| !list.contains_key(*name));
    added.or_else(|| removed().map(|name| format!("{name} is on record but not listed")))
}

/// Whether who introduces itself is the member that it says it is, of this cluster. One that was told another list is
/// noted before the group is born, so that both sides say so.
pub(crate) fn judge_caller(own: &proto::Member, caller: &proto::Member, on_record: u64) -> bool {
    let is_listed = own.initial_members.contains_key(&caller.name) && caller.name != own.name;
    let same_cluster = own.cluster_id.is_empty() || caller.cluster_id.is_empty() || own.cluster_id == caller.cluster_id;
    let same_directory = on_record == 0 || on_record == caller.incarnation;
    is_listed && same_cluster && same_directory && (!own.formed || differ(own, caller).is_none())
}

type Addresses = std::collections::HashMap<String, String>;

/// The first difference between two member lists, in words.
fn difference(own: &Addresses, theirs: &Addresses) -> Option<String> {
    let names: std::collections::BTreeSet<&String> = own.keys().chain(theirs.keys()).collect();
    names.into_iter().find_map(|name| match (own.get(name), theirs.get(name)) {
        (Some(here), Some(there)) if here != there => Some(format!("{name} is at {here} here and at {there} there")),
        (Some(_), None) => Some(format!("{name} is listed here only")),
        (None, Some(_)) => Some(format!("{name} is listed there only")),
        (Some(_), Some(_)) | (None, None) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(members: &[(&str, &str)]) -> Addresses {
        members.iter().map(|(name, address)| ((*name).to_owned(), (*address).to_owned())).collect()
    }

    #[test]
    fn differences_are_named() {
        let own = list(&[("a", "h1:1"), ("b", "h2:1")]);
        assert_eq!(difference(&own, &own.clone()), None);
        let other = list(&[("a", "h1:1"), ("b", "h3:1")]);
        assert_eq!(difference(&own, &other).unwrap(), "b is at h2:1 here and at h3:1 there");
        assert_eq!(difference(&own, &list(&[("a", "h1:1")])).unwrap(), "b is listed here only");
        let more = list(&[("a", "h1:1"), ("b", "h2:1"), ("c", "h3:1")]);
        assert_eq!(difference(&own, &more).unwrap(), "c is listed there only");
    }
}
