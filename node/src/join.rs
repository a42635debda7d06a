//! Joining a cluster: from a token to certificates, a client, and the node's part of the address plan.
//!
//! The token carries a hash of the cluster's authority: the secret in it is sent only over a connection whose
//! certificate that authority has signed. What is got is kept, so that a restart needs no token.

use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use quorate_env::{Backoff, Env};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::config::{ClusterNetwork, ServerTls};

mod pin;

/// One attempt to join through one member.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);
/// All attempts together; the cluster may still be starting.
const JOIN_LIMIT: Duration = Duration::from_secs(300);
const RETRY_INITIAL: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX_BYTES: usize = 1 << 20;
const FILE: &str = "membership.json";

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("a join token has the form ID.SECRET.HASH, as `quorate token create` prints it")]
    Token,
    #[error("this node has not joined a cluster yet, and no token is given")]
    NoToken,
    #[error("no member answered within {0:?}; the last one said: {1}")]
    Unreachable(Duration, String),
    #[error("the cluster refuses the node: {0}")]
    Refused(String),
    #[error("{path}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{0} holds no membership; remove it and join again")]
    Corrupt(String),
    #[error("keys and requests cannot be made")]
    Keys(#[from] rcgen::Error),
    #[error("the cluster's answer has no usable {0}")]
    Answer(&'static str),
    #[error("no client can be made from the membership: {0}")]
    Client(String),
}

/// One attempt's failure; the next member may do better.
#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
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
}

/// `ID.SECRET.HASH`.
#[derive(Clone)]
pub struct Token {
    bearer: String,
    ca_hash: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    pub fn parse(text: &str) -> Result<Self, JoinError> {
        const HASH_LETTERS: usize = 64;
        let parts: Vec<&str> = text.trim().split('.').collect();
        match parts.as_slice() {
            [id, secret, hash]
                if !id.is_empty()
                    && !secret.is_empty()
                    && hash.len() == HASH_LETTERS
                    && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
            {
                Ok(Self { bearer: format!("{id}.{secret}"), ca_hash: hash.to_ascii_lowercase() })
            }
            _ => Err(JoinError::Token),
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

/// What a node has once it has joined.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Membership {
    pub node: String,
    pub ca: String,
    pub client_cert: String,
    pub client_key: String,
    pub serving_cert: String,
    pub serving_key: String,
    /// `host:port` of the members' API servers.
    pub members: Vec<String>,
    pub pod_cidr: Option<IpNet>,
    pub cluster_dns: IpAddr,
    pub cluster_domain: String,
    pub service_cidr: IpNet,
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Membership").field("node", &self.node).field("members", &self.members).finish_non_exhaustive()
    }
}

/// Who joins, and through whom.
#[derive(Clone, Debug)]
pub struct Joining {
    pub node: String,
    pub addresses: Vec<IpAddr>,
    pub members: Vec<String>,
    /// Needed at the first start only.
    pub token: Option<String>,
    /// Where the membership is kept.
    pub directory: PathBuf,
}

/// The kept membership of this node, else a new one.
pub async fn join(joining: &Joining, env: &Env) -> Result<Membership, JoinError> {
    let path = joining.directory.join(FILE);
    if let Some(kept) = load(&path)?
        && kept.node == joining.node
    {
        return Ok(kept);
    }
    let token = Token::parse(joining.token.as_deref().ok_or(JoinError::NoToken)?)?;
    let (client_key, client_csr) = request(&format!("system:node:{}", joining.node), &[], &joining.node)?;
    let (serving_key, serving_csr) =
        request(&format!("system:node:{}", joining.node), &joining.addresses, &joining.node)?;
    let body = serde_json::to_vec(&Request { node: &joining.node, client_csr, serving_csr });
    let body = Bytes::from(body.map_err(|_| JoinError::Answer("request"))?);
    let answer = ask_members(joining, &token, body, env).await?;
    let membership = Membership {
        node: joining.node.clone(),
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
    };
    store(&path, &membership)?;
    Ok(membership)
}

fn request(name: &str, addresses: &[IpAddr], node: &str) -> Result<(String, String), JoinError> {
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::new(vec![node.to_owned()])?;
    parameters.subject_alt_names.extend(addresses.iter().map(|ip| SanType::IpAddress(*ip)));
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    let request = parameters.serialize_request(&key)?;
    Ok((key.serialize_pem(), request.pem()?))
}

async fn ask_members(joining: &Joining, token: &Token, body: Bytes, env: &Env) -> Result<Answer, JoinError> {
    let mut backoff = Backoff::new(RETRY_INITIAL, RETRY_MAX, env.random.clone());
    let deadline = env.clock.now() + JOIN_LIMIT;
    let mut last = "no member is named".to_owned();
    while env.clock.now() < deadline {
        for member in &joining.members {
            match env.clock.timeout(ATTEMPT_LIMIT, ask(member, token, body.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(AttemptError::Refused(message))) => return Err(JoinError::Refused(message)),
                Ok(Err(error)) => last = format!("{member}: {error}"),
                Err(elapsed) => last = format!("{member}: {elapsed}"),
            }
            tracing::info!(%last, "not joined yet");
        }
        env.clock.sleep(backoff.next_delay()).await;
    }
    Err(JoinError::Unreachable(JOIN_LIMIT, last))
}

async fn ask(member: &str, token: &Token, body: Bytes) -> Result<Answer, AttemptError> {
    let member = member.trim_start_matches("https://");
    let host = member.rsplit_once(':').map_or(member, |(host, _)| host).trim_matches(['[', ']']);
    let name = rustls::pki_types::ServerName::try_from(host.to_owned())
        .map_err(|error| AttemptError::Other(error.to_string()))?;
    let stream = TcpStream::connect(member).await?;
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(pin::client_config(&token.ca_hash)?));
    let mut stream = connector.connect(name, stream).await?;
    stream.flush().await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let message = http::Request::post("/quorate/v1/join")
        .header(http::header::HOST, member)
        .header(http::header::AUTHORIZATION, format!("Bearer {}", token.bearer))
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::ACCEPT, "application/json")
        .body(Full::new(body))?;
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

