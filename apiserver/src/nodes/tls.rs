//! The client's side of TLS towards nodes.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::Trust;
use crate::pki::possession::Possession;
use crate::pki::{Pki, PkiError};

/// The configurations, made once: the certificate shown is as old as this process.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    verified: Arc<ClientConfig>,
    unverified: Arc<ClientConfig>,
}

impl Tls {
    pub(super) fn new(pki: &Pki) -> Result<Self, PkiError> {
        let tls = |reason: String| PkiError::Tls { reason };
        let leaf = pki.kubelet_client()?;
        let certificate =
            CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).map_err(|error| tls(format!("{error:?}")))?;
        let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).map_err(|error| tls(format!("{error:?}")))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // For callers who asked for it.
        let anybody = Arc::new(Possession::new(&provider, Vec::new()));
        let mut roots = RootCertStore::empty();
        roots.add(pki.cluster().certificate().clone()).map_err(|error| tls(error.to_string()))?;
        let mut verified = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| tls(error.to_string()))?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .map_err(|error| tls(error.to_string()))?;
        // Streams take over the connection, which only version 1.1 allows.
        verified.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut unverified = verified.clone();
        unverified.dangerous().set_certificate_verifier(anybody);
        Ok(Self { verified: Arc::new(verified), unverified: Arc::new(unverified) })
    }

    pub(super) fn config(&self, trust: Trust) -> Arc<ClientConfig> {
        Arc::clone(match trust {
            Trust::Verified => &self.verified,
            Trust::Unverified => &self.unverified,
        })
    }
}
