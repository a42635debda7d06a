//! HTTP/2 connections over TLS to one server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use crate::kubeconfig::Target;

/// No answer takes longer on a server that works; a run must not hang on one that does not.
pub const ANSWER_DEADLINE: Duration = Duration::from_secs(60);
/// A LIST of 10,000 pods must not wait for window updates: client-go's windows are of this order.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

pub type Call = Request<Full<Bytes>>;
type Sender = SendRequest<Full<Bytes>>;

/// Connections that clients share, each client always the same one.
#[derive(Debug)]
pub struct Pool {
    target: Target,
    senders: Vec<Sender>,
    /// Ends with the pool.
    drivers: JoinSet<()>,
}

/// A server's answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub body: Vec<Bytes>,
    pub elapsed: Duration,
}

impl Answer {
    pub fn bytes(&self) -> usize {
        self.body.iter().map(Bytes::len).sum()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body.concat()).into_owned()
    }
}

impl Pool {
    pub async fn open(target: &Target, connections: usize) -> Result<Self> {
        let mut pool = Self { target: target.clone(), senders: Vec::new(), drivers: JoinSet::new() };
        for _ in 0..connections.max(1) {
            let sender = dial(target, &mut pool.drivers).await.with_context(|| format!("dial {}", target.authority))?;
            pool.senders.push(sender);
        }
        Ok(pool)
    }

    /// A request that can be sent, now or later.
    pub fn prepare(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Call> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.target.authority))
            .header(ACCEPT, "application/json");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(authorization) = &self.target.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        Ok(request.body(Full::new(Bytes::from(body)))?)
    }

    /// What client number `client` sends through.
    pub fn client(&self, client: usize) -> Client {
        Client { sender: self.senders[client % self.senders.len()].clone() }
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.client(0).send(self.prepare(Method::GET, path, None)?).await
    }

    /// Creates `object`; one that exists already will do.
    pub async fn ensure(&self, path: &str, object: &Value) -> Result<()> {
        let answer = self.client(0).send(self.prepare(Method::POST, path, Some(object))?).await?;
        if !answer.status.is_success() && answer.status != StatusCode::CONFLICT {
            bail!("create in {path}: {}: {}", answer.status, answer.text());
        }
        Ok(())
    }

    pub async fn ensure_namespace(&self, name: &str) -> Result<()> {
        let object = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.ensure("/api/v1/namespaces", &object).await
    }
}

/// One client's way to the server.
#[derive(Debug, Clone)]
pub struct Client {
    sender: Sender,
}

impl Client {
    /// Sends and reads the whole answer.
    #[expect(clippy::disallowed_methods, reason = "it measures real time")]
    pub async fn send(&mut self, request: Call) -> Result<Answer> {
        let started = Instant::now();
        let answer = tokio::time::timeout(ANSWER_DEADLINE, async {
            self.sender.ready().await?;
            let (head, mut incoming) = self.sender.send_request(request).await?.into_parts();
            let mut body = Vec::new();
            while let Some(frame) = incoming.frame().await {
                body.extend(frame?.into_data().ok());
            }
            Ok::<_, hyper::Error>((head.status, body))
        });
        let (status, body) = answer.await.context("no answer in time")??;
        Ok(Answer { status, body, elapsed: started.elapsed() })
    }
}

async fn dial(target: &Target, drivers: &mut JoinSet<()>) -> Result<Sender> {
    let stream = TcpStream::connect(&target.authority).await?;
    stream.set_nodelay(true)?;
    let stream = TlsConnector::from(target.tls.clone()).connect(target.name.clone(), stream).await?;
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        bail!("the server does not speak HTTP/2");
    }
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .handshake(TokioIo::new(stream))
        .await?;
    // How a connection ended shows in the requests that it carried.
    drivers.spawn(async move { drop(connection.await) });
    Ok(sender)
}
