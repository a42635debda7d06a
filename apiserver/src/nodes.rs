//! The API server as a client of its nodes: one connection for each log, exec, attach, port-forward or proxied request.
//!
//! HTTP/1.1 over TLS to port 10250: the server proves itself by the cluster's authority, we by a client certificate.
//! Workloads, which only proxying reaches, are spoken to in the clear.
//! A connection lives as long as the stream that it carries and ends with the server.

mod endpoint;
mod error;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use quorate_env::{Env, Scope};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use crate::body::{BoxError, request_body};
use crate::pki::{Pki, PkiError};
pub(crate) use endpoint::Endpoint;
pub(crate) use error::NodeError;
use tls::Tls;

/// Streams to nodes that one member carries at once; more are refused.
const STREAMS_MAX: usize = 4096;
/// For TCP and TLS together.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Until the head of the node's answer: the node may have to ask its runtime first.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// The same for workloads, which may be slow on purpose (long polls).
const WORKLOAD_ANSWER_LIMIT: Duration = Duration::from_secs(300);
/// Of a refusal's text; the rest is cut off.
const REFUSAL_BYTES_MAX: usize = 16 << 10;
const REFUSAL_LIMIT: Duration = Duration::from_secs(5);
/// Until both ends have switched protocols, once the node has agreed.
const SWITCH_LIMIT: Duration = Duration::from_secs(10);
/// For the last bytes and the TLS farewell of a stream that has ended.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);

/// A handle on the way to the nodes; clones share its bound.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    tls: Option<Tls>,
    env: Env,
    scope: Scope,
    closing: CancellationToken,
    slots: Arc<Semaphore>,
}

/// How the node's certificate is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It must be of the cluster's authority and name the node's address.
    Verified,
    /// The caller asked not to check who answers.
    Unverified,
}

/// How a connection is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// To a node's own server.
    Tls(Trust),
    /// To a workload.
    Plain,
}

impl Transport {
    fn answer_limit(self) -> Duration {
        match self {
            Self::Tls(_) => ANSWER_LIMIT,
            Self::Plain => WORKLOAD_ANSWER_LIMIT,
        }
    }
}

/// A node's answer; its place among the streams is held until both this and the connection have ended.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) response: Response<Incoming>,
    slot: Arc<OwnedSemaphorePermit>,
}

/// A connection, whatever it is made of.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl Nodes {
    /// Streams end when `closing` is cancelled.
    pub(crate) fn new(
        pki: Option<&Arc<Pki>>,
        env: Env,
        scope: &Scope,
        closing: CancellationToken,
    ) -> Result<Self, PkiError> {
        let tls = pki.map(Tls::new).transpose()?;
        Ok(Self { tls, env, scope: scope.child("nodes"), closing, slots: Arc::new(Semaphore::new(STREAMS_MAX)) })
    }

    /// Sends one request over a connection of its own. Any answer is returned, refusals too.
    pub(crate) async fn send<B>(
        &self,
        endpoint: &Endpoint,
        request: Request<B>,
        transport: Transport,
    ) -> Result<Answer, NodeError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_none_left| NodeError::Busy)?;
        let slot = Arc::new(slot);
        let connecting = self.env.clock.timeout(CONNECT_LIMIT, self.connect(endpoint, transport));
        let stream = connecting.await.map_err(|_elapsed| endpoint.late("connecting", CONNECT_LIMIT))??;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|source| endpoint.broken(source))?;
        let (closing, held, address) = (self.closing.clone(), Arc::clone(&slot), endpoint.address());
        self.scope.spawn("connection", async move {
            tokio::select! {
                ended = connection.with_upgrades() => {
                    if let Err(error) = ended {
                        tracing::debug!(%address, %error, "connection to a node ended");
                    }
                }
                () = closing.cancelled() => {}
            }
            drop(held);
        });
        let limit = transport.answer_limit();
        let answering = self.env.clock.timeout(limit, sender.send_request(request.map(request_body)));
        let response = answering.await.map_err(|_elapsed| endpoint.late("answering", limit))?;
        Ok(Answer { response: response.map_err(|source| endpoint.broken(source))?, slot })
    }

    async fn connect(&self, endpoint: &Endpoint, transport: Transport) -> Result<Box<dyn Wire>, NodeError> {
        let address = endpoint.address();
        let dial = |source| NodeError::Dial { address, source };
        let trust = match transport {
            Transport::Tls(trust) => trust,
            Transport::Plain => return Ok(Box::new(dial_tcp(address).await.map_err(dial)?)),
        };
        let tls = self.tls.as_ref().ok_or(NodeError::NoCertificate)?;
        let connector = TlsConnector::from(tls.config(trust));
        let stream = dial_tcp(address).await.map_err(dial)?;
        Ok(Box::new(connector.connect(ServerName::from(address.ip()), stream).await.map_err(dial)?))
    }

    /// What a node said that did not do what was asked.
    pub(crate) async fn refusal(&self, answer: Answer) -> NodeError {
        let code = answer.response.status();
        let mut body = answer.response.into_body();
        let mut text = Vec::new();
        let reading = async {
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else { continue };
                let room = REFUSAL_BYTES_MAX - text.len();
                text.extend_from_slice(&data[..data.len().min(room)]);
                if text.len() == REFUSAL_BYTES_MAX {
                    return;
                }
            }
        };
        if self.env.clock.timeout(REFUSAL_LIMIT, reading).await.is_err() {
            tracing::debug!(%code, "a node's refusal did not come to its end");
        }
        NodeError::Refused { code, text: String::from_utf8_lossy(&text).trim().to_owned() }
    }

    /// Joins the client's connection with the node's, which has agreed to switch protocols, in the background.
    pub(crate) fn splice(&self, client: OnUpgrade, mut answer: Answer) {
        let node = hyper::upgrade::on(&mut answer.response);
        let this = self.clone();
        self.scope.spawn("stream", async move {
            let switching = this.env.clock.timeout(SWITCH_LIMIT, async { tokio::try_join!(client, node) });
            match switching.await {
                Ok(Ok((client, node))) => this.relay(TokioIo::new(client), TokioIo::new(node)).await,
                Ok(Err(error)) => tracing::debug!(%error, "a stream was not taken over"),
                Err(_elapsed) => tracing::debug!("a stream was not taken over in time"),
            }
            drop(answer.slot);
        });
    }

    /// Copies both ways until either end is done: the protocols above have half-closed channels of their own, so an
    /// end of the connection is the end of the stream.
    async fn relay<C, N>(&self, client: C, node: N)
    where
        C: AsyncRead + AsyncWrite,
        N: AsyncRead + AsyncWrite,
    {
        let (mut from_client, mut to_client) = tokio::io::split(client);
        let (mut from_node, mut to_node) = tokio::io::split(node);
        let ended = tokio::select! {
            sent = tokio::io::copy(&mut from_client, &mut to_node) => sent,
            sent = tokio::io::copy(&mut from_node, &mut to_client) => sent,
            () = self.closing.cancelled() => Ok(0),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a stream broke");
        }
        let farewell = async { tokio::join!(to_client.shutdown(), to_node.shutdown()) };
        if self.env.clock.timeout(FAREWELL_LIMIT, farewell).await.is_err() {
            tracing::debug!("a stream's end was not taken");
        }
    }
}

/// With keep-alive, so that a follower of logs learns when its node is gone.
async fn dial_tcp(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_keepalive(true)?;
    socket.set_nodelay(true)?;
    socket.connect(address).await
}
