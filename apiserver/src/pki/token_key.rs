//! The key that signs service-account tokens (ES256), and its public form for those who verify them.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{DecodingKey, EncodingKey};
use rcgen::{KeyPair, PublicKeyData};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{PkiError, files};

/// An uncompressed P-256 point: one tag byte, then both coordinates.
const POINT_BYTES: usize = 65;

pub struct TokenKey {
    signing: EncodingKey,
    verifying: DecodingKey,
    id: String,
    x: String,
    y: String,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl TokenKey {
    /// A new key; private and public part in PEM.
    pub(super) fn generate() -> Result<(String, String), PkiError> {
        let pair = KeyPair::generate().map_err(|error| PkiError::Issue { reason: error.to_string() })?;
        Ok((pair.serialize_pem(), pair.public_key_pem()))
    }

    pub(super) fn open(dir: &Path) -> Result<Self, PkiError> {
        let (private, public) = (dir.join("sa.key"), dir.join("sa.pub"));
        let pair = KeyPair::from_pem(&files::read(&private)?)
            .map_err(|error| PkiError::Malformed { path: private.clone(), reason: error.to_string() })?;
        if files::read(&public)?.trim() != pair.public_key_pem().trim() {
            return Err(PkiError::Mismatch { certificate: public, key: private });
        }
        Self::from_pair(&pair).map_err(|reason| PkiError::Malformed { path: private, reason })
    }

    fn from_pair(pair: &KeyPair) -> Result<Self, String> {
        let point = pair.public_key_raw();
        if point.len() != POINT_BYTES {
            return Err("it is not a P-256 key".to_owned());
        }
        let (x, y) = point[1..].split_at(POINT_BYTES / 2);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        Ok(Self {
            signing: EncodingKey::from_ec_der(pair.serialized_der()),
            verifying: DecodingKey::from_ec_components(&x, &y).map_err(|error| error.to_string())?,
            id: URL_SAFE_NO_PAD.encode(Sha256::digest(pair.subject_public_key_info())),
            x,
            y,
        })
    }

    /// The key id that tokens carry in their header: a digest of the public key.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn signing(&self) -> &EncodingKey {
        &self.signing
    }

    pub(crate) fn verifying(&self) -> &DecodingKey {
        &self.verifying
    }

    /// The document at `/openid/v1/jwks`.
    pub fn jwks(&self) -> Value {
        json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256", "x": self.x, "y": self.y,
        }]})
    }
}
