//! Bootstrap tokens end with their time: an expired one opens nothing any more, and only lies about.

use std::time::Duration;

use jiff::Timestamp;
use quorate_api::name::ObjectKey;

use crate::action::{Action, Delete, Plan, Target};
use crate::cache::{Cache, Change};
use crate::projection::{Projected, Secret};
use crate::resource::Kind;
use crate::runner::Pure;

pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";

pub fn controller() -> Pure {
    Pure {
        name: "token_cleaner",
        account: "token-cleaner",
        component: "token-cleaner",
        wakes,
        plan: |pass, key| pass.cache.secrets.get(key).map_or_else(Plan::nothing, |secret| plan(&secret, pass.now)),
    }
}

fn wakes(_cache: &Cache, change: &Change) -> Vec<ObjectKey> {
    match change {
        Change::Secret(delta) if delta.new.is_some() => vec![delta.key.clone()],
        _ => Vec::new(),
    }
}

fn plan(secret: &Secret, now: Timestamp) -> Plan {
    let Some(expiration) = secret.data.expiration.as_ref().filter(|_| secret.kind == SECRET_TYPE) else {
        return Plan::nothing();
    };
    let until = std::str::from_utf8(&expiration.0).ok().and_then(|text| text.parse::<Timestamp>().ok());
    match until {
        Some(until) if until > now => {
            let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
            Plan { actions: Vec::new(), look_again: Some(left) }
        }
        // An end that cannot be read counts as past, as it does where tokens are let in.
        Some(_) | None => {
            let target = Target::namespaced(Kind::Secret.resource(), secret.namespace(), secret.name());
            Plan::of(vec![Action::Delete(Delete::of(target, Some(secret.uid().to_owned())))])
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(kind: &str, expiration: Option<&str>) -> Secret {
        let text = expiration.map(|text| k8s_openapi::ByteString(text.as_bytes().to_vec()));
        let metadata = json!({"name": "bootstrap-token-x", "namespace": "kube-system", "uid": "u"});
        serde_json::from_value(json!({"metadata": metadata, "type": kind, "data": {"expiration": text}})).unwrap()
    }

    #[test]
    fn a_token_goes_when_its_time_is_over() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let planned = |kind: &str, expiration| plan(&secret(kind, expiration), now);
        let waiting = planned(SECRET_TYPE, Some("2026-01-01T00:01:00Z"));
        assert_eq!(waiting, Plan { actions: Vec::new(), look_again: Some(Duration::from_secs(60)) });
        assert_eq!(planned(SECRET_TYPE, None), Plan::nothing());
        assert_eq!(planned("Opaque", Some("2025-01-01T00:00:00Z")), Plan::nothing());
        for over in ["2026-01-01T00:00:00Z", "soon"] {
            let ended = planned(SECRET_TYPE, Some(over));
            let [Action::Delete(delete)] = &ended.actions[..] else { panic!("{ended:?}") };
            assert_eq!((delete.target.name.as_str(), delete.uid.as_deref()), ("bootstrap-token-x", Some("u")));
        }
    }
}
