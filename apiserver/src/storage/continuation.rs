//! The token by which a list is continued: a revision and the key to go on from.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use quorate_api::status::Status;
use quorate_raft_store::Revision;
use serde::{Deserialize, Serialize};

/// Longer tokens were not made here: a key's own bound is far below.
const MAX_TOKEN_BYTES: usize = 4096;
const VERSION: &str = "meta.k8s.io/v1";

/// Where a list goes on. Opaque to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The snapshot that all pages show; `None` to go on at whatever is newest (after the snapshot expired).
    pub revision: Option<Revision>,
    /// The first key wanted, relative to the resource's prefix.
    pub start: String,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
}

impl Continuation {
    pub fn encode(&self) -> String {
        let rv = self.revision.map_or(-1, |revision| i64::try_from(revision.0).unwrap_or(i64::MAX));
        let wire = Wire { v: VERSION.to_owned(), rv, start: self.start.clone() };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    pub fn decode(token: &str) -> Result<Self, Status> {
        let bad = |why: &str| Status::bad_request(format!("continue key is not valid: {why}"));
        if token.len() > MAX_TOKEN_BYTES {
            return Err(bad("too long"));
        }
        let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|error| bad(&error.to_string()))?;
        let wire: Wire = serde_json::from_slice(&bytes).map_err(|error| bad(&error.to_string()))?;
        if wire.v != VERSION {
            return Err(bad(&format!("server does not recognize this encoded version {:?}", wire.v)));
        }
        let revision = match wire.rv {
            -1 => None,
            rv => Some(Revision(
                u64::try_from(rv)
                    .ok()
                    .filter(|rv| *rv > 0)
                    .ok_or_else(|| bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"))?,
            )),
        };
        Ok(Self { revision, start: wire.start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        for revision in [None, Some(Revision(7))] {
            let token = Continuation { revision, start: "ns/name\0".to_owned() };
            assert_eq!(Continuation::decode(&token.encode()), Ok(token));
        }
    }

    #[test]
    fn foreign_tokens_are_refused() {
        for token in ["x", "e30", "!!!", &"a".repeat(5000)] {
            assert_eq!(Continuation::decode(token).unwrap_err().code, 400, "{token}");
        }
    }
}
