//! The server's side of TLS: its certificate, and the demand for the client's.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::config::ServerTls;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the node's {part} cannot be read")]
    Pem {
        part: &'static str,
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    #[error("the node's certificate cannot be used")]
    Certificate(#[from] rustls::Error),
    #[error("the cluster's authority cannot be used")]
    Authority(#[from] rustls::server::VerifierBuilderError),
}

pub(super) fn acceptor(tls: &ServerTls) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tls.ca_pem, "authority")? {
        roots.add(certificate)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let key = PrivateKeyDer::from_pem_slice(tls.key_pem.as_bytes())
        .map_err(|source| TlsError::Pem { part: "key", source })?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&tls.cert_pem, "certificate")?, key)?;
    // Streams take over the connection, which only version 1.1 allows.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(pem: &str, part: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| TlsError::Pem { part, source })
}
