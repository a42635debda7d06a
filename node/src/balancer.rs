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
//! Bounds: [`MAX_CONNECTIONS`], [`pool::MAX_MEMBERS`], [`health::PROBE_DEADLINE`], [`splice::CONNECT_DEADLINE`].

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use quorate_env::{Env, Scope};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub use self::health::Probe;
use self::pool::Pool;

pub mod health;
pub mod pool;
pub mod refresh;
pub mod splice;

/// Connections at the same time; further ones wait in the listener's backlog.
pub const MAX_CONNECTIONS: usize = 4096;

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
    handle.set_members(&config.members);
    let accepting = handle.clone();
    scope.spawn("balancer", async move { accept(listener, accepting).await });
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

    /// Replace the list of members. Connections to a member that is no longer listed are cut; an empty list is
    /// ignored, since it can only mean that nobody knew better.
    pub fn set_members(&self, members: &[String]) {
        if members.is_empty() {
            return;
        }
        let started = self.pool.lock().set_members(members);
        for member in started {
            let health = health::watch(
                member.name.clone(),
                member.listed.clone(),
                self.pool.clone(),
                self.probe.clone(),
                self.env.clone(),
            );
            let (scope, listed) = (self.scope.clone(), member.listed);
            self.scope.spawn("balancer-health", async move {
                tokio::select! {
                    () = scope.cancelled() => {}
                    () = listed.cancelled() => {}
                    () = health => {}
                }
            });
        }
    }

    pub fn members(&self) -> Vec<MemberState> {
        self.pool.lock().states()
    }
}

async fn accept(listener: TcpListener, handle: Handle) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = handle.scope.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((client, _)) => {
                let (pool, clock) = (handle.pool.clone(), handle.env.clock.clone());
                handle.scope.spawn_until_cancelled("balancer-connection", async move {
                    splice::serve(client, &pool, &clock).await;
                    drop(place);
                });
            }
            Err(error) => tracing::warn!(%error, "the balancer cannot accept a connection"),
        }
    }
}
