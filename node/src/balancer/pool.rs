//! Who is alive, and who is next. Pure but for the tokens that cut connections.
//!
//! Members that were configured stay for good; those that the cluster told of come and go. Whoever a list of the
//! cluster leaves out is tried last: the list may be wrong about a member, but not often.

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

use super::MemberState;

/// Members that are looked at; a control plane has 3 to 7.
pub const MAX_MEMBERS: usize = 32;
/// Probes that must fail in a row before a member counts as dead: one lost packet is not a death. A refused connection
/// needs no second look.
pub const FAILURES_TO_DIE: u32 = 2;
/// A member that says that it is not ready gets no new connections, but what is under way may finish: it may be
/// draining. After so many such answers it is as good as dead.
pub const UNREADY_TO_CUT: u32 = 12;

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
    unready: u32,
    alive: bool,
    connections: usize,
    /// Named at the start: never forgotten.
    configured: bool,
    /// Named by the cluster's last list, or there was none yet.
    listed: bool,
    /// The connections of this spell of bad health were cut.
    cut: bool,
    /// Ends when the member is forgotten.
    known: CancellationToken,
    /// Ends when the member dies or is forgotten: cuts the connections of one life.
    life: CancellationToken,
}

impl Member {
    fn new(configured: bool) -> Self {
        let known = CancellationToken::new();
        let life = known.child_token();
        // It counts as alive until shown otherwise, so that the first connection need not wait.
        Self { failures: 0, unready: 0, alive: true, connections: 0, configured, listed: true, cut: false, known, life }
    }

    fn cut(&mut self) {
        self.life.cancel();
        self.life = self.known.child_token();
    }
}

/// A member whose health is to be watched from now on.
#[derive(Debug)]
pub struct Started {
    pub name: String,
    pub known: CancellationToken,
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
    /// It answers that it is not ready.
    Unready,
    /// Nobody listens there.
    Refused,
    /// No answer in time, or a broken one.
    Silent,
}

impl Pool {
    /// The members that are named at the start. Returns the new ones.
    pub fn configure(&mut self, names: &[String]) -> Vec<Started> {
        names.iter().filter_map(|name| self.add(name, true)).collect()
    }

    /// Take in the cluster's own list. Returns the members that are new; those that only an earlier list had named are
    /// forgotten. An empty list is passed over, since it can only mean that nobody knew better.
    pub fn learn(&mut self, names: &[String]) -> Vec<Started> {
        if names.is_empty() {
            return Vec::new();
        }
        self.members.retain(|name, member| {
            member.listed = names.contains(name);
            let stays = member.listed || member.configured;
            if !stays {
                member.known.cancel();
            }
            stays
        });
        names.iter().filter_map(|name| self.add(name, false)).collect()
    }

    fn add(&mut self, name: &str, configured: bool) -> Option<Started> {
        if self.members.contains_key(name) || self.members.len() >= MAX_MEMBERS {
            return None;
        }
        let member = Member::new(configured);
        let started = Started { name: name.to_owned(), known: member.known.clone() };
        self.members.insert(name.to_owned(), member);
        Some(started)
    }

    /// The members in the order in which they should be tried, each kind in turn: living ones, living ones that the
    /// cluster's list leaves out, then the dead, since trying them is all that is left.
    pub fn candidates(&mut self) -> Vec<Candidate> {
        let names: Vec<&String> = self.members.keys().collect();
        let after = self.last.as_ref().map_or(0, |last| names.partition_point(|name| *name <= last));
        let turn = self.members.iter().cycle().skip(after).take(self.members.len());
        let mut order: Vec<(&String, &Member)> = turn.collect();
        order.sort_by_key(|(_, member)| (!member.alive, !member.listed));
        let order: Vec<Candidate> = order
            .into_iter()
            .map(|(name, member)| Candidate { name: name.clone(), life: member.life.clone() })
            .collect();
        self.last = order.first().map(|candidate| candidate.name.clone());
        order
    }

    /// Take in what was found out. True when the member's state changed.
    pub fn note(&mut self, name: &str, finding: Finding) -> bool {
        let Some(member) = self.members.get_mut(name) else { return false };
        match finding {
            Finding::Well => (member.failures, member.unready) = (0, 0),
            Finding::Unready => {
                (member.failures, member.unready) = (FAILURES_TO_DIE, member.unready.saturating_add(1));
            }
            Finding::Refused => member.failures = FAILURES_TO_DIE,
            Finding::Silent => member.failures = member.failures.saturating_add(1),
        }
        let alive = member.failures < FAILURES_TO_DIE;
        let changed = alive != member.alive;
        member.alive = alive;
        let cut = !alive && (finding != Finding::Unready || member.unready >= UNREADY_TO_CUT);
        if cut && !member.cut {
            member.cut();
        }
        member.cut = !alive && (cut || member.cut);
        changed
    }

    /// Cut every connection: clients come back with new ones.
    pub fn cut_all(&mut self) {
        for member in self.members.values_mut() {
            member.cut();
        }
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

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn pool(names: &[&str]) -> Pool {
        let mut pool = Pool::default();
        pool.configure(&owned(names));
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
    fn a_list_adds_members_and_takes_away_only_what_a_list_had_added() {
        let mut pool = pool(&["a", "b"]);
        let started = pool.learn(&owned(&["b", "c"]));
        assert_eq!(started.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(), ["c"]);
        let lives: Vec<Candidate> = pool.candidates();
        assert_eq!(lives.iter().map(|candidate| candidate.name.as_str()).collect::<Vec<_>>(), ["b", "c", "a"]);
        // What one cut-off member believes.
        assert_eq!(pool.learn(&owned(&["b"])).len(), 0);
        let cut: Vec<(&str, bool)> =
            lives.iter().map(|candidate| (candidate.name.as_str(), candidate.life.is_cancelled())).collect();
        assert_eq!(cut, [("b", false), ("c", true), ("a", false)]);
        assert_eq!(order(&mut pool), ["b", "a"]);
        assert!(pool.note("b", Finding::Refused));
        assert_eq!(order(&mut pool), ["a", "b"], "who is not listed comes before who is dead");
        assert_eq!(pool.learn(&[]).len(), 0);
        assert_eq!(pool.states().len(), 2);
    }

    #[test]
    fn an_unready_member_gets_no_new_connections_and_may_finish_what_it_has() {
        let mut pool = pool(&["a", "b"]);
        let life = pool.candidates().remove(0).life;
        assert!(pool.note("a", Finding::Unready));
        assert_eq!(order(&mut pool), ["b", "a"]);
        for _ in 2..UNREADY_TO_CUT {
            pool.note("a", Finding::Unready);
        }
        assert!(!life.is_cancelled());
        pool.note("a", Finding::Unready);
        assert!(life.is_cancelled());
        let mut pool = self::pool(&["a"]);
        let life = pool.candidates().remove(0).life;
        pool.note("a", Finding::Unready);
        pool.note("a", Finding::Refused);
        assert!(life.is_cancelled(), "it was draining, and is gone now");
    }

    #[test]
    fn all_connections_can_be_cut_at_once() {
        let mut pool = pool(&["a"]);
        let life = pool.candidates().remove(0).life;
        pool.cut_all();
        assert!(life.is_cancelled());
        assert!(!pool.candidates().remove(0).life.is_cancelled());
    }
}
