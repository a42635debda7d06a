//! Tokens with which machines join: secrets in `kube-system`, made and taken back by hand.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quorate_api::object::Object;
use quorate_env::Env;
use quorate_raft_store::Consistency;
use sha2::{Digest, Sha256};

use super::AuthenticateError;
use crate::identity::{BOOTSTRAPPERS, Identity};
use crate::storage::{Home, Storage, stored_status};

pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
pub const SECRET_PREFIX: &str = "bootstrap-token-";
pub const NAMESPACE: &str = "kube-system";
pub const ID_LENGTH: usize = 6;
pub const SECRET_LENGTH: usize = 16;
/// The group that lets a bearer join nodes.
pub const NODE_GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";
/// As many extra groups as one token may bring.
const MAX_GROUPS: usize = 16;

/// `ID.SECRET`, both of fixed length in lower-case letters and digits.
pub fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    (id.len() == ID_LENGTH && secret.len() == SECRET_LENGTH && plain(id) && plain(secret)).then_some((id, secret))
}

#[derive(Debug)]
pub struct BootstrapTokens {
    storage: Storage,
    env: Env,
    home: Home,
}

impl BootstrapTokens {
    pub fn new(storage: Storage, env: Env) -> Self {
        Self { storage, env, home: Home::new("", "secrets") }
    }

    pub async fn identify(&self, id: &str, secret: &str) -> Result<Identity, AuthenticateError> {
        let name = format!("{SECRET_PREFIX}{id}");
        let found = self.storage.get(&self.home, NAMESPACE, &name, Consistency::Linearizable).await;
        let refused = |why| AuthenticateError::BootstrapToken { id: id.to_owned(), why };
        let Some(stored) = found.map_err(AuthenticateError::Store)? else { return Err(refused("there is none")) };
        let object = stored.object().map_err(|error| AuthenticateError::Store(stored_status(error)))?;
        judge(&object, id, secret, self.env.clock.wall()).map_err(refused)
    }
}

/// Whether the secret object admits `ID.SECRET` now.
fn judge(object: &Object, id: &str, secret: &str, now: jiff::Timestamp) -> Result<Identity, &'static str> {
    let field = |key: &str| {
        let encoded = object.get(&format!("/data/{key}"))?.as_str()?;
        String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
    };
    if object.is_deleting() {
        return Err("it is being deleted");
    }
    if object.get("/type").and_then(|kind| kind.as_str()) != Some(SECRET_TYPE) {
        return Err("its secret has another type");
    }
    // Digests are compared, so that the time taken tells nothing about the secret.
    let right = field("token-secret").is_some_and(|own| Sha256::digest(own) == Sha256::digest(secret));
    if !right || field("token-id").as_deref() != Some(id) {
        return Err("the secret is wrong");
    }
    if let Some(expiration) = field("expiration") {
        match expiration.parse::<jiff::Timestamp>() {
            Ok(expiration) if expiration > now => {}
            Ok(_) => return Err("it has expired"),
            Err(_) => return Err("its expiration cannot be read"),
        }
    }
    if field("usage-bootstrap-authentication").as_deref() != Some("true") {
        return Err("it may not be used to authenticate");
    }
    let extra = field("auth-extra-groups").unwrap_or_default();
    let mut groups = vec![BOOTSTRAPPERS];
    groups.extend(extra.split(',').filter(|group| group.starts_with("system:bootstrappers:")).take(MAX_GROUPS));
    Ok(Identity::new(&format!("system:bootstrap:{id}"), &groups).authenticated())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ID: &str = "abcdef";
    const SECRET: &str = "0123456789abcdef";

    fn secret(change: impl FnOnce(&mut Value)) -> Object {
        let encoded = |text: &str| STANDARD.encode(text);
        let mut value = json!({
            "apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE,
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system", "uid": "u"},
            "data": {
                "token-id": encoded(ID), "token-secret": encoded(SECRET),
                "expiration": encoded("2026-06-02T00:00:00Z"),
                "usage-bootstrap-authentication": encoded("true"),
                "auth-extra-groups": encoded("system:bootstrappers:x,system:masters"),
            },
        });
        change(&mut value);
        Object::from_value(value).unwrap()
    }

    fn judged(object: &Object, secret: &str, now: &str) -> Result<Identity, &'static str> {
        judge(object, ID, secret, now.parse().unwrap())
    }

    #[test]
    fn a_good_token_brings_bootstrap_groups_only() {
        let identity = judged(&secret(|_| {}), SECRET, "2026-06-01T00:00:00Z").unwrap();
        assert_eq!(identity.user, "system:bootstrap:abcdef");
        assert_eq!(identity.groups, ["system:bootstrappers", "system:bootstrappers:x", "system:authenticated"]);
    }

    #[test]
    fn bad_tokens_are_refused() {
        let now = "2026-06-01T00:00:00Z";
        assert!(judged(&secret(|_| {}), "0123456789abcdeF", now).is_err());
        assert!(judged(&secret(|_| {}), SECRET, "2026-06-02T00:00:00Z").is_err(), "expired");
        assert!(judged(&secret(|value| value["type"] = json!("Opaque")), SECRET, now).is_err());
        assert!(
            judged(&secret(|value| value["data"]["usage-bootstrap-authentication"] = json!("")), SECRET, now).is_err()
        );
        assert!(judged(&secret(|value| value["data"]["token-id"] = json!("")), SECRET, now).is_err());
        for text in ["abcdef", "abcdef.0123", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdef.more"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("abcdef.0123456789abcdef"), Some((ID, SECRET)));
    }
}
