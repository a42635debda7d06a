//! Logs and upgraded streams, from a client on the network through the API server to a node's server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use quorate_apiserver::body::Body;
use quorate_apiserver::pki::{Leaf, Pki};
use quorate_apiserver::{Config, Identity, Server, bootstrap};
use quorate_env::{Env, Scope};
use quorate_raft_store::{Config as StoreConfig, Store};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::world::World;

/// Nothing here takes longer on a machine that is awake.
const LIMIT: Duration = Duration::from_secs(60);
const PODS: &str = "/api/v1/namespaces/a/pods";

/// What the node's server saw and is told.
struct Node {
    env: Env,
    seen: mpsc::Sender<String>,
    more: Notify,
    left: Notify,
}

struct Cluster {
    env: Env,
    world: World,
    pki: Pki,
    api: SocketAddr,
    node: Arc<Node>,
    seen: mpsc::Receiver<String>,
    scope: Scope,
    _home: tempfile::TempDir,
}

fn pair(leaf: &Leaf) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap();
    (vec![certificate], PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap())
}

fn roots(pki: &Pki) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(pki.cluster().certificate().clone()).unwrap();
    roots
}

impl Node {
    /// Listens as a node does: only clients with a certificate of the cluster get in.
    async fn start(self: Arc<Self>, pki: &Pki, scope: &Scope) -> SocketAddr {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pki)), provider.clone());
        let (chain, key) = pair(&pki.node_server("n1", &["127.0.0.1".to_owned()]).unwrap());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = builder.with_client_cert_verifier(verifier.build().unwrap()).with_single_cert(chain, key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = scope.clone();
        scope.spawn_until_cancelled("node", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, node) = (acceptor.clone(), self.clone());
                let streams = connections.clone();
                connections.spawn_until_cancelled("node-connection", async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = hyper::service::service_fn(move |request| {
                        let answer = node.clone().answer(request, streams.clone());
                        async move { Ok::<_, Infallible>(answer.await) }
                    });
                    let builder = hyper::server::conn::http1::Builder::new();
                    drop(builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await);
                });
            }
        });
        address
    }

    async fn answer(self: Arc<Self>, mut request: Request<Incoming>, scope: Scope) -> Response<Body> {
        let protocol = request.headers().get("x-stream-protocol-version").cloned();
        let has_secret = request.headers().contains_key("authorization");
        self.seen.send(format!("{} {} {has_secret}", request.method(), request.uri())).await.unwrap();
        let path = request.uri().path().to_owned();
        if path == "/containerLogs/a/web/main" {
            let (out, body) = Body::channel();
            scope.clone().spawn_until_cancelled("log", async move {
                out.send("first\n").await.unwrap();
                tokio::select! {
                    () = self.more.notified() => {
                        drop(out.send("second\n").await);
                        out.end();
                    }
                    () = out.closed() => self.left.notify_one(),
                }
            });
            return Response::new(body);
        }
        if path.starts_with("/exec/") {
            let upgrade = hyper::upgrade::on(&mut request);
            scope.spawn_until_cancelled("echo", async move {
                let (mut from, mut to) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
                to.write_all(b"hello ").await.unwrap();
                drop(tokio::io::copy(&mut from, &mut to).await);
                self.left.notify_one();
            });
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert("connection", HeaderValue::from_static("Upgrade"));
            response.headers_mut().insert("upgrade", HeaderValue::from_static("SPDY/3.1"));
            if let Some(protocol) = protocol {
                response.headers_mut().insert("x-stream-protocol-version", protocol);
            }
            return response;
        }
        let mut response = Response::new(Body::full("container \"side\" in pod \"web\" is waiting to start"));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        response
    }

    async fn client_left(&self) {
        self.env.clock.timeout(LIMIT, self.left.notified()).await.unwrap();
    }
}

