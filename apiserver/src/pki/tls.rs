//! The API's TLS: clients may show a certificate, and are told what is wrong with it by a 401.

use std::sync::Arc;

use rustls::{ClientConfig, DistinguishedName, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::possession::Possession;
use super::{Leaf, Pki, PkiError};

impl Pki {
    /// The listener's configuration, for HTTP/2 and HTTP/1.1.
    pub fn server_config(&self, leaf: &Leaf) -> Result<ServerConfig, PkiError> {
        let tls = |error: &dyn std::fmt::Display| PkiError::Tls { reason: error.to_string() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (_rest, root) =
            x509_parser::parse_x509_certificate(self.cluster().certificate()).map_err(|error| tls(&error))?;
        let issuer = DistinguishedName::from(root.subject().as_raw().to_vec());
        // Who issued a client's certificate is the authenticator's question: an expired or foreign one then gets a
        // readable answer, not a broken handshake.
        let verifier = Arc::new(Possession::new(&provider, vec![issuer]));
        let certificate = CertificateDer::from_pem_slice(leaf.certificate.as_bytes())
            .map_err(|error| PkiError::Tls { reason: format!("{error:?}") })?;
        let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes())
            .map_err(|error| PkiError::Tls { reason: format!("{error:?}") })?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| tls(&error))?
            .with_client_cert_verifier(verifier)
            // The authority comes along, so that a machine that joins can recognise it by its digest.
            .with_single_cert(vec![certificate, self.cluster().certificate().clone().into_owned()], key)
            .map_err(|error| tls(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// For looking whether a member is well, by somebody who has no authority's certificate at hand: nothing secret is sent,
/// and nothing but a "ready" believed.
pub fn unverified_client() -> Result<ClientConfig, PkiError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Possession::new(&provider, Vec::new()));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| PkiError::Tls { reason: error.to_string() })?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
