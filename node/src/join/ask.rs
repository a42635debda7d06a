//! Asking members for certificates: by a token, or by the certificate that is to be replaced.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use quorate_env::{Backoff, Env};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::membership::Record;
use super::{JoinError, Joining, Token, pin};

/// One attempt to join through one member.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);
/// A member that is only looked at.
const CONTACT_LIMIT: Duration = Duration::from_secs(2);
const RETRY_INITIAL: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX_BYTES: usize = 1 << 20;

/// One attempt's failure; the next member may do better.
#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error("{0}")]
    Io(std::io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("{0}")]
    Request(#[from] http::Error),
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Other(String),
    /// Another member would say the same.
    #[error("{0}")]
    Refused(String),
    /// Its certificate is of another authority.
    #[error("it belongs to another cluster")]
    Foreign,
}

impl From<std::io::Error> for AttemptError {
    fn from(error: std::io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match tls {
            Some(rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            )) => Self::Foreign,
            _ => Self::Io(error),
        }
    }
}

/// By what right the node asks.
#[derive(Clone, Copy)]
pub(super) enum Credential<'a> {
    Token(&'a Token),
    /// The certificate that is to be replaced.
    Kept(&'a Record),
}

impl Credential<'_> {
    fn tls(self) -> Result<ClientConfig, JoinError> {
        match self {
            Self::Token(token) => {
                pin::client_config(&token.ca_hash).map_err(|error| JoinError::Client(error.to_string()))
            }
            Self::Kept(record) => record.client_config(),
        }
    }

    /// All members are of another cluster.
    fn foreign(self, joining: &Joining) -> JoinError {
        match self {
            Self::Token(_) => JoinError::ForeignToken { members: joining.members.join(", ") },
            Self::Kept(_) => JoinError::OtherCluster { path: joining.path().display().to_string() },
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    node: &'a str,
    client_csr: String,
    serving_csr: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    ca: String,
    client_cert: String,
    serving_cert: String,
    members: Vec<String>,
    #[serde(default)]
    pod_cidr: Option<IpNet>,
    cluster_dns: IpAddr,
    cluster_domain: String,
    service_cidr: IpNet,
}

/// New keys, and certificates for them.
pub(super) async fn certify(
    joining: &Joining,
    credential: Credential<'_>,
    limit: Duration,
    env: &Env,
) -> Result<Record, JoinError> {
    let (client_key, client_csr) = request(&joining.node, &[])?;
    let (serving_key, serving_csr) = request(&joining.node, &joining.addresses)?;
    let body = serde_json::to_vec(&Request { node: &joining.node, client_csr, serving_csr });
    let body = Bytes::from(body.map_err(|_| JoinError::Answer("request"))?);
    let answer = ask_members(joining, credential, body, limit, env).await?;
    Ok(Record {
        node: joining.node.clone(),
        addresses: joining.addresses.clone(),
        token: match credential {
            Credential::Token(token) => Some(token.id.clone()),
            Credential::Kept(record) => record.token.clone(),
        },
        ca: answer.ca,
        client_cert: answer.client_cert,
        client_key,
        serving_cert: answer.serving_cert,
        serving_key,
        members: if answer.members.is_empty() { joining.members.clone() } else { answer.members },
        pod_cidr: answer.pod_cidr,
        cluster_dns: answer.cluster_dns,
        cluster_domain: answer.cluster_domain,
        service_cidr: answer.service_cidr,
    })
}

fn request(node: &str, addresses: &[IpAddr]) -> Result<(String, String), JoinError> {
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::new(vec![node.to_owned()])?;
    parameters.subject_alt_names.extend(addresses.iter().map(|ip| SanType::IpAddress(*ip)));
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    parameters.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    let request = parameters.serialize_request(&key)?;
    Ok((key.serialize_pem(), request.pem()?))
}

async fn ask_members(
    joining: &Joining,
    credential: Credential<'_>,
    body: Bytes,
    limit: Duration,
    env: &Env,
) -> Result<Answer, JoinError> {
    let tls = Arc::new(credential.tls()?);
    let mut backoff = Backoff::new(RETRY_INITIAL, RETRY_MAX, env.random.clone());
    let deadline = env.clock.now() + limit;
    let mut last = "no member is named".to_owned();
    while env.clock.now() < deadline {
        let mut foreign = 0;
        for member in &joining.members {
            match env.clock.timeout(ATTEMPT_LIMIT, ask(member, tls.clone(), credential, body.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(AttemptError::Refused(message))) => return Err(JoinError::Refused(message)),
                Ok(Err(error)) => {
                    foreign += usize::from(matches!(error, AttemptError::Foreign));
                    last = format!("{member}: {error}");
                }
                Err(elapsed) => last = format!("{member}: {elapsed}"),
            }
            tracing::info!(%last, "not joined yet");
        }
        if foreign > 0 && foreign == joining.members.len() {
            return Err(credential.foreign(joining));
        }
        env.clock.sleep(backoff.next_delay()).await;
    }
    Err(JoinError::Unreachable(limit, last))
}

/// What the members that are named are like, seen with the eyes of a kept membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstContact {
    Ours,
    /// Somebody answered, and all who did are of another cluster.
    Foreign,
    Nobody,
}

pub(super) async fn first_contact(joining: &Joining, kept: &Record, env: &Env) -> FirstContact {
    let Ok(tls) = kept.client_config().map(Arc::new) else { return FirstContact::Nobody };
    let looks = joining.members.iter().map(|member| env.clock.timeout(CONTACT_LIMIT, connect(member, tls.clone())));
    let seen: Vec<FirstContact> = join_all(looks)
        .await
        .into_iter()
        .map(|look| match look {
            Ok(Ok(_)) => FirstContact::Ours,
            Ok(Err(AttemptError::Foreign)) => FirstContact::Foreign,
            Ok(Err(_)) | Err(_) => FirstContact::Nobody,
        })
        .collect();
    let has = |wanted| seen.contains(&wanted);
    if has(FirstContact::Ours) {
        FirstContact::Ours
    } else if has(FirstContact::Foreign) {
        FirstContact::Foreign
    } else {
        FirstContact::Nobody
    }
}

async fn connect(member: &str, tls: Arc<ClientConfig>) -> Result<TlsStream<TcpStream>, AttemptError> {
    let member = member.trim_start_matches("https://");
    let host = member.rsplit_once(':').map_or(member, |(host, _)| host).trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned()).map_err(|error| AttemptError::Other(error.to_string()))?;
    let stream = TcpStream::connect(member).await?;
    Ok(tokio_rustls::TlsConnector::from(tls).connect(name, stream).await?)
}

