//! Client certificates: the common name is the user, the organizations are its groups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use sha2::{Digest, Sha256};

use crate::identity::Identity;
use crate::pki::{Authority, PkiError, hex};

/// Certificates whose chain was checked are remembered, so that a check costs one look-up a request.
const MAX_REMEMBERED: usize = 4096;
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error("the client certificate is not accepted: {0}")]
    Refused(String),
    #[error("the client certificate names no user")]
    Nameless,
}

#[derive(Debug)]
pub struct Certificates {
    verifier: Arc<dyn ClientCertVerifier>,
    remembered: RwLock<BTreeMap<Box<[u8]>, Remembered>>,
}

#[derive(Clone, Debug)]
struct Remembered {
    identity: Identity,
    not_before: i64,
    not_after: i64,
}

impl Certificates {
    pub fn new(authority: &Authority) -> Result<Self, PkiError> {
        let tls = |reason: String| PkiError::Tls { reason };
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate().clone()).map_err(|error| tls(error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| tls(error.to_string()))?;
        Ok(Self { verifier, remembered: RwLock::default() })
    }

    /// Whom the certificate names, if it leads to the authority, by `intermediates` if need be.
    pub fn identify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Result<Identity, CertificateError> {
        let second = now.as_second();
        if let Some(known) = self.remembered.read().get(certificate.as_ref())
            && (known.not_before..=known.not_after).contains(&second)
        {
            return Ok(known.identity.clone());
        }
        let since_epoch = Duration::from_secs(u64::try_from(second).unwrap_or(0));
        self.verifier
            .verify_client_cert(certificate, intermediates, UnixTime::since_unix_epoch(since_epoch))
            .map_err(|error| CertificateError::Refused(error.to_string()))?;
        let mut read = read(certificate)?;
        // It is remembered for as long as the whole chain is valid.
        for intermediate in intermediates {
            read.not_after = read.not_after.min(not_after(intermediate)?);
        }
        let mut remembered = self.remembered.write();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(certificate.as_ref().into(), read.clone());
        Ok(read.identity)
    }
}

fn not_after(der: &CertificateDer<'_>) -> Result<i64, CertificateError> {
    let (_rest, certificate) =
        x509_parser::parse_x509_certificate(der).map_err(|error| CertificateError::Refused(error.to_string()))?;
    Ok(certificate.validity().not_after.timestamp())
}

fn read(der: &CertificateDer<'_>) -> Result<Remembered, CertificateError> {
    let (_rest, certificate) =
        x509_parser::parse_x509_certificate(der).map_err(|error| CertificateError::Refused(error.to_string()))?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next().and_then(|name| name.as_str().ok()).unwrap_or_default();
    if user.is_empty() {
        return Err(CertificateError::Nameless);
    }
    let groups: Vec<&str> = subject.iter_organization().filter_map(|name| name.as_str().ok()).collect();
    let mut identity = Identity::new(user, &groups).authenticated();
    identity.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={}", hex(&Sha256::digest(der)))]);
    let validity = certificate.validity();
    Ok(Remembered { identity, not_before: validity.not_before.timestamp(), not_after: validity.not_after.timestamp() })
}

#[cfg(test)]
mod tests {
    use quorate_env::Env;
    use rustls_pki_types::pem::PemObject;

    use super::*;
    use crate::identity::{CLUSTER_ADMINS, NODES};
    use crate::pki::{Leaf, Pki};

    fn pki() -> (tempfile::TempDir, Pki) {
        let home = tempfile::tempdir().unwrap();
        let env = Env::simulated("2026-06-01T12:00:00Z".parse().unwrap(), 1);
        let pki = Pki::create(&home.path().join("pki"), &env).unwrap();
        (home, pki)
    }

    fn der(leaf: &Leaf) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap()
    }

    #[tokio::test]
    async fn subject_becomes_user_and_groups() {
        let (_home, pki) = pki();
        let known = Certificates::new(pki.cluster()).unwrap();
        let now = "2026-06-01T12:00:00Z".parse().unwrap();
        let admin = known.identify(&der(&pki.admin().unwrap()), &[], now).unwrap();
        assert_eq!(admin.user, "kubernetes-admin");
        assert_eq!(admin.groups, [CLUSTER_ADMINS, "system:authenticated"]);
        assert!(admin.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
        let node = known.identify(&der(&pki.node_client("n1").unwrap()), &[], now).unwrap();
        assert_eq!((node.node_name(), node.groups[0].as_str()), (Some("n1"), NODES));
    }

    #[tokio::test]
    async fn foreign_expired_and_server_certificates_are_refused() {
        let (_ours, ours) = pki();
        let (_theirs, theirs) = pki();
        let known = Certificates::new(ours.cluster()).unwrap();
        let now: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
        let refused =
            |leaf: &Leaf, now| matches!(known.identify(&der(leaf), &[], now), Err(CertificateError::Refused(_)));
        assert!(refused(&theirs.admin().unwrap(), now), "another cluster's");
        assert!(refused(&ours.server(&[], "10.96.0.1".parse().unwrap()).unwrap(), now), "not for clients");
        let admin = ours.admin().unwrap();
        assert!(!refused(&admin, now));
        let later: Timestamp = "2027-06-02T12:00:00Z".parse().unwrap();
        assert!(refused(&admin, later), "remembered, but expired");
    }
}
