//! The client's side of TLS towards nodes.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use super::Trust;
use crate::pki::possession::Possession;
use crate::pki::renew::Renewed;
use crate::pki::{Pki, PkiError};

/// The configurations for new connections.
#[derive(Clone, Debug)]
pub(super) struct Tls(Arc<Renewed<Configs>>);

struct Configs {
    verified: Arc<ClientConfig>,
    unverified: Arc<ClientConfig>,
}

impl Tls {
    pub(super) fn new(pki: &Arc<Pki>) -> Result<Self, PkiError> {
        Ok(Self(Arc::new(Renewed::new(pki, "the certificate shown to nodes", Configs::new)?)))
    }

    pub(super) fn config(&self, trust: Trust) -> Arc<ClientConfig> {
        let configs = self.0.get();
        Arc::clone(match trust {
            Trust::Verified => &configs.verified,
            Trust::Unverified => &configs.unverified,
        })
    }
}

impl Configs {
    fn new(pki: &Pki) -> Result<Self, PkiError> {
        let tls = |reason: String| PkiError::Tls { reason };
        let (certificate, key) = pki.kubelet_client()?.der()?;
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
}
