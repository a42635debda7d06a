//! The client's side of TLS towards nodes.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::Trust;
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
        let algorithms = provider.signature_verification_algorithms;
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
        unverified.dangerous().set_certificate_verifier(Arc::new(AnyCertificate { algorithms }));
        Ok(Self { verified: Arc::new(verified), unverified: Arc::new(unverified) })
    }

    pub(super) fn config(&self, trust: Trust) -> Arc<ClientConfig> {
        Arc::clone(match trust {
            Trust::Verified => &self.verified,
            Trust::Unverified => &self.unverified,
        })
    }
}

/// Takes any certificate whose key the server holds: for callers who asked for it.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

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