impl Cluster {
    async fn start() -> Self {
        let env = Env::real();
        let home = tempfile::tempdir().unwrap();
        let pki = Pki::create(&home.path().join("pki"), &env).unwrap();
        let scope = Scope::root("test");
        let (sender, seen) = mpsc::channel(16);
        let node = Node { env: env.clone(), seen: sender, more: Notify::new(), left: Notify::new() };
        let node = Arc::new(node);
        let kubelet = node.clone().start(&pki, &scope).await;
        let store = Store::open(StoreConfig::in_memory("m1"), env.clone(), scope.child("store")).await.unwrap();
        let shared = Arc::new(Pki::open(&home.path().join("pki"), &env).unwrap());
        let config = Config { pki: Some(shared.clone()), ..Config::default() };
        let server = Server::open(config, store, env.clone(), scope.child("api")).await.unwrap();
        bootstrap::start(&server, &scope.child("bootstrap"));
        let ready = async {
            while !server.ready() {
                env.clock.sleep(Duration::from_millis(5)).await;
            }
        };
        env.clock.timeout(LIMIT, ready).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = listener.local_addr().unwrap();
        let tls = shared.server_config(&[], "10.96.0.1".parse().unwrap()).unwrap();
        let served = server.clone();
        scope.spawn_until_cancelled("serve", async move { served.serve(listener, tls).await });
        let cluster = Self { env, world: World::of(server), pki, api, node, seen, scope, _home: home };
        cluster.fill(kubelet).await;
        cluster
    }

    /// The pods `web` on the node, `lost` on a node that does not exist, and `free` on none.
    async fn fill(&self, kubelet: SocketAddr) {
        self.world.namespace("a").await;
        self.world.default_account("a").await;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
        self.world.post("/api/v1/nodes", &node).await.expect(201);
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": kubelet.ip().to_string()}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port()}},
        }});
        self.world.merge("/api/v1/nodes/n1/status", &status).await.expect(200);
        for (name, node) in [("web", json!("n1")), ("lost", json!("n2")), ("free", Value::Null)] {
            let containers = json!([{"name": "main", "image": "i"}, {"name": "side", "image": "i"}]);
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"nodeName": node, "containers": containers}});
            self.world.post(PODS, &pod).await.expect(201);
        }
    }

    /// A connection to the API server as the super-administrator.
    async fn connect(&self) -> Client {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (chain, key) = pair(&self.pki.break_glass().unwrap());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = builder.with_root_certificates(roots(&self.pki)).with_client_auth_cert(chain, key).unwrap();
        let stream = TcpStream::connect(self.api).await.unwrap();
        let name = ServerName::try_from("kubernetes").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        Client { env: self.env.clone(), stream }
    }

    async fn seen(&mut self) -> String {
        self.env.clock.timeout(LIMIT, self.seen.recv()).await.unwrap().unwrap()
    }
}

struct Client {
    env: Env,
    stream: tokio_rustls::client::TlsStream<TcpStream>,
}

impl Client {
    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until what has been read since the last call ends with `end`.
    async fn read_until(&mut self, end: &str) -> String {
        let mut text = Vec::new();
        let reading = async {
            while !text.ends_with(end.as_bytes()) {
                text.push(self.stream.read_u8().await.unwrap());
            }
        };
        let outcome = self.env.clock.timeout(LIMIT, reading).await;
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(outcome.is_ok(), "waiting for {end:?} after {text:?}");
        text
    }

    async fn read_to_end(mut self) {
        let mut rest = Vec::new();
        let reading = self.stream.read_to_end(&mut rest);
        drop(self.env.clock.timeout(LIMIT, reading).await.unwrap());
    }
}