async fn ask(
    member: &str,
    tls: Arc<ClientConfig>,
    credential: Credential<'_>,
    body: Bytes,
) -> Result<Answer, AttemptError> {
    let stream = connect(member, tls).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut message = http::Request::post("/quorate/v1/join")
        .header(http::header::HOST, member.trim_start_matches("https://"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::ACCEPT, "application/json");
    if let Credential::Token(token) = credential {
        message = message.header(http::header::AUTHORIZATION, format!("Bearer {}", token.bearer));
    }
    let message = message.body(Full::new(body))?;
    let exchange = async {
        let answer = sender.send_request(message).await?;
        let status = answer.status();
        let bytes = Limited::new(answer.into_body(), ANSWER_MAX_BYTES)
            .collect()
            .await
            .map_err(|error| AttemptError::Other(error.to_string()))?
            .to_bytes();
        Ok::<_, AttemptError>((status, bytes))
    };
    let (mut exchange, mut connection) = (std::pin::pin!(exchange), std::pin::pin!(connection));
    let (status, bytes) = tokio::select! {
        biased;
        done = &mut exchange => done?,
        ended = &mut connection => {
            ended?;
            exchange.await?
        }
    };
    if status.is_success() {
        return serde_json::from_slice(&bytes).map_err(|error| AttemptError::Other(error.to_string()));
    }
    let message = serde_json::from_slice::<serde_json::Value>(&bytes)
        .ok()
        .and_then(|value| value["message"].as_str().map(str::to_owned))
        .unwrap_or_else(|| status.to_string());
    // A bad token or a bad name will not become good; anything else may pass.
    if matches!(status.as_u16(), 400 | 401 | 403 | 409 | 422) {
        Err(AttemptError::Refused(message))
    } else {
        Err(AttemptError::Other(message))
    }
}
