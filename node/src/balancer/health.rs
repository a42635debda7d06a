//! Asks a member how it is, again and again.

use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use quorate_env::{Clock, Env};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::pool::{Finding, Pool};

/// Between two probes of a member. A death by silence is seen after two deadlines and one pause.
pub const PROBE_PAUSE: Duration = Duration::from_millis(500);
/// A member that accepts no connection within it has failed a probe.
pub const PROBE_DEADLINE: Duration = Duration::from_secs(1);
/// A member whose kernel answers may be busy: its own answer has longer.
pub const READY_DEADLINE: Duration = Duration::from_secs(3);
/// Part of the pause that varies, so that nodes do not probe in step.
const PAUSE_JITTER: f64 = 0.2;
/// After a probe's connection was closed by the member, which may be its death.
const ENDED_PAUSE: Duration = Duration::from_millis(20);
/// What a member may say beside its status.
const ANSWER_MAX_BYTES: usize = 16 * 1024;

/// How a member is asked.
#[derive(Clone)]
pub enum Probe {
    /// Does it accept connections?
    Connect,
    /// Does `/readyz` over TLS answer 200? A member that lost its quorum listens, but is of no use.
    Ready(Arc<rustls::ClientConfig>),
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect => "Connect",
            Self::Ready(_) => "Ready",
        })
    }
}

/// Probe the member for as long as it is known.
pub async fn watch(member: String, known: CancellationToken, pool: Arc<Mutex<Pool>>, probe: Probe, env: Env) {
    let mut line = None;
    while !known.is_cancelled() {
        let finding = ask(&member, &probe, &mut line, &env.clock).await;
        if pool.lock().note(&member, finding) {
            let alive = finding == Finding::Well;
            tracing::info!(member, alive, ?finding, "a member changed its state");
        }
        let pause = env.clock.sleep(env.random.jitter(PROBE_PAUSE, PAUSE_JITTER));
        let Some(open) = &mut line else {
            pause.await;
            continue;
        };
        let ended = tokio::select! {
            () = pause => false,
            () = open.ended() => true,
        };
        if ended {
            line = None;
            env.clock.sleep(ENDED_PAUSE).await;
        }
    }
}

async fn ask(member: &str, probe: &Probe, line: &mut Option<Line>, clock: &Clock) -> Finding {
    let Probe::Ready(config) = probe else {
        return match connect(member, clock).await {
            Ok(_) => Finding::Well,
            Err(finding) => finding,
        };
    };
    if let Some(mut open) = line.take() {
        match clock.timeout(READY_DEADLINE, open.ask()).await {
            Ok(Ok(finding)) => {
                *line = Some(open);
                return finding;
            }
            Err(_elapsed) => return Finding::Silent,
            // A connection that ended meanwhile says nothing of how the member is now.
            Ok(Err(_)) => {}
        }
    }
    let stream = match connect(member, clock).await {
        Ok(stream) => stream,
        Err(finding) => return finding,
    };
    let fresh = async {
        let mut open = Line::open(member, stream, config).await?;
        let finding = open.ask().await?;
        Ok::<_, std::io::Error>((open, finding))
    };
    match clock.timeout(READY_DEADLINE, fresh).await {
        Ok(Ok((open, finding))) => {
            *line = Some(open);
            finding
        }
        Ok(Err(error)) => {
            tracing::debug!(member, %error, "a member does not say whether it is ready");
            Finding::Silent
        }
        Err(_elapsed) => Finding::Silent,
    }
}

async fn connect(member: &str, clock: &Clock) -> Result<TcpStream, Finding> {
    match clock.timeout(PROBE_DEADLINE, TcpStream::connect(member)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => Err(Finding::Refused),
        Ok(Err(_)) | Err(_) => Err(Finding::Silent),
    }
}

/// A connection that is kept between probes: no handshake each time, and its end tells of a death at once.
struct Line {
    host: String,
    sender: SendRequest<Empty<Bytes>>,
    connection: Pin<Box<http1::Connection<TokioIo<TlsStream<TcpStream>>, Empty<Bytes>>>>,
}

impl Line {
    async fn open(member: &str, stream: TcpStream, config: &Arc<rustls::ClientConfig>) -> std::io::Result<Self> {
        let host = member.rsplit_once(':').map_or(member, |(host, _)| host).trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host.clone()).map_err(std::io::Error::other)?;
        let stream = TlsConnector::from(config.clone()).connect(name, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
        Ok(Self { host, sender, connection: Box::pin(connection) })
    }

    /// Well when it is ready. An error when the connection is of no use any more.
    async fn ask(&mut self) -> std::io::Result<Finding> {
        let Self { host, sender, connection } = self;
        let request = http::Request::get("/readyz")
            .header(http::header::HOST, host.as_str())
            .body(Empty::new())
            .map_err(std::io::Error::other)?;
        let exchange = async {
            sender.ready().await.map_err(std::io::Error::other)?;
            let answer = sender.send_request(request).await.map_err(std::io::Error::other)?;
            let ready = answer.status().is_success();
            // Read to its end, so that the connection can be used again.
            Limited::new(answer.into_body(), ANSWER_MAX_BYTES).collect().await.map_err(std::io::Error::other)?;
            Ok(if ready { Finding::Well } else { Finding::Unready })
        };
        tokio::select! {
            biased;
            found = exchange => found,
            ended = connection => Err(ended.map_or_else(std::io::Error::other, |()| ErrorKind::ConnectionReset.into())),
        }
    }

    async fn ended(&mut self) {
        if let Err(error) = (&mut self.connection).await {
            tracing::debug!(%error, "a probe's connection broke");
        }
    }
}
