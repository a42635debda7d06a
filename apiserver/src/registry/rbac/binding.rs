//! RoleBinding and ClusterRoleBinding: who has a role.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::Value;

use super::super::defaulting::{default_text, ensure, text as text_of};
use super::super::display::{AGE, NAME, age, field, items_at, name, text, text_at, wide};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Strategy};
use super::GROUP;

pub(crate) static ROLE_BINDING: Strategy = Strategy {
    default,
    validate_create: |binding| validate(binding, &["Role", "ClusterRole"], true),
    validate_update: |new, old| validate_update(new, old, &["Role", "ClusterRole"], true),
    validate_name: names::name_is_path_segment,
    columns: COLUMNS,
    cells,
    allow_create_on_update: true,
    ..Strategy::DEFAULT
};

pub(crate) static CLUSTER_ROLE_BINDING: Strategy = Strategy {
    validate_create: |binding| validate(binding, &["ClusterRole"], false),
    validate_update: |new, old| validate_update(new, old, &["ClusterRole"], false),
    ..ROLE_BINDING
};

const COLUMNS: &[Column] = &[
    NAME,
    text("Role", "The role that is given."),
    AGE,
    wide(text("Users", "The users who have it.")),
    wide(text("Groups", "The groups that have it.")),
    wide(text("ServiceAccounts", "The service accounts that have it.")),
];

fn cells(binding: &Object, now: Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", text_at(binding, "/roleRef/kind"), text_at(binding, "/roleRef/name"));
    let mut cells = vec![name(binding), Value::from(role), age(binding, now)];
    for kind in ["User", "Group", "ServiceAccount"] {
        let subjects: Vec<String> = items_at(binding, "/subjects")
            .iter()
            .filter(|subject| field(subject, "kind") == kind)
            .map(|subject| match (kind, field(subject, "namespace")) {
                ("ServiceAccount", namespace) => format!("{namespace}/{}", field(subject, "name")),
                _ => field(subject, "name").to_owned(),
            })
            .collect();
        cells.push(Value::from(subjects.join(", ")));
    }
    cells
}

fn default(binding: &mut Object) {
    default_text(ensure(binding.as_map_mut(), "roleRef"), "apiGroup", GROUP);
    let subjects = binding.as_map_mut().get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        if matches!(text_of(subject, "kind"), "User" | "Group") {
            default_text(subject, "apiGroup", GROUP);
        }
    }
}

fn validate(binding: &Object, role_kinds: &[&str], namespaced: bool) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let role = At::top(binding, "roleRef");
    errors.one_of(&role.field("apiGroup"), &[GROUP]);
    errors.one_of(&role.field("kind"), role_kinds);
    let role_name = role.field("name");
    if errors.need(&role_name) {
        errors.invalid_each(&role_name, names::name_is_path_segment(role_name.text(), false));
    }
    for subject in At::top(binding, "subjects").items() {
        judge_subject(&subject, namespaced, &mut errors);
    }
    errors.into_vec()
}

fn judge_subject(subject: &At<'_>, namespaced: bool, errors: &mut Errors) {
    let (own_name, group, kind) = (subject.field("name"), subject.field("apiGroup"), subject.field("kind"));
    errors.need(&own_name);
    match kind.text() {
        "ServiceAccount" => {
            if !own_name.is_empty() {
                errors.invalid_each(&own_name, names::name_is_dns_subdomain(own_name.text(), false));
            }
            errors.one_of(&group, &[""]);
            if !namespaced && subject.field("namespace").is_empty() {
                errors.required(&subject.field("namespace"), "");
            }
        }
        "User" | "Group" => errors.one_of(&group, &[GROUP]),
        _ => errors.not_supported(&kind, &["Group", "ServiceAccount", "User"]),
    }
}

/// Another role is another binding.
fn validate_update(new: &Object, old: &Object, role_kinds: &[&str], namespaced: bool) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let (role, before) = (At::top(new, "roleRef"), At::top(old, "roleRef"));
    if role.value() != before.value() {
        errors.invalid(&role, "cannot change roleRef");
    }
    errors.extend(validate(new, role_kinds, namespaced));
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, check_update, row, stored};
    use super::*;

    fn binding(kind: &str) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "readers"},
            "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "name": "ann"}, {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        })
    }

    #[test]
    fn groups_are_filled_in() {
        let stored = stored(&ROLE_BINDING, binding("RoleBinding"));
        assert_eq!(
            stored,
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "readers"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"},
                    {"kind": "ServiceAccount", "name": "robot", "namespace": "default"},
                ],
            })
        );
        assert_eq!(row(&ROLE_BINDING, stored), ["readers", "ClusterRole/view", "10m", "ann", "", "default/robot"]);
    }

    #[test]
    fn bindings_are_judged() {
        check(
            &ROLE_BINDING,
            &binding("RoleBinding"),
            &[
                (
                    "/roleRef",
                    json!({"apiGroup": "x", "kind": "Group"}),
                    &[
                        "roleRef.apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
                        "roleRef.kind: Unsupported value: \"Group\": supported values: \"Role\", \"ClusterRole\"",
                        "roleRef.name: Required value",
                    ],
                ),
                (
                    "/subjects",
                    json!([{"kind": "Robot", "name": "r"}, {"kind": "User"}]),
                    &[
                        "subjects[0].kind: Unsupported value: \"Robot\": supported values: \"Group\", \"ServiceAccount\", \"User\"",
                        "subjects[1].name: Required value",
                    ],
                ),
            ],
        );
        check(
            &CLUSTER_ROLE_BINDING,
            &binding("ClusterRoleBinding"),
            &[(
                "/subjects",
                json!([{"kind": "ServiceAccount", "name": "r"}]),
                &["subjects[0].namespace: Required value"],
            )],
        );
        check_update(
            &ROLE_BINDING,
            &binding("RoleBinding"),
            &[(
                "/roleRef/name",
                json!("edit"),
                &[
                    "roleRef: Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"ClusterRole\",\"name\":\"edit\"}: cannot change roleRef",
                ],
            )],
        );
    }
}
