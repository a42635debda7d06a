//! Finds the caller's identity in a request: a client certificate, else a bearer token.
//!
//! One good credential is enough. If none of those shown is good the answer is a 401, even where anonymous access would
//! be allowed.

pub mod bootstrap_token;
pub mod certificate;
pub mod impersonate;
pub mod jwt;
pub mod service_account;

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::request::Parts;
use quorate_api::status::Status;
use quorate_env::Env;

use crate::identity::{Identity, Peer};
use crate::pki::{Pki, PkiError};
use crate::storage::Storage;
use bootstrap_token::BootstrapTokens;
use certificate::Certificates;
use jwt::{ISSUER, TokenError};
use service_account::ServiceAccountTokens;

/// Why a credential is not accepted. The caller only learns that it is not; the log says why.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticateError {
    #[error(transparent)]
    Certificate(#[from] certificate::CertificateError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the bootstrap token {id} is not accepted: {why}")]
    BootstrapToken { id: String, why: &'static str },
    #[error("the authorization header holds no bearer token that this server knows")]
    Unknown,
    #[error("the credential could not be checked: {0}")]
    Store(Status),
}

impl AuthenticateError {
    /// The answer: that the store could not be asked is not the credential's fault.
    pub fn status(self) -> Status {
        match self {
            Self::Store(status) => status,
            Self::Token(TokenError::Unavailable(why)) => Status::service_unavailable(why),
            refused => {
                tracing::debug!(reason = %refused, "unable to authenticate the request");
                Status::unauthorized("Unauthorized")
            }
        }
    }
}

/// The configured authenticators, asked in order.
#[derive(Debug)]
pub struct Authenticator {
    env: Env,
    /// Absent without a PKI: then only bootstrap tokens are known.
    rooted: Option<Rooted>,
    bootstrap: BootstrapTokens,
}

/// What is checked against the cluster's own keys.
#[derive(Debug)]
struct Rooted {
    certificates: Certificates,
    accounts: ServiceAccountTokens,
}

impl Authenticator {
    pub fn new(pki: Option<&Arc<Pki>>, storage: &Storage, env: &Env) -> Result<Self, PkiError> {
        let rooted = |pki: &Arc<Pki>| {
            Ok(Rooted {
                certificates: Certificates::new(pki.cluster())?,
                accounts: ServiceAccountTokens::new(pki.clone(), storage.clone(), env.clone()),
            })
        };
        Ok(Self {
            env: env.clone(),
            rooted: pki.map(rooted).transpose()?,
            bootstrap: BootstrapTokens::new(storage.clone(), env.clone()),
        })
    }

    /// `None` means that the request carries no credentials (the chain then decides about anonymous access).
    /// [`Peer`] is in the request's extensions.
    pub async fn authenticate(&self, request: &Parts) -> Result<Option<Identity>, Status> {
        let refused = match self.by_certificate(request) {
            Ok(Some(identity)) => return Ok(Some(identity)),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        let Some(token) = bearer_token(request) else { return refused.map_or(Ok(None), |error| Err(error.status())) };
        if let Some(error) = refused {
            tracing::debug!(reason = %error, "the certificate is not accepted, the token is looked at");
        }
        let (identity, _audiences) =
            self.identify_token(token, &[ISSUER.to_owned()]).await.map_err(AuthenticateError::status)?;
        Ok(Some(identity))
    }

    fn by_certificate(&self, request: &Parts) -> Result<Option<Identity>, AuthenticateError> {
        let Some(peer) = request.extensions.get::<Peer>() else { return Ok(None) };
        let Some(certificate) = &peer.certificate else { return Ok(None) };
        let rooted = self.rooted.as_ref().ok_or(AuthenticateError::Unknown)?;
        let now = self.env.clock.wall();
        Ok(Some(rooted.certificates.identify(certificate, &peer.intermediates, now)?))
    }

    /// Whose token this is, and for which of the wanted audiences it is good.
    pub async fn identify_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<(Identity, Vec<String>), AuthenticateError> {
        if let Some(rooted) = self.rooted.as_ref().filter(|_| jwt::is_ours(token)) {
            return rooted.accounts.identify(token, audiences).await;
        }
        match bootstrap_token::parse(token) {
            Some((id, secret)) => Ok((self.bootstrap.identify(id, secret).await?, audiences.to_vec())),
            None => Err(AuthenticateError::Unknown),
        }
    }
}

/// The token of an `Authorization: Bearer` header; an absurdly long one counts as an unknown one.
fn bearer_token(request: &Parts) -> Option<&str> {
    let header = request.headers.get(AUTHORIZATION)?;
    let text = header.to_str().unwrap_or_default();
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    let token = token.trim();
    let known = scheme.eq_ignore_ascii_case("bearer") && token.len() <= jwt::MAX_TOKEN_BYTES;
    Some(if known { token } else { "" })
}
