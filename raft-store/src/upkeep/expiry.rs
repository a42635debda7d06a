//! The leader proposes to delete keys whose time has come; apply judges by the clock that the entry carries.

use std::time::Duration;

use crate::entry;
use crate::leader::LeaderLink;
use crate::propose::Proposer;
use crate::read::Reader;

/// One entry deletes at most so many keys.
const EXPIRE_KEYS: usize = 256;

pub(crate) async fn run_as_leader(leader: LeaderLink, proposer: Proposer, reader: Reader, every: Duration) {
    let clock = leader.clock().clone();
    loop {
        clock.sleep(every).await;
        while leader.is_self() {
            let now = proposer.wall_ms();
            let due = match reader.due(now, EXPIRE_KEYS).await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(%error, "cannot look for expired keys");
                    break;
                }
            };
            if due.is_empty() || proposer.propose(entry::encode_expire(now, &due)).await.is_err() {
                break;
            }
            if due.len() < EXPIRE_KEYS {
                break;
            }
        }
    }
}
