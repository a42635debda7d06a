//! Nobody may grant what they do not hold, unless they hold the right to do just that.

use super::index::{RoleIndex, RoleRef};
use super::rule::{Rule, missing, quoted_list};
use crate::identity::Identity;

/// Whether `identity` holds every one of `wanted` in `namespace` (empty: everywhere); else the refusal's text.
pub fn confirm(roles: &RoleIndex, identity: &Identity, namespace: &str, wanted: &[&Rule]) -> Result<(), String> {
    let held = roles.rules_for(identity, namespace);
    let missing = missing(&held.rules, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let mut descriptions: Vec<String> = missing.iter().map(Rule::describe).collect();
    descriptions.sort();
    descriptions.dedup();
    let mut text = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        identity.user,
        quoted_list(&identity.groups),
        descriptions.join("\n")
    );
    if !held.dangling.is_empty() {
        text = format!("{text}; resolution errors: {}", super::message::aggregate(&held.dangling));
    }
    Err(text)
}

/// As [`confirm`], for the rules behind a role reference.
pub fn confirm_reference(
    roles: &RoleIndex,
    identity: &Identity,
    namespace: &str,
    reference: &RoleRef,
) -> Result<(), String> {
    let rules = roles.role_rules(reference, namespace)?;
    confirm(roles, identity, namespace, &rules)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::authorize::index::Kind;

    #[test]
    fn the_refusal_lists_what_is_missing() {
        let mut roles = RoleIndex::default();
        let role = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
        roles.set(Kind::ClusterRole, "", "r", Some(role.to_string().as_bytes()));
        let binding =
            json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "ann"}]});
        roles.set(Kind::RoleBinding, "a", "b", Some(binding.to_string().as_bytes()));
        let ann = Identity::new("ann", &["team"]).authenticated();
        let reference = RoleRef { kind: "ClusterRole".into(), name: "r".into() };
        assert_eq!(confirm_reference(&roles, &ann, "a", &reference), Ok(()));
        assert_eq!(
            confirm_reference(&roles, &ann, "b", &reference).unwrap_err(),
            "user \"ann\" (groups=[\"team\" \"system:authenticated\"]) is attempting to grant RBAC permissions not \
             currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}"
        );
    }
}
