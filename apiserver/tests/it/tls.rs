//! Real connections: who is let in by certificate, and what the others are told.

use std::path::Path;
use std::sync::Arc;

use quorate_apiserver::bootstrap;
use quorate_apiserver::pki::{Leaf, Pki};
use quorate_apiserver::{Config, Server};
use quorate_env::{Env, Scope};
use quorate_raft_store::{Config as StoreConfig, Store};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

/// Longer than any leaf is valid.
const AGES: jiff::SignedDuration = jiff::SignedDuration::from_hours(24 * 400);

/// A ready server on a port of its own; it reads its time from `env`, and shows a certificate that is valid today.
async fn served(dir: &Path, env: Env) -> (Pki, std::net::SocketAddr, Scope) {
    let pki = Pki::open_or_create(dir, &Env::real()).unwrap();
    let leaf = pki.server(&[], "10.96.0.1".parse().unwrap()).unwrap();
    let scope = Scope::root("test");
    let store = Store::open(StoreConfig::in_memory("m1"), env.clone(), scope.child("store")).await.unwrap();
    let config = Config { pki: Some(Arc::new(Pki::open(dir, &env).unwrap())), ..Config::default() };
    let server = Server::open(config, store, env.clone(), scope.child("api")).await.unwrap();
    bootstrap::start(&server, &scope.child("bootstrap"));
    let ready = async {
        while !server.ready() {
            env.clock.sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    env.clock.timeout(std::time::Duration::from_secs(30), ready).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = pki.server_config(&leaf).unwrap();
    scope.spawn_until_cancelled("serve", async move { server.serve(listener, tls).await });
    (pki, address, scope)
}

/// The status line's code and the body of one GET, with or without a client certificate.
async fn get(pki: &Pki, address: std::net::SocketAddr, client: Option<&Leaf>, path: &str) -> (u16, String) {
    let mut roots = RootCertStore::empty();
    roots.add(pki.cluster().certificate().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some(leaf) => {
            let certificate = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("kubernetes.default.svc").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: kubernetes\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, answer)
}

#[tokio::test]
async fn certificates_decide_who_gets_in() {
    let home = tempfile::tempdir().unwrap();
    let (pki, address, scope) = served(&home.path().join("pki"), Env::real()).await;
    let foreign = Pki::create(&home.path().join("foreign"), &Env::real()).unwrap();
    let list = "/api/v1/namespaces";
    assert_eq!(get(&pki, address, Some(&pki.admin().unwrap()), list).await.0, 200);
    assert_eq!(get(&pki, address, Some(&pki.break_glass().unwrap()), list).await.0, 200);
    let (code, body) = get(&pki, address, Some(&foreign.admin().unwrap()), list).await;
    assert_eq!(code, 401, "{body}");
    assert!(body.contains(r#""message":"Unauthorized","reason":"Unauthorized","code":401"#), "{body}");
    let (code, body) = get(&pki, address, None, list).await;
    assert_eq!(code, 403, "{body}");
    assert!(body.contains("system:anonymous"), "{body}");
    assert_eq!(get(&pki, address, None, "/version").await.0, 200);
    assert_eq!(get(&pki, address, Some(&pki.node_client("n1").unwrap()), "/api/v1/nodes").await.0, 200);
    scope.cancel();
}

#[tokio::test]
async fn an_expired_certificate_is_told_so_by_a_status() {
    let home = tempfile::tempdir().unwrap();
    let later = Env::simulated(Env::real().clock.wall().checked_add(AGES).unwrap(), 1);
    let (pki, address, scope) = served(&home.path().join("pki"), later).await;
    let (code, body) = get(&pki, address, Some(&pki.admin().unwrap()), "/api/v1/namespaces").await;
    assert_eq!(code, 401, "{body}");
    assert_eq!(get(&pki, address, None, "/version").await.0, 200);
    scope.cancel();
}
