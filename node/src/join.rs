//! Joining a cluster, and staying in it: from a token to certificates, a client, and the node's part of the address
//! plan; then new certificates before the old ones run out.
//!
//! The token carries a hash of the cluster's authority: the secret in it is sent only over a connection whose
//! certificate that authority has signed. What is got is kept ([`membership`]), so that a restart needs no token.
//!
//! Start at [`join`]; [`ask`] speaks with members, [`renewal`] runs while the node does.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use quorate_env::Env;

use self::ask::{Credential, FirstContact};
pub use self::membership::Membership;
use self::membership::{FILE, Record, Standing};

mod ask;
mod membership;
mod pin;
mod renewal;

/// All attempts together of a node that has nothing; the cluster may still be starting.
const JOIN_LIMIT: Duration = Duration::from_secs(300);
/// All attempts of a node that can go on with what it has.
const RENEW_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("a join token has the form ID.SECRET.HASH, as `quorate token create` prints it")]
    Token,
    #[error("this node has not joined a cluster yet, and no token is given: make one with `quorate token create`")]
    NoToken,
    #[error("no member answered within {0:?}; the last one said: {1}")]
    Unreachable(Duration, String),
    #[error("the cluster refuses the node: {0}")]
    Refused(String),
    #[error("the token belongs to another cluster than {members}: make one there with `quorate token create`")]
    ForeignToken { members: String },
    #[error(
        "{path} is this node's membership of another cluster than the one it is to join: remove the file, and start \
         with a token of `quorate token create`"
    )]
    OtherCluster { path: String },
    #[error(
        "the node's certificates in {path} ran out at {at}: start it with a token of `quorate token create` to get new \
         ones"
    )]
    Expired { path: String, at: Timestamp },
    #[error("{path}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{0} holds no membership: remove it, and start with a token of `quorate token create`")]
    Corrupt(String),
    #[error("keys and requests cannot be made")]
    Keys(#[from] rcgen::Error),
    #[error("the cluster's answer has no usable {0}")]
    Answer(&'static str),
    #[error("no client can be made from the membership: {0}")]
    Client(String),
}

/// `ID.SECRET.HASH`.
#[derive(Clone)]
pub struct Token {
    id: String,
    bearer: String,
    ca_hash: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    pub fn parse(text: &str) -> Result<Self, JoinError> {
        const HASH_LETTERS: usize = 64;
        let parts: Vec<&str> = text.trim().split('.').collect();
        match parts.as_slice() {
            [id, secret, hash]
                if !id.is_empty()
                    && !secret.is_empty()
                    && hash.len() == HASH_LETTERS
                    && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
            {
                Ok(Self { id: (*id).to_owned(), bearer: format!("{id}.{secret}"), ca_hash: hash.to_ascii_lowercase() })
            }
            _ => Err(JoinError::Token),
        }
    }
}

/// Who joins, and through whom.
#[derive(Clone, Debug)]
pub struct Joining {
    pub node: String,
    pub addresses: Vec<IpAddr>,
    pub members: Vec<String>,
    /// Needed at the first start, and to come back after the certificates have run out.
    pub token: Option<String>,
    /// Where the membership is kept.
    pub directory: PathBuf,
}

impl Joining {
    fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }
}

/// The kept membership of this node, brought up to date where it no longer fits; else a new one.
pub async fn join(joining: &Joining, env: &Env) -> Result<Membership, JoinError> {
    let path = joining.path();
    let token = joining.token.as_deref().map(Token::parse).transpose()?;
    let kept = membership::load(&path)?.filter(|kept| kept.node == joining.node);
    let record = match kept {
        None => {
            let token = token.ok_or(JoinError::NoToken)?;
            let record = ask::certify(joining, Credential::Token(&token), JOIN_LIMIT, env).await?;
            membership::store(&path, &record)?;
            record
        }
        Some(kept) => up_to_date(kept, token.as_ref(), joining, env).await?,
    };
    Membership::new(joining.clone(), record)
}

/// `kept`, or what came in its place.
async fn up_to_date(kept: Record, token: Option<&Token>, joining: &Joining, env: &Env) -> Result<Record, JoinError> {
    let path = joining.path();
    let shown = path.display().to_string();
    if token.is_some_and(|token| !kept.is_of(&token.ca_hash)) {
        return Err(JoinError::OtherCluster { path: shown });
    }
    let standing = kept.standing(&joining.addresses, env.clock.wall());
    let unused = token.filter(|token| kept.token.as_deref() != Some(token.id.as_str()));
    let credential = match (unused, standing, token) {
        // A token that is not the one it joined with says that the node shall join anew.
        (Some(token), _, _) | (None, Standing::Expired(_), Some(token)) => Credential::Token(token),
        (None, Standing::Expired(at), None) => return Err(JoinError::Expired { path: shown, at }),
        (None, Standing::Due, _) => Credential::Kept(&kept),
        (None, Standing::Good, _) => {
            return match ask::first_contact(joining, &kept, env).await {
                FirstContact::Foreign => Err(JoinError::OtherCluster { path: shown }),
                FirstContact::Ours | FirstContact::Nobody => Ok(kept),
            };
        }
    };
    let limit = if matches!(standing, Standing::Expired(_)) { JOIN_LIMIT } else { RENEW_LIMIT };
    match ask::certify(joining, credential, limit, env).await {
        Ok(record) => {
            membership::store(&path, &record)?;
            Ok(record)
        }
        Err(error @ (JoinError::Unreachable(..) | JoinError::Refused(_)))
            if !matches!(standing, Standing::Expired(_)) =>
        {
            tracing::warn!(%error, "the node goes on with the certificates that it has");
            Ok(kept)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_three_parts_and_a_hash() {
        let hash = "ab".repeat(32);
        assert_eq!(Token::parse(&format!("id.secret.{}", hash.to_uppercase())).unwrap().ca_hash, hash);
        for bad in ["", "id.secret", "id.secret.zz", &format!(".s.{hash}"), &format!("a.b.c.{hash}")] {
            assert!(matches!(Token::parse(bad), Err(JoinError::Token)), "{bad}");
        }
    }
}
