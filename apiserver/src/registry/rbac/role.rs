//! Role and ClusterRole: lists of what is allowed.

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;

use super::super::display;
use super::super::rules::{At, Errors};
use super::super::selectors;
use super::super::strategy::Strategy;

pub(crate) static ROLE: Strategy = Strategy {
    validate_create: |role| validate(role, true),
    validate_update: |new, _| validate(new, true),
    validate_name: names::name_is_path_segment,
    columns: display::CREATED_AT_COLUMNS,
    cells: display::created_at_cells,
    allow_create_on_update: true,
    ..Strategy::DEFAULT
};

pub(crate) static CLUSTER_ROLE: Strategy =
    Strategy { validate_create: validate_cluster_role, validate_update: |new, _| validate_cluster_role(new), ..ROLE };

fn validate_cluster_role(role: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.extend(validate(role, false));
    let aggregation = At::top(role, "aggregationRule");
    if aggregation.is_set() {
        let roles = aggregation.field("clusterRoleSelectors");
        if roles.is_empty() {
            errors.required(&roles, "at least one clusterRoleSelector required if aggregationRule is non-nil");
        }
        for selector in roles.items() {
            selectors::label_selector(&selector.filed_under(&roles), &mut errors);
        }
    }
    errors.into_vec()
}

fn validate(role: &Object, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Errors::default();
    for rule in At::top(role, "rules").items() {
        policy_rule(&rule, namespaced, &mut errors);
    }
    errors.into_vec()
}

/// About resources, or about other paths; never both.
fn policy_rule(rule: &At<'_>, namespaced: bool, errors: &mut Errors) {
    if rule.field("verbs").is_empty() {
        errors.required(&rule.field("verbs"), "");
    }
    let [groups, resources, only_names] = ["apiGroups", "resources", "resourceNames"].map(|field| rule.field(field));
    let urls = rule.field("nonResourceURLs");
    if !urls.is_empty() {
        if namespaced {
            errors.invalid(&urls, "namespaced rules cannot apply to non-resource URLs");
        }
        if [&groups, &resources, &only_names].iter().any(|field| !field.is_empty()) {
            errors.invalid(&urls, "rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if groups.is_empty() {
        errors.required(&groups, "resource rules must supply at least one api group");
    }
    if resources.is_empty() {
        errors.required(&resources, "resource rules must supply at least one resource");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::testing::{check, row, stored};
    use super::*;

    fn role(kind: &str) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "reader:all"},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
        })
    }

    #[test]
    fn roles_are_stored_as_they_are() {
        assert_eq!(stored(&ROLE, role("Role")), role("Role"));
        assert_eq!(row(&ROLE, role("Role")), ["reader:all", "2026-01-01T00:00:00Z"]);
        assert_eq!((ROLE.validate_name)("reader:all", false), [""; 0]);
        assert_eq!((ROLE.validate_name)("a/b", false), ["may not contain '/'"]);
    }

    #[test]
    fn rules_are_about_resources_or_paths() {
        check(
            &ROLE,
            &role("Role"),
            &[
                (
                    "/rules",
                    json!([{}]),
                    &[
                        "rules[0].verbs: Required value",
                        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                        "rules[0].resources: Required value: resource rules must supply at least one resource",
                    ],
                ),
                (
                    "/rules/0/nonResourceURLs",
                    json!(["/healthz"]),
                    &[
                        "rules[0].nonResourceURLs: Invalid value: [\"/healthz\"]: namespaced rules cannot apply to non-resource URLs",
                        "rules[0].nonResourceURLs: Invalid value: [\"/healthz\"]: rules cannot apply to both regular resources and non-resource URLs",
                    ],
                ),
            ],
        );
        check(
            &CLUSTER_ROLE,
            &role("ClusterRole"),
            &[
                ("/rules", json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]), &[]),
                (
                    "/aggregationRule",
                    json!({}),
                    &[
                        "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
                    ],
                ),
            ],
        );
    }
}
