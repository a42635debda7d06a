//! The API server as a value: what its parts share, and how callers reach it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use http::{Request, Response};
use parking_lot::Mutex;
use quorate_env::{Env, Scope};
use quorate_raft_store::Store;
use tokio_util::sync::CancellationToken;

use crate::admission::Admission;
use crate::authenticate::Authenticator;
use crate::authorize::Authorizer;
use crate::body::{Body, RequestBody};
use crate::bootstrap::Settings;
use crate::chain::{self, gate::Turnstile};
use crate::fence::{Fence, FenceError};
use crate::follow::Source;
use crate::identity::Identity;
use crate::inprocess::InProcess;
use crate::metrics::{Metrics, MetricsError};
use crate::nodes::Nodes;
use crate::openapi::Documents;
use crate::pki::{Pki, PkiError};
use crate::registry::Registry;
use crate::storage::Storage;
use crate::storage::namespaces::Namespaces;

/// What the API server is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Serve the group-versions that Kubernetes removed, for old manifests.
    pub legacy_apis: bool,
    /// The cluster's roots of trust. Without them nobody can prove an identity: whoever comes by the network is
    /// anonymous, and no tokens are issued.
    pub pki: Option<Arc<Pki>>,
    /// The cluster's addresses and names.
    pub cluster: Settings,
    /// Where the process's metrics are registered; `/metrics` shows all of it.
    pub metrics: prometheus::Registry,
    /// The commit that this binary was built from, for `/version`.
    pub git_commit: String,
    /// When, in RFC 3339; empty if not known.
    pub build_date: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            legacy_apis: true,
            pki: None,
            cluster: Settings::default(),
            metrics: prometheus::Registry::new(),
            git_commit: String::new(),
            build_date: String::new(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error(transparent)]
    Pki(#[from] PkiError),
}

/// A handle on the API server of this member; clones are the same server.
#[derive(Clone, Debug)]
pub struct Server(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: Config,
    env: Env,
    scope: Scope,
    storage: Storage,
    namespaces: Namespaces,
    registry: ArcSwap<Registry>,
    authenticator: Authenticator,
    authorizer: Authorizer,
    admission: Admission,
    metrics: Metrics,
    nodes: Nodes,
    turnstile: Turnstile,
    openapi: Documents,
    draining: AtomicBool,
    closing: CancellationToken,
    start_checks: Mutex<Vec<(&'static str, Option<String>)>>,
}

impl Server {
    pub async fn open(config: Config, store: Store, env: Env, scope: Scope) -> Result<Self, OpenError> {
        let storage = Storage::new(store);
        let metrics = Metrics::register(config.metrics.clone())?;
        let source = Source { storage: &storage, env: &env, scope: &scope, unheard: &metrics.unheard };
        let namespaces = Namespaces::start(source);
        let registry = Registry::built_in(quorate_api::resource::table(), config.legacy_apis);
        let authenticator = Authenticator::new(config.pki.as_ref(), &storage, &env)?;
        let authorizer = Authorizer::start(source);
        let admission = Admission::new(storage.clone(), authorizer.clone(), env.clone());
        let closing = scope.token().child_token();
        let nodes = Nodes::new(config.pki.as_ref(), env.clone(), &scope, closing.clone())?;
        Ok(Self(Arc::new(Shared {
            config,
            storage,
            namespaces,
            registry: ArcSwap::from_pointee(registry),
            authenticator,
            authorizer,
            admission,
            metrics,
            nodes,
            turnstile: Turnstile::default(),
            openapi: Documents::default(),
            draining: AtomicBool::new(false),
            closing,
            start_checks: Mutex::default(),
            env,
            scope,
        })))
    }

    /// Handles one request, from whatever transport.
    pub async fn handle(&self, request: Request<RequestBody>) -> Response<Body> {
        chain::handle(self.clone(), request).await
    }

    /// A service for parts in the same process, acting as `identity`: no socket, no TLS. With a fence their writes
    /// commit only while this member leads in the fence's term.
    pub fn in_process(&self, identity: Identity, fence: Option<Fence>) -> InProcess {
        InProcess::new(self.clone(), identity, fence)
    }

    /// Writes the leadership key for `term`; fails if a later term has been taken.
    pub async fn take_leadership(&self, term: u64) -> Result<Fence, FenceError> {
        let member = self.storage().store().status().name;
        Fence::take(self.storage(), term, &member).await
    }

    /// Whether requests can be answered: the store has caught up and has a leader, start-up is done, no shutdown.
    pub fn ready(&self) -> bool {
        let started = self.0.start_checks.lock().iter().all(|(_, failure)| failure.is_none());
        self.store_ready() && started && !self.is_draining()
    }

    pub fn store_ready(&self) -> bool {
        self.storage().store().is_ready()
    }

    /// Sets or clears the reason why a named step of start-up is not done; shown by `/readyz`.
    pub fn set_start_check(&self, name: &'static str, failure: Option<String>) {
        let mut checks = self.0.start_checks.lock();
        match checks.iter_mut().find(|(own, _)| *own == name) {
            Some((_, own)) => *own = failure,
            None => checks.push((name, failure)),
        }
    }

    pub(crate) fn start_checks(&self) -> Vec<(&'static str, Option<String>)> {
        self.0.start_checks.lock().clone()
    }

    /// Shutdown, first step: report unready, go on serving.
    pub fn begin_drain(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }

    /// Shutdown, second step: stop accepting, end watches and let requests in flight finish.
    pub fn close(&self) {
        self.begin_drain();
        self.0.closing.cancel();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    /// Cancelled when streams should end.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    pub fn config(&self) -> &Config {
        &self.0.config
    }

    pub fn env(&self) -> &Env {
        &self.0.env
    }

    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    pub fn namespaces(&self) -> &Namespaces {
        &self.0.namespaces
    }

    /// The rows as they are now.
    pub fn registry(&self) -> arc_swap::Guard<Arc<Registry>> {
        self.0.registry.load()
    }

    /// The cluster's roots of trust, where this server has them.
    pub fn pki(&self) -> Option<&Arc<Pki>> {
        self.0.config.pki.as_ref()
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.0.authenticator
    }

    pub(crate) fn authorizer(&self) -> &Authorizer {
        &self.0.authorizer
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.0.admission
    }

    /// The way to the nodes' own servers.
    pub(crate) fn nodes(&self) -> &Nodes {
        &self.0.nodes
    }

    pub(crate) fn openapi(&self) -> &Documents {
        &self.0.openapi
    }

    /// The bound on requests in flight.
    pub(crate) fn turnstile(&self) -> &Turnstile {
        &self.0.turnstile
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }
}
