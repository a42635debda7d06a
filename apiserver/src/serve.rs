//! HTTPS: accepting connections, TLS, HTTP/1.1 and HTTP/2 by ALPN, and an orderly end.
//!
//! Shutdown: [`Server::begin_drain`] (unready, still serving) → [`Server::close`] (no new connections, watches end,
//! requests in flight finish) → [`Server::serve`] returns when the last connection is gone or [`CLOSE_DEADLINE`] is over.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use nix::sys::socket::{setsockopt, sockopt};
use quorate_env::Scope;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::body::request_body;
use crate::identity::Peer;
use crate::server::Server;

/// More connections wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 16_384;
/// Streams a client may have open on one HTTP/2 connection.
const MAX_STREAMS: u32 = 1_000;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a client to send a request's head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long requests in flight may take to finish at shutdown.
pub const CLOSE_DEADLINE: Duration = Duration::from_secs(10);
/// After accept failed (out of file descriptors), wait before trying again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// HTTP/2 windows: large enough that a list is not limited by round trips on a fast network.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
const SEND_BUFFER_BYTES: usize = 1 << 20;
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// TCP's own probes of a silent connection: a peer that answers none of them is gone.
const PROBE_AFTER_SECONDS: u32 = 15;
const PROBE_EVERY_SECONDS: u32 = 15;
const PROBES: u32 = 4;

impl Server {
    /// Serves until the scope is cancelled or [`Server::close`] is called; returns when connections have ended.
    pub async fn serve(&self, listener: TcpListener, tls: ServerConfig) {
        let mut tls = tls;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let scope = self.scope().child("connections");
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let next = async {
                let slot = Arc::clone(&slots).acquire_owned().await;
                (slot, listener.accept().await)
            };
            let (Ok(slot), accepted) = (tokio::select! {
                next = next => next,
                () = self.closing().cancelled() => break,
            }) else {
                break;
            };
            match accepted {
                Ok((stream, address)) => {
                    let connection = Connection { server: self.clone(), acceptor: acceptor.clone(), address };
                    scope.spawn_until_cancelled("connection", async move {
                        connection.run(stream).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    self.env().clock.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        self.finish(&scope, &slots).await;
    }

    async fn finish(&self, scope: &Scope, slots: &Arc<Semaphore>) {
        let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
        let ended = self.env().clock.timeout(CLOSE_DEADLINE, slots.acquire_many(all)).await;
        if ended.is_err() {
            tracing::warn!("connections did not end in time, closing them");
        }
        // What is left is dropped at its next await point, whatever its client does.
        scope.cancel();
    }
}

struct Connection {
    server: Server,
    acceptor: TlsAcceptor,
    address: SocketAddr,
}

impl Connection {
    async fn run(self, stream: TcpStream) {
        if let Err(error) = set_options(&stream) {
            tracing::debug!(address = %self.address, %error, "setting socket options");
        }
        let handshake = self.server.env().clock.timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream)).await;
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(address = %self.address, %error, "TLS handshake failed");
                return;
            }
            Err(_elapsed) => {
                tracing::debug!(address = %self.address, "TLS handshake took too long");
                return;
            }
        };
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let mut chain = chain.iter().map(|certificate| certificate.clone().into_owned());
        let peer = Peer { address: Some(self.address), certificate: chain.next(), intermediates: chain.collect() };
        let server = self.server.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let server = server.clone();
            request.extensions_mut().insert(peer.clone());
            async move { Ok::<_, Infallible>(server.handle(request.map(request_body)).await) }
        });
        let builder = builder();
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.server.closing().cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(address = %self.address, %error, "connection ended");
        }
    }
}

/// A client that is gone without a word is noticed in the end, also by a response that has nothing to send.
fn set_options(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &PROBE_AFTER_SECONDS)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &PROBE_EVERY_SECONDS)?;
    setsockopt(stream, sockopt::TcpKeepCount, &PROBES)?;
    Ok(())
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(KEEP_ALIVE_INTERVAL);
    builder
}
