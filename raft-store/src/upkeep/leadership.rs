//! Follows the consensus library: who leads, and whether it still runs.

use std::sync::Arc;

use openraft::ServerState;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;

use crate::fatal;
use crate::leader::LeaderLink;
use crate::metrics::Metrics;
use crate::raft::Raft;
use crate::room::Room;
use crate::status::Leadership;

/// Publish each change until the library stops. If it has failed, the process ends unless it is closing anyway, because
/// a member without it only looks alive; a simulated one, which has no `room`, just ends.
pub(crate) async fn follow(raft: Raft, leader: LeaderLink, metrics: Arc<Metrics>, room: Option<Arc<Room>>) {
    let _guard = fatal::AbortOnPanic("leadership");
    let mut watched = raft.metrics();
    loop {
        let (now, failed) = {
            let current = watched.borrow_watched();
            let is_self = current.state == ServerState::Leader && current.current_leader == Some(current.id);
            let now = Leadership { term: current.current_term, leader: current.current_leader, is_self };
            (now, current.running_state.clone().err())
        };
        if let Some(error) = failed {
            let aborts = room.is_some_and(|room| !room.is_closing());
            if aborts && !matches!(error, Fatal::Stopped) {
                fatal::abort("the raft core has failed", &error);
            }
            return;
        }
        if leader.now().leader != now.leader && now.leader.is_some() {
            tracing::info!(term = now.term, leader = now.leader, is_self = now.is_self, "the leader is known");
            metrics.leader_changes.inc();
        }
        leader.update(now);
        if watched.changed().await.is_err() {
            return;
        }
    }
}
