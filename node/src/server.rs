//! The node's HTTPS server: logs, exec, attach and port-forward for the API server, health and metrics for others.
//!
//! A client is known by a certificate of the cluster's authority. Administrators may do everything; anybody else is
//! asked about at the API (`nodes/proxy`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use quorate_env::{Env, Scope};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::config::{Config, ServerConfig};
use crate::pod::manager::Pods;
use crate::runtime::Runtime;

mod identity;
mod log;
mod metrics;
mod stream;
mod tls;

pub use tls::TlsError;

/// Connections open at the same time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 512;
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the handlers work with.
#[derive(Clone)]
pub struct Node {
    pub config: Arc<Config>,
    pub env: Env,
    pub scope: Scope,
    pub client: kube::Client,
    pub runtime: Runtime,
    pub pods: Pods,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("name", &self.config.name).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}; is another node running here?")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A refusal in the plain form that the API server turns into a `Status`.
#[derive(Debug)]
pub(crate) struct Refusal(StatusCode, String);

impl Refusal {
    fn not_found(message: String) -> Self {
        Self(StatusCode::NOT_FOUND, message)
    }

    fn bad_request(message: String) -> Self {
        Self(StatusCode::BAD_REQUEST, message)
    }

    fn internal(message: String) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR, message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

/// The listening socket with its certificate, if the configuration names both.
pub struct Listener {
    socket: TcpListener,
    acceptor: TlsAcceptor,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// Listen before anything else is started: a port in use then leaves nothing behind.
pub async fn listen(config: &ServerConfig, scope: &Scope) -> Result<Option<Listener>, ServeError> {
    let (Some(address), Some(tls)) = (config.listen, &config.tls) else { return Ok(None) };
    let acceptor = tls::acceptor(tls, scope)?;
    let socket = TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
    Ok(Some(Listener { socket, acceptor }))
}

/// Serve until the scope ends.
pub fn start(node: Node, listener: Listener) {
    let Listener { socket: listener, acceptor } = listener;
    let scope = node.scope.clone();
    let connections = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    let router = router(node.clone());
    scope.clone().spawn_until_cancelled("server", async move {
        loop {
            let Ok(permit) = connections.clone().acquire_owned().await else { return };
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "connection not accepted");
                    node.env.clock.sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (acceptor, router, node) = (acceptor.clone(), router.clone(), node.clone());
            scope.spawn_until_cancelled("connection", async move {
                let _permit = permit;
                connection(stream, peer, acceptor, router, node).await;
            });
        }
    });
}

async fn connection(stream: TcpStream, peer: SocketAddr, acceptor: TlsAcceptor, router: Router, node: Node) {
    let stream = match node.env.clock.timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, %peer, "handshake failed");
            return;
        }
        Err(_elapsed) => return,
    };
    let identity = identity::of(&stream);
    let router = router.layer(axum::Extension(identity));
    let service = TowerToHyperService::new(router);
    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    if let Err(error) = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
        tracing::debug!(%error, %peer, "connection ended");
    }
}

fn router(node: Node) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/pods", get(pods))
        .route("/metrics", get(metrics::metrics))
        .route("/containerLogs/{namespace}/{pod}/{container}", get(log::container_logs))
        .route("/exec/{namespace}/{pod}/{container}", any(stream::exec))
        .route("/attach/{namespace}/{pod}/{container}", any(stream::attach))
        .route("/portForward/{namespace}/{pod}", any(stream::port_forward))
        .layer(axum::middleware::from_fn_with_state(node.clone(), identity::authorize))
        .with_state(node)
}

async fn pods(State(node): State<Node>) -> Response {
    let items = node.pods.all().iter().map(|pod| pod.as_ref().clone()).collect();
    axum::Json(List::<Pod> { items, ..Default::default() }).into_response()
}

/// The pod a path names.
fn find(node: &Node, namespace: &str, name: &str) -> Result<Arc<Pod>, Refusal> {
    node.pods.find(namespace, name).ok_or_else(|| Refusal::not_found(format!("pod \"{name}\" not found")))
}

type ContainerPath = Path<(String, String, String)>;
