//! The server's side of TLS: its certificate as it is at the moment, and the demand for the client's.

use std::sync::Arc;

use parking_lot::RwLock;
use quorate_env::Scope;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::config::{Leaf, ServerTls};

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

/// Takes over each new certificate until the scope ends.
pub(super) fn acceptor(tls: &ServerTls, scope: &Scope) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tls.ca_pem, "authority")? {
        roots.add(certificate)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let mut leaf = tls.leaf.clone();
    let first = certified(&leaf.borrow_and_update(), &provider)?;
    let shown = Arc::new(Shown(RwLock::new(first)));
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(shown.clone());
    // Streams take over the connection, which only version 1.1 allows.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    scope.spawn_until_cancelled("server-certificate", async move {
        while leaf.changed().await.is_ok() {
            let next = certified(&leaf.borrow_and_update(), &provider);
            match next {
                Ok(next) => *shown.0.write() = next,
                Err(error) => tracing::warn!(%error, "the node's server keeps its old certificate"),
            }
        }
    });
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The certificate that is shown.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().clone())
    }
}

fn certified(leaf: &Leaf, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
    let key = PrivateKeyDer::from_pem_slice(leaf.key_pem.as_bytes())
        .map_err(|source| TlsError::Pem { part: "key", source })?;
    let key = CertifiedKey::from_der(certificates(&leaf.cert_pem, "certificate")?, key, provider)?;
    Ok(Arc::new(key))
}

fn certificates(pem: &str, part: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| TlsError::Pem { part, source })
}