#[tokio::test]
async fn logs_stream_while_they_are_written() {
    let mut cluster = Cluster::start().await;
    let path = format!("{PODS}/web/log?container=main&follow=true&tailLines=3");
    let response = cluster.world.open(&path, &[("authorization", "Bearer secret")]).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &HeaderValue::from_static("text/plain"))
    );
    assert_eq!(cluster.seen().await, "GET /containerLogs/a/web/main?follow=true&tailLines=3 false");
    let mut body = response.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first\n");
    cluster.node.more.notify_one();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "second\n");
    assert!(body.frame().await.is_none());

    let mut client = cluster.connect().await;
    client.send(&format!("GET {PODS}/web/log?container=main&follow HTTP/1.1\r\nHost: k\r\n\r\n")).await;
    client.read_until("first\n\r\n").await;
    drop(client);
    cluster.node.client_left().await;
    cluster.scope.cancel();
}

#[tokio::test]
async fn an_upgrade_joins_client_and_node() {
    let mut cluster = Cluster::start().await;
    let mut client = cluster.connect().await;
    client
        .send(&format!(
            "POST {PODS}/web/exec?container=main&command=sh&command=-c&command=a%20b&stdin=true&stdout=true HTTP/1.1\r\n\
             Host: k\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\
             Content-Length: 0\r\n\r\n"
        ))
        .await;
    let head = client.read_until("\r\n\r\n").await.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("upgrade: spdy/3.1\r\n"), "{head}");
    assert!(head.contains("x-stream-protocol-version: v4.channel.k8s.io\r\n"), "{head}");
    let path = "/exec/a/web/main?input=1&output=1&command=sh&command=-c&command=a%20b";
    assert_eq!(cluster.seen().await, format!("POST {path} false"));
    client.send("world").await;
    client.read_until("hello world").await;
    drop(client);
    cluster.node.client_left().await;

    // The API server's shutdown ends streams.
    let mut client = cluster.connect().await;
    client
        .send(&format!(
            "GET {PODS}/web/exec?container=main&command=sh&stdout=true HTTP/1.1\r\nHost: k\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n"
        ))
        .await;
    client.read_until("hello ").await;
    cluster.world.server.close();
    client.read_to_end().await;
    cluster.node.client_left().await;
    cluster.scope.cancel();
}

#[tokio::test]
async fn refusals_are_statuses() {
    let cluster = Cluster::start().await;
    let world = &cluster.world;
    world.get(&format!("{PODS}/free/log?container=main")).await.expect(204);
    for (path, code, words) in [
        ("web/log", 400, "a container name must be specified for pod web, choose one of: [main side]"),
        ("web/log?container=x", 400, "container x is not valid for pod web"),
        ("web/log?container=side", 400, "container \"side\" in pod \"web\" is waiting to start"),
        ("none/log", 404, "pods \"none\" not found"),
        ("lost/log?container=main", 404, "nodes \"n2\" not found"),
        ("web/exec?container=main&command=ls&stdout=1", 400, "Upgrade request required"),
    ] {
        let answer = world.get(&format!("{PODS}/{path}")).await.expect(code);
        assert_eq!(answer.message(), words, "{path}");
    }
    for (pod, code, words) in
        [("free", 400, "pod free does not have a host assigned"), ("lost", 404, "nodes \\\"n2\\\" not found")]
    {
        let mut client = cluster.connect().await;
        let path = format!("{PODS}/{pod}/attach?container=main&stdout=1");
        client
            .send(&format!("POST {path} HTTP/1.1\r\nHost: k\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"))
            .await;
        let answer = client.read_until("}").await + &client.read_until(&format!("\"code\":{code}}}")).await;
        assert!(answer.contains(words), "{answer}");
    }
    let mut client = cluster.connect().await;
    client
        .send(&format!(
            "GET {PODS}/web/exec?container=main&command=sh&stdout=1 HTTP/1.1\r\nHost: k\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
        ))
        .await;
    let answer = client.read_until("\"code\":400}").await;
    assert!(answer.contains("none of the offered WebSocket subprotocols is supported: v5.channel.k8s.io"), "{answer}");
    let viewer = Identity::new("ann", &[]).authenticated();
    world.by(viewer, Method::GET, &format!("{PODS}/web/log"), &Value::Null).await.expect(403);
    cluster.scope.cancel();
}
