//! The API's TLS: clients may show a certificate, and are told what is wrong with it by a 401.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DistinguishedName, ServerConfig};

use super::possession::Possession;
use super::renew::Renewed;
use super::{Leaf, Pki, PkiError};

impl Pki {
    /// The listener's configuration, for HTTP/2 and HTTP/1.1, with a serving certificate for the member's `addresses`
    /// (see [`Pki::server`]) that is renewed while the process runs.
    pub fn server_config(self: &Arc<Self>, addresses: &[String], service_ip: IpAddr) -> Result<ServerConfig, PkiError> {
        let tls = |error: &dyn std::fmt::Display| PkiError::Tls { reason: error.to_string() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (_rest, root) =
            x509_parser::parse_x509_certificate(self.cluster().certificate()).map_err(|error| tls(&error))?;
        let issuer = DistinguishedName::from(root.subject().as_raw().to_vec());
        // Who issued a client's certificate is the authenticator's question: an expired or foreign one then gets a
        // readable answer, not a broken handshake.
        let verifier = Arc::new(Possession::new(&provider, vec![issuer]));
        let (addresses, crypto) = (addresses.to_vec(), Arc::clone(&provider));
        let certificate = Renewed::new(self, "the API's serving certificate", move |pki| {
            pki.certified(&pki.server(&addresses, service_ip)?, &crypto)
        })?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| tls(&error))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(Serving(certificate)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// The leaf as rustls wants it. The authority comes along, so that a machine that joins can recognise it by its
    /// digest.
    fn certified(&self, leaf: &Leaf, provider: &CryptoProvider) -> Result<CertifiedKey, PkiError> {
        let (certificate, key) = leaf.der()?;
        let chain = vec![certificate, self.cluster().certificate().clone()];
        CertifiedKey::from_der(chain, key, provider).map_err(|error| PkiError::Tls { reason: error.to_string() })
    }
}

/// Shows whichever certificate is in force.
#[derive(Debug)]
struct Serving(Renewed<CertifiedKey>);

impl ResolvesServerCert for Serving {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.get())
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
