//! Making the tokens with which machines join.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quorate_env::Env;
use serde_json::{Value, json};

use crate::authenticate::bootstrap_token::{
    ID_LENGTH, NAMESPACE, NODE_GROUP, SECRET_LENGTH, SECRET_PREFIX, SECRET_TYPE,
};

const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// A new token; it works once its secret object has been created.
#[derive(Clone)]
pub struct Token {
    id: String,
    secret: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Token {
    pub fn generate(env: &Env) -> Self {
        Self { id: text(env, ID_LENGTH), secret: text(env, SECRET_LENGTH) }
    }

    /// What people hand to the machine: the token, and the digest by which the machine knows the right cluster.
    pub fn with_ca_hash(&self, ca_hash: &str) -> String {
        format!("{}.{}.{ca_hash}", self.id, self.secret)
    }

    /// The Secret to create in `kube-system`.
    pub fn object(&self, env: &Env, lifetime: Duration) -> Value {
        let encoded = |text: &str| STANDARD.encode(text);
        let expiration = env.clock.wall().saturating_add(lifetime).unwrap_or(jiff::Timestamp::MAX);
        let expiration = quorate_api::time::Time::from_timestamp(expiration).to_string();
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{SECRET_PREFIX}{}", self.id), "namespace": NAMESPACE},
            "type": SECRET_TYPE,
            "data": {
                "token-id": encoded(&self.id),
                "token-secret": encoded(&self.secret),
                "expiration": encoded(&expiration),
                "usage-bootstrap-authentication": encoded("true"),
                "usage-bootstrap-signing": encoded("true"),
                "auth-extra-groups": encoded(NODE_GROUP),
            },
        })
    }
}

fn text(env: &Env, length: usize) -> String {
    (0..length)
        .map(|_| {
            let at = usize::try_from(env.random.below(ALPHABET.len() as u64)).unwrap_or(0);
            char::from(ALPHABET[at])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authenticate::bootstrap_token;

    #[test]
    fn a_made_token_is_a_token() {
        let env = Env::simulated("2026-06-01T12:00:00Z".parse().unwrap(), 3);
        let token = Token::generate(&env);
        let text = token.with_ca_hash("00ff");
        let (bearer, hash) = text.rsplit_once('.').unwrap();
        assert!(bootstrap_token::parse(bearer).is_some(), "{bearer}");
        assert_eq!(hash, "00ff");
        let object = token.object(&env, Duration::from_secs(3600));
        assert_eq!(object["data"]["expiration"], STANDARD.encode("2026-06-01T13:00:00Z"));
    }
}
