//! Service-account tokens: what they say, how they are signed, and what makes one acceptable.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, Header, Validation};
use serde::{Deserialize, Serialize};

use crate::pki::TokenKey;

/// Who issues tokens, and the audience of tokens that name none.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Members' clocks may differ by this much.
const CLOCK_SKEW_SECONDS: i64 = 10;
/// Longer ones are refused unread; a real one is below 2 KiB.
pub(crate) const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub aud: Audiences,
    pub exp: i64,
    pub iat: i64,
    pub iss: String,
    pub jti: String,
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Bound,
    pub nbf: i64,
    pub sub: String,
}

/// A list, or a single string as some issuers write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audiences {
    Many(Vec<String>),
    One(String),
}

impl Audiences {
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::Many(all) => all,
            Self::One(one) => std::slice::from_ref(one),
        }
    }
}

/// The objects a token lives and dies with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    pub serviceaccount: Reference,
    /// From when on the bearer should have a newer one, where the token outlives what was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    pub name: String,
    #[serde(default)]
    pub uid: String,
}

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token is malformed or not signed by this cluster")]
    Untrusted,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYetValid,
    #[error("token audiences {found:?} is invalid for the target audiences {wanted:?}")]
    Audience { found: Vec<String>, wanted: Vec<String> },
    #[error("service account token subject does not name its service account")]
    Subject,
    #[error("service account token has been invalidated: {what} is gone")]
    Revoked { what: String },
    #[error("the token could not be checked: {0}")]
    Unavailable(String),
    #[error("a token could not be signed: {0}")]
    Sign(String),
}

/// Signs `claims`.
pub fn sign(key: &TokenKey, claims: &Claims) -> Result<String, TokenError> {
    let header = Header { kid: Some(key.id().to_owned()), typ: None, ..Header::new(Algorithm::ES256) };
    jsonwebtoken::encode(&header, claims, key.signing()).map_err(|error| TokenError::Sign(error.to_string()))
}

