//! Service-account tokens are good while the account, and the pod or node they were made for, live.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use quorate_env::Env;
use quorate_raft_store::Consistency;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::AuthenticateError;
use super::jwt::{self, Claims, Reference, TokenError};
use crate::identity::Identity;
use crate::pki::Pki;
use crate::storage::{Home, Storage};

/// Tokens whose signature was checked are remembered; a check costs more than all the rest of a small request.
const MAX_REMEMBERED: usize = 8192;
/// A deleted object's tokens are good for a little longer, so that a pod can end in order.
const GRACE: Duration = Duration::from_secs(60);
const EXTRA: &str = "authentication.kubernetes.io/";

type TokenDigest = [u8; 32];

#[derive(Debug)]
pub struct ServiceAccountTokens {
    pki: Arc<Pki>,
    storage: Storage,
    env: Env,
    remembered: RwLock<BTreeMap<TokenDigest, Arc<Claims>>>,
}

impl ServiceAccountTokens {
    pub fn new(pki: Arc<Pki>, storage: Storage, env: Env) -> Self {
        Self { pki, storage, env, remembered: RwLock::default() }
    }

    pub async fn identify(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<(Identity, Vec<String>), AuthenticateError> {
        let claims = self.verified(token)?;
        let granted = jwt::check(&claims, audiences, self.env.clock.wall())?;
        let bound = &claims.kubernetes;
        self.alive("serviceaccounts", &bound.namespace, &bound.serviceaccount).await?;
        if let Some(secret) = &bound.secret {
            self.alive("secrets", &bound.namespace, secret).await?;
        }
        if let Some(pod) = &bound.pod {
            self.alive("pods", &bound.namespace, pod).await?;
        } else if let Some(node) = &bound.node {
            self.alive("nodes", "", node).await?;
        }
        Ok((identity(&claims), granted))
    }

    fn verified(&self, token: &str) -> Result<Arc<Claims>, TokenError> {
        let digest: TokenDigest = Sha256::digest(token).into();
        if let Some(claims) = self.remembered.read().get(&digest) {
            return Ok(claims.clone());
        }
        let claims = Arc::new(jwt::verify(self.pki.tokens(), token)?);
        let mut remembered = self.remembered.write();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(digest, claims.clone());
        Ok(claims)
    }

    /// Whether the very object (by uid) still exists. This member may be behind, so only the leader's word is final.
    async fn alive(&self, plural: &str, namespace: &str, reference: &Reference) -> Result<(), AuthenticateError> {
        let home = Home::new("", plural);
        for consistency in [Consistency::Local, Consistency::Linearizable] {
            let found = self.storage.get(&home, namespace, &reference.name, consistency).await;
            let stored = found.map_err(AuthenticateError::Store)?;
            let now = self.env.clock.wall();
            if stored.is_some_and(|stored| is_alive(stored.metadata(), &reference.uid, now)) {
                return Ok(());
            }
        }
        let what = format!("{plural} {}/{}", namespace, reference.name);
        Err(TokenError::Revoked { what }.into())
    }
}

/// What decides of an object's metadata.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Known {
    uid: String,
    deletion_timestamp: Option<String>,
}

fn is_alive(metadata: &[u8], uid: &str, now: Timestamp) -> bool {
    let Ok(known) = serde_json::from_slice::<Known>(metadata) else { return false };
    let deleted = known.deletion_timestamp.and_then(|time| time.parse::<Timestamp>().ok());
    known.uid == uid && deleted.is_none_or(|deleted| deleted + GRACE >= now)
}

fn identity(claims: &Claims) -> Identity {
    let bound = &claims.kubernetes;
    let account = &bound.serviceaccount;
    let mut identity = Identity::service_account(&bound.namespace, &account.name);
    identity.uid.clone_from(&account.uid);
    let mut extra = |key: &str, value: &str| {
        if !value.is_empty() {
            identity.extra.insert(format!("{EXTRA}{key}"), vec![value.to_owned()]);
        }
    };
    extra("credential-id", &format!("JTI={}", claims.jti));
    if let Some(pod) = &bound.pod {
        extra("pod-name", &pod.name);
        extra("pod-uid", &pod.uid);
    }
    if let Some(node) = &bound.node {
        extra("node-name", &node.name);
        extra("node-uid", &node.uid);
    }
    identity
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn life_is_by_uid_and_ends_after_the_grace() {
        let object = |deleted: Option<&str>| json!({"uid": "u", "deletionTimestamp": deleted}).to_string();
        let now = "2026-06-01T12:00:00Z".parse().unwrap();
        assert!(is_alive(object(None).as_bytes(), "u", now));
        assert!(!is_alive(object(None).as_bytes(), "v", now));
        assert!(is_alive(object(Some("2026-06-01T11:59:30Z")).as_bytes(), "u", now));
        assert!(!is_alive(object(Some("2026-06-01T11:58:30Z")).as_bytes(), "u", now));
        assert!(!is_alive(b"junk", "u", now));
    }
}
