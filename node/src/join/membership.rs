//! What a node has once it has joined: the file it is kept in, and the values others get from it.

use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;
use jiff::Timestamp;
use kube::client::Body;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use parking_lot::{Mutex, RwLock};
use quorate_env::{Env, Scope};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{JoinError, Joining, renewal};
use crate::balancer::Probe;
use crate::config::{ClusterNetwork, Leaf, ServerTls};

pub(super) const FILE: &str = "membership.json";
/// Of its life, in thirds, that a certificate is used before a new one is got.
const USED_THIRDS: i64 = 2;

/// The file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    pub(super) node: String,
    /// The addresses that the serving certificate was asked for.
    #[serde(default)]
    pub(super) addresses: Vec<IpAddr>,
    /// The public part of the token that the node joined with last.
    #[serde(default)]
    pub(super) token: Option<String>,
    pub(super) ca: String,
    pub(super) client_cert: String,
    pub(super) client_key: String,
    pub(super) serving_cert: String,
    pub(super) serving_key: String,
    /// `host:port` of the members' API servers.
    pub(super) members: Vec<String>,
    pub(super) pod_cidr: Option<IpNet>,
    pub(super) cluster_dns: IpAddr,
    pub(super) cluster_domain: String,
    pub(super) service_cidr: IpNet,
}

/// What is to be done about a record's certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Good,
    /// They still serve, but new ones should be got now.
    Due,
    Expired(Timestamp),
}

impl Record {
    /// Whether the record is of the cluster whose authority has this digest.
    pub(super) fn is_of(&self, ca_hash: &str) -> bool {
        let ca = CertificateDer::from_pem_slice(self.ca.as_bytes());
        ca.is_ok_and(|ca| crate::machine::hex(&Sha256::digest(ca.as_ref())) == ca_hash)
    }

    pub(super) fn standing(&self, addresses: &[IpAddr], now: Timestamp) -> Standing {
        let (Some(client), Some(serving)) = (Validity::of(&self.client_cert), Validity::of(&self.serving_cert)) else {
            // What cannot be read is as good as expired.
            return Standing::Expired(now);
        };
        if client.until <= now {
            Standing::Expired(client.until)
        } else if client.due().min(serving.due()) <= now || self.addresses != addresses {
            Standing::Due
        } else {
            Standing::Good
        }
    }

    /// When the first of the certificates wants to be renewed.
    pub(super) fn due(&self) -> Option<Timestamp> {
        Some(Validity::of(&self.client_cert)?.due().min(Validity::of(&self.serving_cert)?.due()))
    }

    fn leaf(&self) -> Leaf {
        Leaf { cert_pem: self.serving_cert.clone(), key_pem: self.serving_key.clone() }
    }

    /// Trust in the kept authority only.
    fn roots(&self) -> Result<RootCertStore, JoinError> {
        let failed = |error: &dyn std::fmt::Display| JoinError::Client(error.to_string());
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.ca.as_bytes()).map_err(|error| failed(&error))?;
        roots.add(ca).map_err(|error| failed(&error))?;
        Ok(roots)
    }

    /// To speak with members as this node.
    pub(super) fn client_config(&self) -> Result<ClientConfig, JoinError> {
        let failed = |error: &dyn std::fmt::Display| JoinError::Client(error.to_string());
        let certificates = CertificateDer::pem_slice_iter(self.client_cert.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| failed(&error))?;
        let key = PrivateKeyDer::from_pem_slice(self.client_key.as_bytes()).map_err(|error| failed(&error))?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_root_certificates(self.roots()?)
            .with_client_auth_cert(certificates, key)
            .map_err(|error| failed(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// To look whether members are well, as nobody in particular.
    fn probe_config(&self) -> Result<ClientConfig, JoinError> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| JoinError::Client(error.to_string()))?
            .with_root_certificates(self.roots()?)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// The node's kubeconfig for the API at `address`, which is the loopback balancer's.
    fn kubeconfig(&self, address: &str) -> Kubeconfig {
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

    async fn client(&self, address: &str) -> Result<kube::Client, JoinError> {
        let failed = |error: &dyn std::fmt::Display| JoinError::Client(error.to_string());
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(self.kubeconfig(address), &options)
            .await
            .map_err(|error| failed(&error))?;
        kube::Client::try_from(config).map_err(|error| failed(&error))
    }
}

struct Validity {
    since: Timestamp,
    until: Timestamp,
}

impl Validity {
    fn of(pem: &str) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        let (_rest, certificate) = X509Certificate::from_der(der.as_ref()).ok()?;
        let validity = certificate.validity();
        let time = |seconds: i64| Timestamp::from_second(seconds).ok();
        Some(Self { since: time(validity.not_before.timestamp())?, until: time(validity.not_after.timestamp())? })
    }

    fn due(&self) -> Timestamp {
        let life = self.until.as_second().saturating_sub(self.since.as_second());
        let due = self.since.as_second().saturating_add(life / 3 * USED_THIRDS);
        Timestamp::from_second(due).unwrap_or(self.until)
    }
}

pub(super) fn load(path: &Path) -> Result<Option<Record>, JoinError> {
    match std::fs::read(path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|_| JoinError::Corrupt(path.display().to_string()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(JoinError::File { path: path.display().to_string(), source }),
    }
}

/// Readable by the owner only, and whole or not there.
pub(super) fn store(path: &Path, record: &Record) -> Result<(), JoinError> {
    let failed = |source| JoinError::File { path: path.display().to_string(), source };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    let bytes = serde_json::to_vec_pretty(record).map_err(|error| failed(error.into()))?;
    let next = path.with_extension("next");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next).map_err(failed)?;
    std::io::Write::write_all(&mut file, &bytes).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    std::fs::rename(&next, path).map_err(failed)
}

/// A client that was handed out: what it shows to the API is exchanged below its users.
struct HandedOut {
    address: String,
    client: Arc<RwLock<kube::Client>>,
}

struct Inner {
    joining: Joining,
    record: Mutex<Record>,
    leaf: watch::Sender<Leaf>,
    clients: Mutex<Vec<HandedOut>>,
}

/// A node's place in its cluster. Clones are the same membership.
#[derive(Clone)]
pub struct Membership(Arc<Inner>);

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Membership").field("node", &self.0.joining.node).finish_non_exhaustive()
    }
}