fn load(path: &Path) -> Result<Option<Membership>, JoinError> {
    match std::fs::read(path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|_| JoinError::Corrupt(path.display().to_string()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(JoinError::File { path: path.display().to_string(), source }),
    }
}

/// Readable by the owner only, and whole or not there.
fn store(path: &Path, membership: &Membership) -> Result<(), JoinError> {
    let failed = |source| JoinError::File { path: path.display().to_string(), source };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    let bytes = serde_json::to_vec_pretty(membership).map_err(|error| failed(error.into()))?;
    let next = path.with_extension("next");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next).map_err(failed)?;
    std::io::Write::write_all(&mut file, &bytes).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    std::fs::rename(&next, path).map_err(failed)
}

impl Membership {
    pub fn network(&self) -> ClusterNetwork {
        ClusterNetwork {
            pod_cidr: self.pod_cidr,
            service_cidr: self.service_cidr,
            dns: self.cluster_dns,
            domain: self.cluster_domain.clone(),
        }
    }

    pub fn server_tls(&self) -> ServerTls {
        ServerTls { ca_pem: self.ca.clone(), cert_pem: self.serving_cert.clone(), key_pem: self.serving_key.clone() }
    }

    /// The node's kubeconfig for the API at `address`, which is the loopback balancer's.
    pub fn kubeconfig(&self, address: &str) -> Kubeconfig {
        let user = format!("system:node:{}", self.node);
        let encode = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
        Kubeconfig {
            clusters: vec![NamedCluster {
                name: "quorate".into(),
                cluster: Some(Cluster {
                    server: Some(format!("https://{address}")),
                    certificate_authority_data: Some(encode(&self.ca)),
                    ..Default::default()
                }),
                ..Default::default()
            }],
            auth_infos: vec![NamedAuthInfo {
                name: user.clone(),
                auth_info: Some(AuthInfo {
                    client_certificate_data: Some(encode(&self.client_cert)),
                    client_key_data: Some(encode(&self.client_key).into()),
                    ..Default::default()
                }),
                ..Default::default()
            }],
            contexts: vec![NamedContext {
                name: "node".into(),
                context: Some(Context { cluster: "quorate".into(), user: Some(user), ..Default::default() }),
                ..Default::default()
            }],
            current_context: Some("node".into()),
            ..Default::default()
        }
    }

    pub async fn client(&self, address: &str) -> Result<kube::Client, JoinError> {
        let failed = |error: &dyn std::fmt::Display| JoinError::Client(error.to_string());
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(self.kubeconfig(address), &options)
            .await
            .map_err(|error| failed(&error))?;
        kube::Client::try_from(config).map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_three_parts_and_a_hash() {
        let hash = "ab".repeat(32);
        assert_eq!(Token::parse(&format!("id.secret.{}", hash.to_uppercase())).unwrap().ca_hash, hash);
        for bad in ["", "id.secret", "id.secret.zz", &format!(".s.{hash}"), &format!("a.b.c.{hash}")] {
            assert!(matches!(Token::parse(bad), Err(JoinError::Token)), "{bad}");
        }
    }
}
