//! A member as joining machines see it: an authority, and HTTPS with the few paths that they ask for.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use quorate_env::{Env, Scope};
use rcgen::{BasicConstraints, CertificateParams, CertificateSigningRequestParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// By what right somebody asked for certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Token(String),
    Certificate,
}

/// How long before now a certificate that is issued became valid, and how long from now it stays so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    pub(crate) behind: Duration,
    pub(crate) ahead: Duration,
}

impl Life {
    pub(crate) const NEW: Self = Self { behind: Duration::ZERO, ahead: YEAR };
    /// More than two thirds are over.
    pub(crate) const OLD: Self = Self { behind: YEAR, ahead: Duration::from_secs(24 * 3600) };
}

struct State {
    issuer: Issuer<'static, KeyPair>,
    ca_pem: String,
    life: Mutex<Life>,
    asked: Mutex<Vec<Asked>>,
    ready: AtomicBool,
    address: SocketAddr,
}

pub(crate) struct FakeMember {
    state: Arc<State>,
    scope: Scope,
}

fn now() -> Duration {
    Duration::from_secs(u64::try_from(Env::real().clock.wall().as_second()).unwrap())
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

impl FakeMember {
    pub(crate) async fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_pem = parameters.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(parameters, key);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = acceptor(&issuer, &ca_pem);
        let state = State {
            issuer,
            ca_pem,
            life: Mutex::new(Life::NEW),
            asked: Mutex::default(),
            ready: AtomicBool::new(true),
            address,
        };
        let (state, scope) = (Arc::new(state), Scope::root("member"));
        let (shared, connections) = (state.clone(), scope.clone());
        scope.spawn_until_cancelled("accept", async move {
            loop {
                let (stream, _) = listener.accept().await.expect("connections are accepted");
                let (acceptor, state) = (acceptor.clone(), shared.clone());
                connections.spawn_until_cancelled("connection", async move {
                    // Clients that do not like the certificate leave.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let shown = stream.get_ref().1.peer_certificates().map(|chain| chain[0].to_vec());
                    let service = hyper::service::service_fn(move |request| {
                        let (state, shown) = (state.clone(), shown.clone());
                        async move { Ok::<_, Infallible>(answer(&state, shown.as_deref(), request).await) }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _left = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { state, scope }
    }

    pub(crate) fn address(&self) -> String {
        self.state.address.to_string()
    }

    pub(crate) fn token(&self, id: &str) -> String {
        let digest = Sha256::digest(der(&self.state.ca_pem).as_ref());
        let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{id}.secret.{hash}")
    }

    /// Of the certificates that are issued from now on.
    pub(crate) fn set_life(&self, life: Life) {
        *self.state.life.lock() = life;
    }

    pub(crate) fn set_ready(&self, ready: bool) {
        self.state.ready.store(ready, Ordering::SeqCst);
    }

    /// Who asked for certificates since the last call.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.asked.lock())
    }

    /// For clients that trust this member.
    pub(crate) fn trust(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(der(&self.state.ca_pem)).unwrap();
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    pub(crate) async fn kill(self) -> SocketAddr {
        assert_eq!(self.scope.close(PATIENCE).await, Vec::<String>::new());
        self.state.address
    }
}

impl Drop for FakeMember {
    fn drop(&mut self) {
        self.scope.cancel();
    }
}

fn acceptor(issuer: &Issuer<'_, KeyPair>, ca_pem: &str) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(der(ca_pem)).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
        .with_single_cert(
            vec![leaf.der().clone(), der(ca_pem)],
            PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn answer(state: &State, shown: Option<&[u8]>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let say = |code: u16, body: String| Response::builder().status(code).body(Full::from(body)).unwrap();
    match (&parts.method, parts.uri.path()) {
        (&Method::GET, "/readyz") if state.ready.load(Ordering::SeqCst) => say(200, "ok".into()),
        (&Method::GET, "/readyz") => say(500, "[-]quorum failed".into()),
        // What certificate the client shows.
        (&Method::GET, "/whoami") => say(200, format!("{:?}", shown.map(Sha256::digest))),
        (&Method::POST, "/quorate/v1/join") => {
            let bearer =
                parts.headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
            let asked = match (bearer, shown) {
                (Some(token), _) => Asked::Token(token.to_owned()),
                (None, Some(_)) => Asked::Certificate,
                (None, None) => return say(401, json!({"message": "Unauthorized"}).to_string()),
            };
            state.asked.lock().push(asked);
            let request = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
            say(200, join(state, &request).to_string())
        }
        _ => say(404, json!({"message": "no such path"}).to_string()),
    }
}

fn join(state: &State, request: &Value) -> Value {
    let life = *state.life.lock();
    let certificate = |request: &Value| {
        let mut request = CertificateSigningRequestParams::from_pem(request.as_str().unwrap()).unwrap();
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        request.params.not_before = epoch + now().saturating_sub(life.behind);
        request.params.not_after = epoch + (now() + life.ahead);
        request.signed_by(&state.issuer).unwrap().pem()
    };
    json!({
        "ca": state.ca_pem,
        "clientCert": certificate(&request["clientCsr"]),
        "servingCert": certificate(&request["servingCsr"]),
        "members": [state.address.to_string()],
        "podCidr": "10.244.3.0/24",
        "clusterDns": "10.96.0.10",
        "clusterDomain": "cluster.local",
        "serviceCidr": "10.96.0.0/16",
    })
}
