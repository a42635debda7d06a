//! The API's TLS: clients may show a certificate, and are told what is wrong with it by a 401.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

use super::{Leaf, Pki, PkiError};

impl Pki {
    /// The listener's configuration, for HTTP/2 and HTTP/1.1.
    pub fn server_config(&self, leaf: &Leaf) -> Result<ServerConfig, PkiError> {
        let tls = |error: &dyn std::fmt::Display| PkiError::Tls { reason: error.to_string() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(RequestedCertificate::new(self.cluster().certificate(), &provider)?);
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

/// Asks for a client certificate and makes sure that the client holds its key, but leaves the question who issued it
/// to the authenticator: an expired or foreign certificate then gets a readable answer, not a broken handshake.
#[derive(Debug)]
struct RequestedCertificate {
    roots: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl RequestedCertificate {
    fn new(root: &CertificateDer<'_>, provider: &CryptoProvider) -> Result<Self, PkiError> {
        let (_rest, root) =
            x509_parser::parse_x509_certificate(root).map_err(|error| PkiError::Tls { reason: error.to_string() })?;
        // Clients with several certificates choose the one whose issuer is named here.
        let roots = vec![DistinguishedName::from(root.subject().as_raw().to_vec())];
        Ok(Self { roots, algorithms: provider.signature_verification_algorithms })
    }
}

impl ClientCertVerifier for RequestedCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.roots
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
