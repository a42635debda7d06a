//! Real connections: who is let in by certificate, and what the others are told.

use std::path::Path;
use std::sync::Arc;

use quorate_apiserver::bootstrap::{self, token::Token};
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
use tokio_rustls::client::TlsStream;

use crate::world::World;

/// Longer than any leaf is valid.
const AGES: jiff::SignedDuration = jiff::SignedDuration::from_hours(24 * 400);

/// A ready server on a port of its own; it reads its time from `env`, and shows a certificate that is valid today.
async fn served(dir: &Path, env: Env) -> (Arc<Pki>, std::net::SocketAddr, Scope, World) {
    let pki = Arc::new(Pki::open_or_create(dir, &Env::real()).unwrap());
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
    let world = World::of(server.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = pki.server_config(&[], "10.96.0.1".parse().unwrap()).unwrap();
    scope.spawn_until_cancelled("serve", async move { server.serve(listener, tls).await });
    (pki, address, scope, world)
}

/// A connection as a client makes it, with or without a certificate.
async fn connect(pki: &Pki, address: std::net::SocketAddr, client: Option<&Leaf>) -> TlsStream<TcpStream> {
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
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// The status line's code and the body of one GET, with or without a client certificate.
async fn get(pki: &Pki, address: std::net::SocketAddr, client: Option<&Leaf>, path: &str) -> (u16, String) {
    ask(pki, address, client, path, "").await
}

/// As [`get`], with further headers.
async fn ask(
    pki: &Pki,
    address: std::net::SocketAddr,
    client: Option<&Leaf>,
    path: &str,
    headers: &str,
) -> (u16, String) {
    let mut stream = connect(pki, address, client).await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: kubernetes\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, answer)
}

#[tokio::test]
async fn certificates_decide_who_gets_in() {
    let home = tempfile::tempdir().unwrap();
    let (pki, address, scope, world) = served(&home.path().join("pki"), Env::real()).await;
    let foreign = Pki::create(&home.path().join("foreign"), &Env::real()).unwrap();
    let list = "/api/v1/namespaces";
    assert_eq!(get(&pki, address, Some(&pki.admin().unwrap()), list).await.0, 200);
    assert_eq!(get(&pki, address, Some(&pki.break_glass().unwrap()), list).await.0, 200);
    let (code, body) = get(&pki, address, Some(&foreign.admin().unwrap()), list).await;
    assert_eq!(code, 401, "{body}");
    assert!(body.contains(r#""message":"Unauthorized","reason":"Unauthorized","code":401"#), "{body}");
    // One good credential is enough, whatever else is shown.
    let token = Token::generate(&Env::real());
    let secret = token.object(&Env::real(), std::time::Duration::from_secs(3600));
    world.post("/api/v1/namespaces/kube-system/secrets", &secret).await.expect(201);
    let text = token.with_ca_hash("");
    let bearer = format!("Authorization: Bearer {}\r\n", text.trim_end_matches('.'));
    let (code, body) = ask(&pki, address, Some(&foreign.admin().unwrap()), "/api", &bearer).await;
    assert_eq!(code, 200, "{body}");
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
    let (pki, address, scope, _world) = served(&home.path().join("pki"), later).await;
    let (code, body) = get(&pki, address, Some(&pki.admin().unwrap()), "/api/v1/namespaces").await;
    assert_eq!(code, 401, "{body}");
    assert_eq!(get(&pki, address, None, "/version").await.0, 200);
    scope.cancel();
}

/// Somebody who asks and then does not read keeps a connection open, but not beyond the server's end.
#[tokio::test]
async fn whoever_does_not_read_is_left_behind_at_the_end() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::real();
    let pki = Arc::new(Pki::open_or_create(&home.path().join("pki"), &env).unwrap());
    let scope = Scope::root("test");
    let store = Store::open(StoreConfig::in_memory("m1"), env.clone(), scope.child("store")).await.unwrap();
    let config = Config { pki: Some(pki.clone()), ..Config::default() };
    let api = scope.child("api");
    let server = Server::open(config, store, env.clone(), api.clone()).await.unwrap();
    let world = World::of(server.clone());
    world.namespace("a").await;
    for index in 0..16 {
        world.config_map(&format!("c{index}"), &serde_json::json!({"k": "x".repeat(1_000_000)})).await.expect(201);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = pki.server_config(&[], "10.96.0.1".parse().unwrap()).unwrap();
    let serving = tokio::join!(
        async {
            server.serve(listener, tls).await;
            api.close(std::time::Duration::from_secs(5)).await
        },
        async {
            let mut stream = connect(&pki, address, Some(&pki.break_glass().unwrap())).await;
            let request = "GET /api/v1/namespaces/a/configmaps HTTP/1.1\r\nHost: kubernetes\r\n\r\n";
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut first = [0; 12];
            stream.read_exact(&mut first).await.unwrap();
            assert_eq!(&first, b"HTTP/1.1 200");
            server.close();
            stream
        }
    );
    assert_eq!(serving.0, Vec::<String>::new(), "all tasks ended");
    scope.cancel();
}
