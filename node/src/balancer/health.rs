//! Asks a member how it is, again and again.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quorate_env::Env;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::pool::{Finding, Pool};

/// Between two probes of a member. A death by silence is seen after two deadlines and one pause.
pub const PROBE_PAUSE: Duration = Duration::from_millis(500);
/// A probe that takes longer has failed.
pub const PROBE_DEADLINE: Duration = Duration::from_secs(1);
/// Part of the pause that varies, so that nodes do not probe in step.
const PAUSE_JITTER: f64 = 0.2;
/// Enough of the answer to see its status line.
const STATUS_LINE_BYTES: u64 = 64;

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

/// Probe the member for as long as it is listed.
pub async fn watch(member: String, listed: CancellationToken, pool: Arc<Mutex<Pool>>, probe: Probe, env: Env) {
    while !listed.is_cancelled() {
        let finding = match env.clock.timeout(PROBE_DEADLINE, ask(&member, &probe)).await {
            Ok(finding) => finding,
            Err(_) => Finding::Silent,
        };
        if pool.lock().note(&member, finding) {
            let alive = finding == Finding::Well;
            tracing::info!(member, alive, "a member changed its state");
        }
        env.clock.sleep(env.random.jitter(PROBE_PAUSE, PAUSE_JITTER)).await;
    }
}

async fn ask(member: &str, probe: &Probe) -> Finding {
    let stream = match TcpStream::connect(member).await {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Finding::Refused,
        Err(_) => return Finding::Silent,
    };
    match probe {
        Probe::Connect => Finding::Well,
        Probe::Ready(config) => ask_ready(member, stream, config).await.unwrap_or(Finding::Silent),
    }
}

async fn ask_ready(member: &str, stream: TcpStream, config: &Arc<rustls::ClientConfig>) -> std::io::Result<Finding> {
    let host = member.rsplit_once(':').map_or(member, |(host, _)| host).trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host.clone()).map_err(std::io::Error::other)?;
    let mut tls = TlsConnector::from(config.clone()).connect(name, stream).await?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    tls.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    tls.take(STATUS_LINE_BYTES).read_to_end(&mut answer).await?;
    let text = String::from_utf8_lossy(&answer);
    Ok(match text.split_whitespace().nth(1) {
        Some("200") => Finding::Well,
        Some(_) => Finding::Refused,
        None => Finding::Silent,
    })
}
