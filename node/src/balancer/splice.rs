//! One connection: find a member, then pass bytes both ways.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quorate_env::Clock;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

use super::pool::{Candidate, Finding, Pool};

/// How long one member has to accept a connection before the next one is tried.
pub const CONNECT_DEADLINE: Duration = Duration::from_secs(1);

/// Counts a connection for as long as it lives, also when its task is dropped.
struct Connection<'pool> {
    pool: &'pool Mutex<Pool>,
    member: String,
}

impl<'pool> Connection<'pool> {
    fn new(pool: &'pool Mutex<Pool>, member: &str) -> Self {
        pool.lock().connected(member);
        Self { pool, member: member.to_owned() }
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.pool.lock().disconnected(&self.member);
    }
}

/// Serve a client until it, the member or the member's life ends.
pub async fn serve(mut client: TcpStream, pool: &Arc<Mutex<Pool>>, clock: &Clock) {
    let Some((mut member, candidate)) = connect(pool, clock).await else {
        tracing::warn!("no member accepts connections");
        return;
    };
    let _counted = Connection::new(pool, &candidate.name);
    // Requests are small and answers are waited for.
    for stream in [&client, &member] {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delays");
        }
    }
    tokio::select! {
        ended = copy_bidirectional(&mut client, &mut member) => {
            if let Err(error) = ended {
                tracing::debug!(%error, member = candidate.name, "a connection broke");
            }
        }
        () = candidate.life.cancelled() => tracing::debug!(member = candidate.name, "cut: the member is dead"),
    }
}

async fn connect(pool: &Mutex<Pool>, clock: &Clock) -> Option<(TcpStream, Candidate)> {
    let candidates = pool.lock().candidates();
    for candidate in candidates {
        let finding = match clock.timeout(CONNECT_DEADLINE, TcpStream::connect(&candidate.name)).await {
            Ok(Ok(stream)) => return Some((stream, candidate)),
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => Finding::Refused,
            Ok(Err(_)) | Err(_) => Finding::Silent,
        };
        if pool.lock().note(&candidate.name, finding) {
            tracing::warn!(member = candidate.name, ?finding, "a member does not accept connections");
        }
    }
    None
}
