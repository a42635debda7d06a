//! One certificate authority: its root, and the leaves it issues.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use quorate_env::Env;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::{PkiError, files};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub(super) const LEAF_VALIDITY: Duration = Duration::from_secs(365 * 24 * 60 * 60);
const ROOT_VALIDITY: Duration = Duration::from_secs(3650 * 24 * 60 * 60);
/// Certificates begin a little in the past, so that a client whose clock is behind accepts them.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// More names than any node or member has; a request with more is refused.
const MAX_REQUEST_NAMES: usize = 64;

/// Whom a certificate names.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub common_name: &'a str,
    pub organization: Option<&'a str>,
}

impl<'a> Subject<'a> {
    pub fn new(common_name: &'a str) -> Self {
        Self { common_name, organization: None }
    }
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Server,
    Client,
    /// Both, among members.
    Peer,
}

/// A certificate with its key, in PEM.
#[derive(Clone)]
pub struct Leaf {
    pub certificate: String,
    pub key: String,
}

impl std::fmt::Debug for Leaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaf").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Leaf {
    /// Both as TLS wants them.
    pub(crate) fn der(&self) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), PkiError> {
        let tls = |error: rustls_pki_types::pem::Error| PkiError::Tls { reason: format!("{error:?}") };
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).map_err(tls)?;
        Ok((certificate, PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(tls)?))
    }
}

/// A name that a certificate request asks for.
#[derive(Clone, Copy, Debug)]
pub enum Name<'a> {
    Dns(&'a str),
    Ip(&'a IpAddr),
}

/// A root certificate and its key.
#[derive(Debug)]
pub struct Authority {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new root; certificate and key in PEM.
    pub(super) fn generate(name: &str, env: &Env) -> Result<(String, String), PkiError> {
        let key = KeyPair::generate().map_err(issue_error)?;
        let mut params = params(&Subject::new(name), ROOT_VALIDITY, env);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(issue_error)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    pub(super) fn open(dir: &Path, file: &str, env: &Env) -> Result<Self, PkiError> {
        let (certificate, key) = (dir.join(format!("{file}.crt")), dir.join(format!("{file}.key")));
        let malformed = |path: &Path, reason: String| PkiError::Malformed { path: path.to_owned(), reason };
        let pem = files::read(&certificate)?;
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| malformed(&certificate, format!("no certificate in PEM form ({error:?})")))?;
        let pair = KeyPair::from_pem(&files::read(&key)?)
            .map_err(|error| malformed(&key, format!("no private key in PEM form ({error})")))?;
        let (public_key, not_after) = inspect(&der).map_err(|reason| malformed(&certificate, reason))?;
        if public_key != pair.subject_public_key_info() {
            return Err(PkiError::Mismatch { certificate, key });
        }
        if not_after <= env.clock.wall() {
            return Err(PkiError::Expired { path: certificate, at: not_after });
        }
        let issuer =
            Issuer::from_ca_cert_der(&der, pair).map_err(|error| malformed(&certificate, error.to_string()))?;
        Ok(Self { pem, der, issuer })
    }

    /// The root certificate, in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The root certificate, in DER.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// A new key with a certificate for it.
    pub fn issue(
        &self,
        subject: &Subject<'_>,
        purpose: Purpose,
        names: &[String],
        env: &Env,
    ) -> Result<Leaf, PkiError> {
        let key = KeyPair::generate().map_err(issue_error)?;
        let mut params = leaf_params(subject, purpose, env);
        let mut seen: Vec<&String> = Vec::new();
        for name in names {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(ip) => SanType::IpAddress(ip),
                Err(_) => SanType::DnsName(name.as_str().try_into().map_err(issue_error)?),
            });
        }
        let certificate = params.signed_by(&key, &self.issuer).map_err(issue_error)?;
        Ok(Leaf { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// A certificate for a requested key. Subject and purpose are ours; of the requested names those are taken for
    /// which `keep` is true.
    pub fn sign(
        &self,
        request_pem: &str,
        subject: &Subject<'_>,
        purpose: Purpose,
        keep: impl Fn(&Name<'_>) -> bool,
        env: &Env,
    ) -> Result<String, PkiError> {
        let request = CertificateSigningRequestParams::from_pem(request_pem)
            .map_err(|error| PkiError::Request { reason: error.to_string() })?;
        let names = request.params.subject_alt_names;
        if names.len() > MAX_REQUEST_NAMES {
            return Err(PkiError::Request { reason: format!("it asks for more than {MAX_REQUEST_NAMES} names") });
        }
        let mut params = leaf_params(subject, purpose, env);
        params.subject_alt_names = names
            .into_iter()
            .filter(|name| match name {
                SanType::DnsName(name) => keep(&Name::Dns(name.as_str())),
                SanType::IpAddress(ip) => keep(&Name::Ip(ip)),
                _ => false,
            })
            .collect();
        let certificate = params.signed_by(&request.public_key, &self.issuer).map_err(issue_error)?;
        Ok(certificate.pem())
    }
}

/// The public key (as a whole SubjectPublicKeyInfo) and the end of validity of a certificate.
pub(crate) fn inspect(der: &[u8]) -> Result<(Vec<u8>, Timestamp), String> {
    let (_rest, certificate) = x509_parser::parse_x509_certificate(der).map_err(|error| error.to_string())?;
    let not_after = Timestamp::from_second(certificate.validity().not_after.timestamp()).map_err(|e| e.to_string())?;
    Ok((certificate.public_key().raw.to_vec(), not_after))
}

fn leaf_params(subject: &Subject<'_>, purpose: Purpose, env: &Env) -> CertificateParams {
    let mut params = params(subject, LEAF_VALIDITY, env);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = match purpose {
        Purpose::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
        Purpose::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        Purpose::Peer => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
    };
    params.use_authority_key_identifier_extension = true;
    params
}

fn params(subject: &Subject<'_>, validity: Duration, env: &Env) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    if let Some(organization) = subject.organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, subject.common_name);
    params.distinguished_name = name;
    let now = Duration::from_secs(u64::try_from(env.clock.wall().as_second()).unwrap_or(0)).max(DAY);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(BACKDATE);
    params.not_after = epoch + (now + validity);
    params.serial_number = Some(serial(env));
    params
}

/// A random positive serial number: a key certified twice must not get the same one.
fn serial(env: &Env) -> SerialNumber {
    let mut bytes = [0; 16];
    env.random.fill(&mut bytes);
    bytes[0] = (bytes[0] & 0x7f) | 0x40;
    SerialNumber::from_slice(&bytes)
}

fn issue_error(error: rcgen::Error) -> PkiError {
    PkiError::Issue { reason: error.to_string() }
}
