//! Acting as somebody else, by `Impersonate-*` headers, for those who may.

use std::collections::BTreeMap;

use http::HeaderMap;
use quorate_api::status::Status;

use crate::attributes::{Attributes, Decision};
use crate::authorize::{Authorizer, message};
use crate::identity::{ANONYMOUS, Identity, SERVICE_ACCOUNTS, UNAUTHENTICATED};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
/// More groups and extra values than any client sends; each costs a decision.
const MAX_VALUES: usize = 64;

/// Who is to be impersonated, as the headers say it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// The identity that the headers ask for, once `identity` has been found to have the right to each part of it; `None`
/// when they ask for nothing.
pub async fn impersonate(
    headers: &HeaderMap,
    identity: &Identity,
    authorizer: &Authorizer,
) -> Result<Option<Identity>, Status> {
    let Some(wish) = read(headers)? else { return Ok(None) };
    let base = Attributes { version: "v1", ..Attributes::resource(identity, "impersonate", "", "users") };
    let mut questions = Vec::new();
    match wish.user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':')) {
        Some((namespace, name)) => {
            questions.push(Attributes { resource: "serviceaccounts", namespace, name, ..base });
        }
        None => questions.push(Attributes { name: &wish.user, ..base }),
    }
    questions.extend(wish.groups.iter().map(|name| Attributes { resource: "groups", name, ..base }));
    if !wish.uid.is_empty() {
        questions.push(Attributes { group: AUTHENTICATION, resource: "uids", name: &wish.uid, ..base });
    }
    for (key, values) in &wish.extra {
        questions.extend(values.iter().map(|name| Attributes {
            group: AUTHENTICATION,
            resource: "userextras",
            subresource: key,
            name,
            ..base
        }));
    }
    for question in &questions {
        if let Decision::Deny { reason } = authorizer.authorize(question).await {
            return Err(message::forbidden(question, &reason));
        }
    }
    Ok(Some(assumed(wish)))
}

fn read(headers: &HeaderMap) -> Result<Option<Wish>, Status> {
    let text = |value: &http::HeaderValue| value.to_str().map(str::to_owned).unwrap_or_default();
    let mut wish = Wish::default();
    for (name, value) in headers {
        match name.as_str() {
            USER => wish.user = text(value),
            UID => wish.uid = text(value),
            GROUP => wish.groups.push(text(value)),
            other => {
                if let Some(key) = other.strip_prefix(EXTRA_PREFIX) {
                    let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
                    wish.extra.entry(key).or_default().push(text(value));
                }
            }
        }
    }
    let values = wish.groups.len() + wish.extra.values().map(Vec::len).sum::<usize>();
    if values > MAX_VALUES {
        return Err(Status::bad_request(format!("more than {MAX_VALUES} groups and extra values to impersonate")));
    }
    if wish == Wish::default() {
        return Ok(None);
    }
    if wish.user.is_empty() {
        return Err(Status::bad_request("impersonation headers name no user: Impersonate-User is required"));
    }
    Ok(Some(wish))
}

/// The identity as it would have been authenticated.
fn assumed(wish: Wish) -> Identity {
    let mut groups = wish.groups;
    let mut join = |group: String| {
        if !groups.contains(&group) {
            groups.push(group);
        }
    };
    if let Some((namespace, _)) =
        wish.user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'))
    {
        join(SERVICE_ACCOUNTS.to_owned());
        join(format!("{SERVICE_ACCOUNTS}:{namespace}"));
    }
    let anonymous = wish.user == ANONYMOUS;
    if anonymous {
        join(UNAUTHENTICATED.to_owned());
    }
    let identity = Identity { user: wish.user, uid: wish.uid, groups, extra: wish.extra };
    if anonymous || identity.in_group(UNAUTHENTICATED) { identity } else { identity.authenticated() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::authorize::index::Kind;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn authorizer() -> Authorizer {
        let authorizer = Authorizer::default();
        let rules = json!({"rules": [
            {"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"], "resourceNames": ["bob", "team"]},
            {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]},
        ]});
        authorizer.set_for_test(Kind::ClusterRole, "", "r", &rules);
        let binding =
            json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "ann"}]});
        authorizer.set_for_test(Kind::ClusterRoleBinding, "", "b", &binding);
        authorizer
    }

    async fn asked(pairs: &[(&'static str, &'static str)]) -> Result<Option<Identity>, Status> {
        impersonate(&headers(pairs), &Identity::new("ann", &[]), &authorizer()).await
    }

    #[tokio::test]
    async fn each_part_needs_the_right() {
        assert_eq!(asked(&[]).await, Ok(None));
        let bob = asked(&[(USER, "bob"), (GROUP, "team")]).await.unwrap().unwrap();
        assert_eq!(
            (bob.user.as_str(), bob.groups),
            ("bob", vec!["team".to_owned(), "system:authenticated".to_owned()])
        );
        let robot = asked(&[(USER, "system:serviceaccount:a:robot")]).await.unwrap().unwrap();
        assert!(robot.in_group("system:serviceaccounts:a"));
        let refused = asked(&[(USER, "eve")]).await.unwrap_err();
        assert_eq!(
            refused.message,
            r#"users "eve" is forbidden: User "ann" cannot impersonate resource "users" in API group "" at the cluster scope"#
        );
        assert_eq!(asked(&[(USER, "bob"), (GROUP, "system:masters")]).await.unwrap_err().code, 403);
        assert_eq!(asked(&[(USER, "bob"), ("impersonate-extra-scopes", "x")]).await.unwrap_err().code, 403);
        assert_eq!(asked(&[(GROUP, "team")]).await.unwrap_err().code, 400);
    }
}
