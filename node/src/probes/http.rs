//! One HTTP GET to a container: no connection is kept, no certificate is checked (the address is the identity).

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// How the agent names itself to containers.
const USER_AGENT: &str = "kube-probe/1.37";

#[derive(Clone, Debug)]
pub struct Request {
    pub https: bool,
    pub host: String,
    pub port: u16,
    pub path: String,
    pub headers: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub status: u16,
}

#[derive(Debug, thiserror::Error)]
pub enum GetError {
    #[error("dial tcp: {0}")]
    Connect(#[from] std::io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("{0}")]
    Request(#[from] ::http::Error),
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    #[error("\"{0}\" is not a name for TLS")]
    Name(String),
}

impl Request {
    pub fn url(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}:{}{}", self.host, self.port, self.path)
    }
}

pub async fn get(request: &Request) -> Result<Answer, GetError> {
    let stream = TcpStream::connect((request.host.as_str(), request.port)).await?;
    if !request.https {
        return exchange(request, stream).await;
    }
    let name = ServerName::try_from(request.host.clone()).map_err(|_| GetError::Name(request.host.clone()))?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(unverified()?));
    exchange(request, connector.connect(name, stream).await?).await
}

async fn exchange<S>(request: &Request, stream: S) -> Result<Answer, GetError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut builder = ::http::Request::get(&request.path);
    let mut named_host = false;
    for (name, value) in &request.headers {
        named_host |= name.eq_ignore_ascii_case("host");
        builder = builder.header(name, value);
    }
    if !named_host {
        builder = builder.header(::http::header::HOST, format!("{}:{}", request.host, request.port));
    }
    let message = builder
        .header(::http::header::USER_AGENT, USER_AGENT)
        .header(::http::header::ACCEPT, "*/*")
        .header(::http::header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())?;
    // The connection is driven here, not by a task of its own, so that a timeout ends all of it.
    let (mut answer, mut connection) = (std::pin::pin!(sender.send_request(message)), std::pin::pin!(connection));
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = &mut connection => {
            ended?;
            // It may have ended by delivering the whole answer.
            answer.await
        }
    };
    Ok(Answer { status: answer?.status().as_u16() })
}

fn unverified() -> Result<ClientConfig, GetError> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    Ok(config)
}

#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
