//! Who is alive, and who is next. Pure but for the tokens that cut connections.

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

use super::MemberState;

/// Members that are looked at; a control plane has 3 to 7.
pub const MAX_MEMBERS: usize = 32;
/// Probes that must fail in a row before a member counts as dead: one lost packet is not a death. A refused connection
/// needs no second look.
pub const FAILURES_TO_DIE: u32 = 2;

/// The members and what is known of them.
#[derive(Debug, Default)]
pub struct Pool {
    members: BTreeMap<String, Member>,
    /// The member that the last connection went to.
    last: Option<String>,
}

#[derive(Debug)]
struct Member {
    failures: u32,
    alive: bool,
    connections: usize,
    /// Ends when the member is not listed any more.
    listed: CancellationToken,
    /// Ends when the member dies or is not listed any more: cuts the connections of one life.
    life: CancellationToken,
}

/// A member whose health is to be watched from now on.
#[derive(Debug)]
pub struct Started {
    pub name: String,
    pub listed: CancellationToken,
}

/// A member to try, and what ends a connection to it.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub name: String,
    pub life: CancellationToken,
}

/// What a probe or an attempt to connect showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    Well,
    /// Nobody listens there, or it says that it is not ready.
    Refused,
    /// No answer in time, or a broken one.
    Silent,
}

impl Pool {
    /// Returns the new ones. They count as alive until shown otherwise, so that the first connection need not wait.
    pub fn set_members(&mut self, names: &[String]) -> Vec<Started> {
        let names = &names[..names.len().min(MAX_MEMBERS)];
        self.members.retain(|name, member| {
            let stays = names.contains(name);
            if !stays {
                member.listed.cancel();
            }
            stays
        });
        let mut started = Vec::new();
        for name in names {
            if self.members.contains_key(name) {
                continue;
            }
            let listed = CancellationToken::new();
            let life = listed.child_token();
            let member = Member { failures: 0, alive: true, connections: 0, listed: listed.clone(), life };
            self.members.insert(name.clone(), member);
            started.push(Started { name: name.clone(), listed });
        }
        started
    }

    /// The members in the order in which they should be tried: living ones first, in turn; then the dead ones, since
    /// trying them is all that is left.
    pub fn candidates(&mut self) -> Vec<Candidate> {
        let names: Vec<&String> = self.members.keys().collect();
        let after = self.last.as_ref().map_or(0, |last| names.partition_point(|name| *name <= last));
        let turn: Vec<&String> = names.iter().cycle().skip(after).take(names.len()).copied().collect();
        let (alive, dead): (Vec<&String>, Vec<&String>) =
            turn.into_iter().partition(|name| self.members.get(*name).is_some_and(|member| member.alive));
        let order: Vec<Candidate> = alive
            .into_iter()
            .chain(dead)
            .filter_map(|name| Some(Candidate { name: name.clone(), life: self.members.get(name)?.life.clone() }))
            .collect();
        self.last = order.first().map(|candidate| candidate.name.clone());
        order
    }

    /// Take in what was found out. True when the member's state changed.
    pub fn note(&mut self, name: &str, finding: Finding) -> bool {
        let Some(member) = self.members.get_mut(name) else { return false };
        match finding {
            Finding::Well => member.failures = 0,
            Finding::Refused => member.failures = FAILURES_TO_DIE,
            Finding::Silent => member.failures = member.failures.saturating_add(1),
        }
        let alive = member.failures < FAILURES_TO_DIE;
        let changed = alive != member.alive;
        member.alive = alive;
        if changed && !alive {
            member.life.cancel();
            member.life = member.listed.child_token();
        }
        changed
    }

    pub fn connected(&mut self, name: &str) {
        if let Some(member) = self.members.get_mut(name) {
            member.connections += 1;
        }
    }

    pub fn disconnected(&mut self, name: &str) {
        if let Some(member) = self.members.get_mut(name) {
            member.connections = member.connections.saturating_sub(1);
        }
    }

    pub fn states(&self) -> Vec<MemberState> {
        self.members
            .iter()
            .map(|(name, member)| MemberState {
                member: name.clone(),
                alive: member.alive,
                connections: member.connections,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(names: &[&str]) -> Pool {
        let mut pool = Pool::default();
        pool.set_members(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        pool
    }

    fn order(pool: &mut Pool) -> Vec<String> {
        pool.candidates().into_iter().map(|candidate| candidate.name).collect()
    }

    #[test]
    fn connections_go_round_the_living_and_the_dead_come_last() {
        let mut pool = pool(&["a", "b", "c"]);
        assert_eq!(order(&mut pool), ["a", "b", "c"]);
        assert_eq!(order(&mut pool), ["b", "c", "a"]);
        assert!(pool.note("c", Finding::Refused));
        assert_eq!(order(&mut pool), ["a", "b", "c"]);
        assert_eq!(order(&mut pool), ["b", "a", "c"]);
        assert!(pool.note("c", Finding::Well));
        assert_eq!(order(&mut pool), ["c", "a", "b"]);
    }

    #[test]
    fn one_silent_probe_is_no_death_and_death_cuts_once() {
        let mut pool = pool(&["a"]);
        let first = pool.candidates().remove(0).life;
        assert!(!pool.note("a", Finding::Silent));
        assert!(!first.is_cancelled());
        assert!(pool.note("a", Finding::Silent));
        assert!(first.is_cancelled());
        let second = pool.candidates().remove(0).life;
        assert!(!pool.note("a", Finding::Silent), "it is dead already");
        assert!(!second.is_cancelled(), "a connection made to a dead member may live");
    }

    #[test]
    fn a_member_that_leaves_the_list_is_cut_and_one_that_stays_is_not() {
        let mut pool = pool(&["a", "b"]);
        let lives: Vec<Candidate> = pool.candidates();
        let started = pool.set_members(&["b".to_owned(), "c".to_owned()]);
        assert_eq!(started.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(), ["c"]);
        let cut: Vec<(&str, bool)> =
            lives.iter().map(|candidate| (candidate.name.as_str(), candidate.life.is_cancelled())).collect();
        assert_eq!(cut, [("a", true), ("b", false)]);
    }
}