impl Membership {
    pub(super) fn new(joining: Joining, record: Record) -> Result<Self, JoinError> {
        // Whoever has a membership can speak with the API.
        record.client_config()?;
        let leaf = watch::Sender::new(record.leaf());
        Ok(Self(Arc::new(Inner { joining, record: Mutex::new(record), leaf, clients: Mutex::default() })))
    }

    pub(super) fn joining(&self) -> &Joining {
        &self.0.joining
    }

    pub(super) fn record(&self) -> Record {
        self.0.record.lock().clone()
    }

    pub fn network(&self) -> ClusterNetwork {
        let record = self.0.record.lock();
        ClusterNetwork {
            pod_cidr: record.pod_cidr,
            service_cidr: record.service_cidr,
            dns: record.cluster_dns,
            domain: record.cluster_domain.clone(),
        }
    }

    pub fn server_tls(&self) -> ServerTls {
        ServerTls { ca_pem: self.0.record.lock().ca.clone(), leaf: self.0.leaf.subscribe() }
    }

    /// How the node's balancer finds out whether a member is of use.
    pub fn probe(&self) -> Result<Probe, JoinError> {
        Ok(Probe::Ready(Arc::new(self.0.record.lock().probe_config()?)))
    }

    /// A client for the API at `address`. It goes on with each renewed certificate.
    pub async fn client(&self, address: &str) -> Result<kube::Client, JoinError> {
        let first = self.record().client(address).await?;
        let namespace = first.default_namespace().to_owned();
        let client = Arc::new(RwLock::new(first));
        self.0.clients.lock().push(HandedOut { address: address.to_owned(), client: client.clone() });
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let current = client.read().clone();
            async move { current.send(request).await }
        });
        Ok(kube::Client::new(service, namespace))
    }

    /// Get new certificates whenever the old ones have used up most of their life, until the scope ends.
    pub fn keep_certified(&self, env: &Env, scope: &Scope) {
        scope.spawn_until_cancelled("certificates", renewal::run(self.clone(), env.clone()));
    }

    /// Put a new record in the old one's place, for everybody.
    pub(super) async fn replace(&self, record: Record) -> Result<(), JoinError> {
        store(&self.0.joining.path(), &record)?;
        let addresses: Vec<(String, Arc<RwLock<kube::Client>>)> =
            self.0.clients.lock().iter().map(|handed| (handed.address.clone(), handed.client.clone())).collect();
        for (address, client) in addresses {
            // A client of its own: no connection or session of the old certificate is used again.
            let renewed = record.client(&address).await?;
            *client.write() = renewed;
        }
        self.0.leaf.send_replace(record.leaf());
        *self.0.record.lock() = record;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(since: (i32, u8, u8), until: (i32, u8, u8)) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["n1".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(since.0, since.1, since.2);
        parameters.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
        parameters.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn certificates_are_renewed_when_a_third_of_their_life_is_left() {
        let year = certificate((2026, 1, 1), (2026, 12, 31));
        let record = Record {
            node: "n1".into(),
            addresses: vec!["10.0.0.1".parse().unwrap()],
            token: None,
            ca: year.clone(),
            client_cert: year.clone(),
            client_key: String::new(),
            serving_cert: year,
            serving_key: String::new(),
            members: Vec::new(),
            pod_cidr: None,
            cluster_dns: "10.96.0.10".parse().unwrap(),
            cluster_domain: "cluster.local".into(),
            service_cidr: "10.96.0.0/16".parse().unwrap(),
        };
        let at = |time: &str| record.standing(&record.addresses, time.parse().unwrap());
        assert_eq!(at("2026-08-31T00:00:00Z"), Standing::Good);
        assert_eq!(at("2026-09-01T00:00:00Z"), Standing::Due);
        assert_eq!(at("2026-12-30T23:59:59Z"), Standing::Due);
        assert_eq!(at("2026-12-31T00:00:00Z"), Standing::Expired("2026-12-31T00:00:00Z".parse().unwrap()));
        let moved = ["10.0.0.2".parse().unwrap()];
        assert_eq!(record.standing(&moved, "2026-02-01T00:00:00Z".parse().unwrap()), Standing::Due);
        let short = Record { serving_cert: certificate((2026, 1, 1), (2026, 1, 31)), ..record.clone() };
        assert_eq!(short.standing(&record.addresses, "2026-01-22T00:00:00Z".parse().unwrap()), Standing::Due);
    }
}
