//! The node's server as its clients see it: an authority, certificates, requests, one upgraded stream.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use quorate_node::config::{Leaf, ServerTls};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// An authority with the node's certificate, and a client's.
pub(crate) struct Certificates {
    pub tls: ServerTls,
    client: (String, String),
}

fn leaf(issuer: &Issuer<'_, KeyPair>, names: Vec<String>, group: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(names).unwrap();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, "someone");
    parameters.distinguished_name.push(DnType::OrganizationName, group);
    let certificate = parameters.signed_by(&key, issuer).unwrap();
    (certificate.pem(), key.serialize_pem())
}

impl Certificates {
    pub(crate) fn new(address: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_pem = parameters.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(parameters, key);
        let (cert_pem, key_pem) = leaf(&issuer, vec![address.to_owned()], "system:nodes");
        let client = leaf(&issuer, Vec::new(), "system:masters");
        Self { tls: ServerTls::fixed(ca_pem, Leaf { cert_pem, key_pem }), client }
    }

    async fn connect(&self, address: SocketAddr) -> tokio_rustls::client::TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.tls.ca_pem.as_bytes()).unwrap()).unwrap();
        let certificate = CertificateDer::from_pem_slice(self.client.0.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.client.1.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect(ServerName::IpAddress(address.ip().into()), stream).await.unwrap()
    }

    pub(crate) async fn get(&self, address: SocketAddr, path: &str) -> (u16, String) {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(self.connect(address).await)).await.unwrap();
        let request = http::Request::get(path).header("host", "node").body(Empty::<Bytes>::new()).unwrap();
        let exchange = async {
            let answer = sender.send_request(request).await.unwrap();
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            drop(sender);
            (status, String::from_utf8_lossy(&body).into_owned())
        };
        let (answer, ended) = tokio::join!(exchange, connection);
        ended.unwrap();
        answer
    }

    /// All that comes over a WebSocket until the other side closes it, framing included.
    pub(crate) async fn websocket(&self, address: SocketAddr, path: &str) -> String {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(self.connect(address).await)).await.unwrap();
        let request = http::Request::get(path)
            .header("host", "node")
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("sec-websocket-protocol", "v4.channel.k8s.io")
            .body(Empty::<Bytes>::new())
            .unwrap();
        let exchange = async {
            let answer = sender.send_request(request).await.unwrap();
            assert_eq!(answer.status().as_u16(), 101);
            let mut stream = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
            let mut bytes = Vec::new();
            // The other side may end the connection without the ceremony of TLS.
            let _ended = stream.read_to_end(&mut bytes).await;
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (text, _connection) = tokio::join!(exchange, connection.with_upgrades());
        text
    }
}
