//! A TCP balancer on the loopback interface over the API servers of all members: a dead member is nobody's outage.
//!
//! It passes bytes and knows no HTTP: TLS goes end to end. Every member is probed; new connections go to a member that
//! is alive, and when connecting fails to the next one; a member that is found dead has its connections cut, so that
//! clients come back at once instead of waiting for their own timeouts.
//!
//! Start reading at [`start`], then [`pool`] (pure: who is alive, who is next), then [`health`] and [`splice`].
//!
//! Stand-alone use: [`run`]. In the agent the list of members is refreshed from the cluster ([`refresh`]).
//!
//! Bounds: [`MAX_CONNECTIONS`], [`pool::MAX_MEMBERS`], [`health::PROBE_DEADLINE`], [`health::READY_DEADLINE`],
//! [`splice::CONNECT_DEADLINE`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quorate_env::{Env, Scope};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub use self::health::Probe;
use self::pool::{Pool, Started};

pub mod health;
pub mod pool;
pub mod refresh;
pub mod splice;

/// Connections at the same time; further ones are closed at once, so that clients see that there is no room.
pub const MAX_CONNECTIONS: usize = 4096;
/// After a connection that could not be accepted: the reason (no file descriptor left) does not go away at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone)]
pub struct Config {
    /// For example `127.0.0.1:6443`.
    pub listen: SocketAddr,
    /// `host:port` of the members that are known at the start.
    pub members: Vec<String>,
    pub probe: Probe,
}

#[derive(Debug, thiserror::Error)]
pub enum BalancerError {
    #[error("the balancer cannot listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("the balancer was given no member")]
    NoMember,
}

/// The running balancer.
#[derive(Debug, Clone)]
pub struct Handle {
    address: SocketAddr,
    pool: Arc<Mutex<Pool>>,
    scope: Scope,
    probe: Probe,
    env: Env,
}

/// What the balancer thinks of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberState {
    pub member: String,
    pub alive: bool,
    pub connections: usize,
}

/// Start to listen; everything runs in `scope`.
pub async fn start(config: Config, env: &Env, scope: &Scope) -> Result<Handle, BalancerError> {
    if config.members.is_empty() {
        return Err(BalancerError::NoMember);
    }
    let failed = |source| BalancerError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
    let handle = Handle {
        address: listener.local_addr().map_err(failed)?,
        pool: Arc::default(),
        scope: scope.clone(),
        probe: config.probe,
        env: env.clone(),
    };
    let started = handle.pool.lock().configure(&config.members);
    handle.watch(started);
    let accepting = handle.clone();
    scope.spawn("balancer", async move { accept(listener, accepting, MAX_CONNECTIONS).await });
    Ok(handle)
}

/// Run until the scope is cancelled.
pub async fn run(config: Config, env: &Env, scope: &Scope) -> Result<(), BalancerError> {
    let handle = start(config, env, scope).await?;
    tracing::info!(address = %handle.address(), "balancing");
    scope.cancelled().await;
    Ok(())
}

impl Handle {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Take in the cluster's own list, as a member with a quorum tells it: new members are used from now on, those
    /// that an earlier list had named and this one does not are forgotten and their connections cut. Members that were
    /// configured stay, as a last choice when they are not listed.
    pub fn learn(&self, members: &[String]) {
        let started = self.pool.lock().learn(members);
        self.watch(started);
    }

    /// Cut every connection, so that clients make new ones.
    pub fn cut_all(&self) {
        self.pool.lock().cut_all();
    }

    fn watch(&self, started: Vec<Started>) {
        for member in started {
            let health = health::watch(
                member.name.clone(),
                member.known.clone(),
                self.pool.clone(),
                self.probe.clone(),
                self.env.clone(),
            );
            let (scope, known) = (self.scope.clone(), member.known);
            self.scope.spawn("balancer-health", async move {
                tokio::select! {
                    () = scope.cancelled() => {}
                    () = known.cancelled() => {}
                    () = health => {}
                }
            });
        }
    }

    pub fn members(&self) -> Vec<MemberState> {
        self.pool.lock().states()
    }
}

async fn accept(listener: TcpListener, handle: Handle, most: usize) {
    let places = Arc::new(Semaphore::new(most));
    loop {
        let accepted = tokio::select! {
            () = handle.scope.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let client = match accepted {
            Ok((client, _)) => client,
            Err(error) => {
                tracing::warn!(%error, "the balancer cannot accept a connection");
                handle.env.clock.sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(most, "the balancer has no room for a connection");
            continue;
        };
        let (pool, clock) = (handle.pool.clone(), handle.env.clock.clone());
        handle.scope.spawn_until_cancelled("balancer-connection", async move {
            splice::serve(client, &pool, &clock).await;
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_client_for_whom_there_is_no_room_is_told_at_once() {
        let (env, scope) = (Env::real(), Scope::root("test"));
        let member = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pool = Arc::new(Mutex::new(Pool::default()));
        pool.lock().configure(&[member.local_addr().unwrap().to_string()]);
        let handle = Handle { address, pool, scope: scope.clone(), probe: Probe::Connect, env: env.clone() };
        scope.spawn("accept", accept(listener, handle, 1));
        let mut first = TcpStream::connect(address).await.unwrap();
        first.write_all(b"x").await.unwrap();
        let (mut served, _) = member.accept().await.unwrap();
        assert_eq!(served.read_u8().await.unwrap(), b'x');
        let mut second = TcpStream::connect(address).await.unwrap();
        let mut buffer = [0; 1];
        let told = env.clock.timeout(Duration::from_secs(20), second.read(&mut buffer)).await.expect("in time");
        assert!(matches!(told, Ok(0) | Err(_)), "{told:?}");
        assert_eq!(scope.close(Duration::from_secs(20)).await, Vec::<String>::new());
    }
}
