//! Keeps the cluster as its objects ask for: one module per controller, one runner for all.
//!
//! Knows nothing of storage and of the API server's internals: it reads by watches and writes through
//! [`kube::Client`]s. Controllers know nothing of each other; they meet in the objects they write.
//!
//! Start at [`runner`] (how a change becomes a pass), then any module of [`controller`] (what a pass decides).
//!
//! Flow: [`observe`] → [`cache::Cache`] and [`cache::Change`] → a controller's `wakes` → [`queue::Queue`] → its `plan`
//! (pure: cache and time in, [`action::Action`]s out) → [`execute::Executor`] → the API → the watch again.
//!
//! Invariants:
//! - a pass never acts on a picture older than the last pass's writes (`tests::scenes::a_lagging_watch_never_creates_twice`);
//! - a creation without an answer is settled before another is decided on (`tests::scenes::an_answer_lost_creates_nothing_twice`);
//! - one key has one pass at a time (`queue::tests`);
//! - a zone loses its pods no faster than its state allows (`controller::nodelifecycle::zones::tests`);
//! - a rollout stays within its surge and its unavailability (`controller::deployment::tests`);
//! - nothing with a living owner is collected (`controller::garbage::tests`).
//!
//! Tasks: a watch per kind, a loop and a note writer per controller; all end with the scope given to [`run`].
//! Bounds: `runner::PASSES_IN_FLIGHT`, `execute::PODS_IN_FLIGHT`, `queue::BACKOFF_MAX`, the note queue.

pub mod action;
pub mod cache;
pub mod controller;
pub mod discovery;
pub mod execute;
pub mod metrics;
pub mod notes;
pub mod observe;
pub mod projection;
pub mod queue;
pub mod resource;
pub mod runner;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use quorate_env::{Env, Scope};

pub use metrics::Metrics;

use crate::cache::{Cache, Change};
use crate::execute::Executor;
use crate::notes::Notes;
use crate::observe::Listener;
use crate::runner::{Controller, Station};

/// Gives the client that acts as `system:serviceaccount:kube-system:NAME`.
pub type ClientFor = Arc<dyn Fn(&str) -> kube::Client + Send + Sync>;

#[derive(Clone)]
pub struct Config {
    /// Acts as `system:kube-controller-manager`: lists and watches for all controllers.
    pub client: kube::Client,
    pub client_for: ClientFor,
    pub metrics: Metrics,
    /// The certificate authority that pods are to trust, for every namespace.
    pub cluster_ca_pem: String,
    /// How old a node's last sign of life may be.
    pub node_grace: std::time::Duration,
}

/// Upstream's default for [`Config::node_grace`], and what nodes are built for.
pub const DEFAULT_NODE_GRACE: std::time::Duration = std::time::Duration::from_secs(40);

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("node_grace", &self.node_grace).finish_non_exhaustive()
    }
}

/// Runs every controller until the scope is cancelled. The caller starts it where it may act, and only there.
pub async fn run(config: Config, env: Env, scope: Scope) {
    let cache = Arc::new(Cache::default());
    let stations: Vec<Arc<Station>> = controller::all(&config, &env)
        .into_iter()
        .map(|controller| station(controller, &config, &env, &scope))
        .collect();
    let listener: Listener = {
        let (cache, stations) = (Arc::clone(&cache), stations.clone());
        Arc::new(move |change: &Change| stations.iter().for_each(|station| station.hear(&cache, change)))
    };
    observe::start(&config.client, &cache, &listener, &env, &scope);
    controller::garbage::start(&config, &cache, &env, &scope);
    for station in stations {
        let (cache, scope_of_work) = (Arc::clone(&cache), scope.clone());
        scope.spawn(&format!("{station:?}"), station.work(cache, scope_of_work));
    }
    scope.cancelled().await;
}

fn station(controller: Box<dyn Controller>, config: &Config, env: &Env, scope: &Scope) -> Arc<Station> {
    let client = (config.client_for)(controller.account());
    let notes = Notes::start(client.clone(), controller.component(), env, scope);
    let executor = Executor::new(client, config.client.clone(), notes, env.clone());
    Arc::new(Station::new(controller, executor, config.metrics.clone(), env.clone()))
}