/// Whether `token` claims to be one of ours. Only then is a failure final; else another authenticator may know it.
pub fn is_ours(token: &str) -> bool {
    #[derive(Deserialize)]
    struct Issuer {
        iss: String,
    }
    let mut parts = token.split('.');
    let (Some(_header), Some(payload), Some(_signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    URL_SAFE_NO_PAD
        .decode(payload)
        .ok()
        .and_then(|json| serde_json::from_slice::<Issuer>(&json).ok())
        .is_some_and(|claims| claims.iss == ISSUER)
}

/// Checks signature and issuer. Time and audience are [`check`]'s, because they are asked anew on each use.
pub fn verify(key: &TokenKey, token: &str) -> Result<Claims, TokenError> {
    let mut validation = Validation::new(Algorithm::ES256);
    validation.set_issuer(&[ISSUER]);
    validation.set_required_spec_claims(&["exp", "iss", "sub"]);
    // Time is the seam's, not the library's.
    validation.validate_exp = false;
    validation.validate_aud = false;
    let data = jsonwebtoken::decode::<Claims>(token, key.verifying(), &validation)
        .map_err(|_untrusted| TokenError::Untrusted)?;
    if data.header.kid.as_deref() != Some(key.id()) {
        return Err(TokenError::Untrusted);
    }
    let claims = data.claims;
    let account = &claims.kubernetes;
    if claims.sub != subject(&account.namespace, &account.serviceaccount.name) {
        return Err(TokenError::Subject);
    }
    Ok(claims)
}

/// Checks time, and that one of the `wanted` audiences is among the token's; returns those that are.
pub fn check(claims: &Claims, wanted: &[String], now: Timestamp) -> Result<Vec<String>, TokenError> {
    let now = now.as_second();
    if claims.exp <= now - CLOCK_SKEW_SECONDS {
        return Err(TokenError::Expired);
    }
    if claims.nbf > now + CLOCK_SKEW_SECONDS {
        return Err(TokenError::NotYetValid);
    }
    let granted: Vec<String> = wanted.iter().filter(|name| claims.aud.as_slice().contains(name)).cloned().collect();
    if granted.is_empty() {
        let found = claims.aud.as_slice().to_vec();
        return Err(TokenError::Audience { found, wanted: wanted.to_vec() });
    }
    Ok(granted)
}

/// The `sub` of a service account's tokens.
pub fn subject(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

#[cfg(test)]
mod tests {
    use quorate_env::Env;
    use serde_json::{Value, json};

    use super::*;
    use crate::pki::Pki;

    const NOW: &str = "2026-06-01T12:00:00Z";

    fn pki() -> (tempfile::TempDir, Pki) {
        let home = tempfile::tempdir().unwrap();
        let env = Env::simulated(NOW.parse().unwrap(), 1);
        let pki = Pki::create(&home.path().join("pki"), &env).unwrap();
        (home, pki)
    }

    fn claims() -> Claims {
        let now = NOW.parse::<Timestamp>().unwrap().as_second();
        Claims {
            aud: Audiences::Many(vec![ISSUER.to_owned(), "vault".to_owned()]),
            exp: now + 3600,
            iat: now,
            iss: ISSUER.to_owned(),
            jti: "1".to_owned(),
            kubernetes: Bound {
                namespace: "team".to_owned(),
                serviceaccount: Reference { name: "builder".to_owned(), uid: "u1".to_owned() },
                pod: Some(Reference { name: "p".to_owned(), uid: "u2".to_owned() }),
                ..Bound::default()
            },
            nbf: now,
            sub: subject("team", "builder"),
        }
    }

    fn replaced(token: &str, part: usize, value: &Value) -> String {
        let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
        parts[part] = URL_SAFE_NO_PAD.encode(value.to_string());
        parts.join(".")
    }

    #[tokio::test]
    async fn what_is_signed_is_read_back() {
        let (_home, pki) = pki();
        let token = sign(pki.tokens(), &claims()).unwrap();
        assert!(is_ours(&token));
        assert_eq!(verify(pki.tokens(), &token).unwrap(), claims());
        let header: Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap()).unwrap();
        assert_eq!(header, json!({"alg": "ES256", "kid": pki.tokens().id()}));
    }

    #[tokio::test]
    async fn any_change_is_noticed() {
        let (_home, ours) = pki();
        let token = sign(ours.tokens(), &claims()).unwrap();
        let other = Claims { sub: subject("team", "other"), ..claims() };
        let none = json!({"alg": "none", "kid": ours.tokens().id()});
        let hmac = json!({"alg": "HS256", "kid": ours.tokens().id()});
        let tampered = [
            replaced(&token, 1, &serde_json::to_value(&other).unwrap()),
            replaced(&token, 0, &none),
            replaced(&token, 0, &hmac),
            token.rsplit_once('.').unwrap().0.to_owned() + ".",
            token[..token.len() - 2].to_owned(),
            String::new(),
            "a.b.c".to_owned(),
        ];
        for token in tampered {
            assert_eq!(verify(ours.tokens(), &token), Err(TokenError::Untrusted), "{token}");
        }
        let (_home, theirs) = pki();
        assert_eq!(verify(theirs.tokens(), &token), Err(TokenError::Untrusted), "another cluster's");
        let inconsistent = sign(ours.tokens(), &other).unwrap();
        assert_eq!(verify(ours.tokens(), &inconsistent), Err(TokenError::Subject));
        let foreign = sign(ours.tokens(), &Claims { iss: "https://elsewhere".to_owned(), ..claims() }).unwrap();
        assert_eq!(verify(ours.tokens(), &foreign), Err(TokenError::Untrusted));
        assert!(!is_ours(&foreign));
    }

    #[tokio::test]
    async fn time_and_audience_bound_a_token() {
        let wanted = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        let audience = wanted(&["vault", "unknown"]);
        assert_eq!(check(&claims(), &audience, at(NOW)), Ok(wanted(&["vault"])));
        assert_eq!(check(&claims(), &audience, at("2026-06-01T13:00:11Z")), Err(TokenError::Expired));
        assert_eq!(check(&claims(), &audience, at("2026-06-01T11:59:00Z")), Err(TokenError::NotYetValid));
        assert!(matches!(check(&claims(), &wanted(&["unknown"]), at(NOW)), Err(TokenError::Audience { .. })));
    }
}
