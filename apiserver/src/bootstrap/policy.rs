//! Default roles and bindings as objects, and how existing ones are brought up to date.

use serde_json::{Value, json};

use super::controller_roles::{self, CLUSTER, PREFIX, RESOURCES, WORKLOADS};
use super::roles::{EVENTS, RoleRow, RuleRow, SYSTEM_ROLES, USER_ROLES, named, on};
use crate::authenticate::bootstrap_token::NODE_GROUP;
use crate::authorize::index::GROUP;
use crate::authorize::rule::Rule;
use crate::identity::{AUTHENTICATED, CLUSTER_ADMINS, MASTERS, NODES, SERVICE_ACCOUNTS, UNAUTHENTICATED};

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// Whoever sets this to something else keeps their own version of a default role.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";
const SYSTEM: &str = "kube-system";
const PUBLIC: &str = "kube-public";

/// Everybody who holds a cluster role, as (role, subjects).
fn grants() -> Vec<(&'static str, &'static str, Vec<Value>)> {
    let scheduler = || vec![user("system:kube-scheduler")];
    vec![
        ("cluster-admin", "cluster-admin", vec![group(MASTERS)]),
        (CLUSTER_ADMINS, "cluster-admin", vec![group(CLUSTER_ADMINS)]),
        ("system:basic-user", "system:basic-user", vec![group(AUTHENTICATED)]),
        ("system:discovery", "system:discovery", vec![group(AUTHENTICATED)]),
        ("system:public-info-viewer", "system:public-info-viewer", vec![group(AUTHENTICATED), group(UNAUTHENTICATED)]),
        ("system:monitoring", "system:monitoring", vec![group("system:monitoring")]),
        ("system:node-proxier", "system:node-proxier", vec![user("system:kube-proxy")]),
        (
            "system:kube-controller-manager",
            "system:kube-controller-manager",
            vec![user("system:kube-controller-manager")],
        ),
        ("system:kube-dns", "system:kube-dns", vec![account("kube-dns")]),
        ("system:kube-scheduler", "system:kube-scheduler", scheduler()),
        ("system:volume-scheduler", "system:volume-scheduler", scheduler()),
        ("quorate:node-joiner", "quorate:node-joiner", vec![group(NODE_GROUP), group(NODES)]),
        ("quorate:member-reader", "quorate:member-reader", vec![group(NODES)]),
        // The Node authorizer takes this role's place; the binding without subjects is what upgrades expect to find.
        ("system:node", "system:node", Vec::new()),
        (
            "system:service-account-issuer-discovery",
            "system:service-account-issuer-discovery",
            vec![group(SERVICE_ACCOUNTS)],
        ),
        (
            "system:cluster-trust-bundle-discovery",
            "system:cluster-trust-bundle-discovery",
            vec![group(SERVICE_ACCOUNTS)],
        ),
    ]
}

/// A role within a namespace, and who holds it there.
struct LocalRow {
    namespace: &'static str,
    name: &'static str,
    rules: &'static [RuleRow],
    binding: &'static str,
    subjects: fn() -> Vec<Value>,
}

const LOCAL: &[LocalRow] = &[
    LocalRow {
        namespace: SYSTEM,
        name: "extension-apiserver-authentication-reader",
        rules: &[named("get list watch", "core", "configmaps", "extension-apiserver-authentication")],
        binding: "system::extension-apiserver-authentication-reader",
        subjects: || vec![user("system:kube-controller-manager"), user("system:kube-scheduler")],
    },
    LocalRow {
        namespace: SYSTEM,
        name: "system:controller:bootstrap-signer",
        rules: &[on("get list watch", "core", "secrets")],
        binding: "system:controller:bootstrap-signer",
        subjects: || vec![account("bootstrap-signer")],
    },
    LocalRow {
        namespace: SYSTEM,
        name: "system:controller:cloud-provider",
        rules: &[on("create get list watch", "core", "configmaps")],
        binding: "system:controller:cloud-provider",
        subjects: || vec![account("cloud-provider")],
    },
    LocalRow {
        namespace: SYSTEM,
        name: "system:controller:token-cleaner",
        rules: &[on("delete get list watch", "core", "secrets"), EVENTS],
        binding: "system:controller:token-cleaner",
        subjects: || vec![account("token-cleaner")],
    },
    LocalRow {
        namespace: SYSTEM,
        name: "system::leader-locking-kube-controller-manager",
        rules: &[
            on("watch", "core", "configmaps"),
            named("get update", "core", "configmaps", "kube-controller-manager"),
        ],
        binding: "system::leader-locking-kube-controller-manager",
        subjects: || vec![user("system:kube-controller-manager"), account("kube-controller-manager")],
    },
    LocalRow {
        namespace: SYSTEM,
        name: "system::leader-locking-kube-scheduler",
        rules: &[on("watch", "core", "configmaps"), named("get update", "core", "configmaps", "kube-scheduler")],
        binding: "system::leader-locking-kube-scheduler",
        subjects: || vec![user("system:kube-scheduler"), account("kube-scheduler")],
    },
    LocalRow {
        namespace: PUBLIC,
        name: "system:controller:bootstrap-signer",
        rules: &[
            on("get list watch", "core", "configmaps"),
            named("update", "core", "configmaps", "cluster-info"),
            EVENTS,
        ],
        binding: "system:controller:bootstrap-signer",
        subjects: || vec![account("bootstrap-signer")],
    },
    LocalRow {
        namespace: PUBLIC,
        name: "kubeadm:bootstrap-signer-clusterinfo",
        rules: &[named("get", "core", "configmaps", "cluster-info")],
        binding: "kubeadm:bootstrap-signer-clusterinfo",
        subjects: || vec![user("system:anonymous")],
    },
];

/// All default RBAC objects.
pub(super) fn objects() -> Vec<Value> {
    let mut all: Vec<Value> =
        USER_ROLES.iter().chain(SYSTEM_ROLES).map(|row| cluster_role(row.name, row, row_rules(row))).collect();
    for row in [WORKLOADS, CLUSTER, RESOURCES].concat() {
        let name = format!("{PREFIX}{}", row.name);
        all.push(cluster_role(&name, &row, controller_roles::rules(&row)));
        all.push(binding("ClusterRoleBinding", None, &name, "ClusterRole", &name, &[account(row.name)]));
    }
    for (name, role, subjects) in grants() {
        all.push(binding("ClusterRoleBinding", None, name, "ClusterRole", role, &subjects));
    }
    for row in LOCAL {
        let rules: Vec<Rule> = row.rules.iter().map(RuleRow::rule).collect();
        all.push(json!({
            "apiVersion": API_VERSION, "kind": "Role",
            "metadata": metadata(Some(row.namespace), row.name, ""),
            "rules": rules,
        }));
        all.push(binding("RoleBinding", Some(row.namespace), row.binding, "Role", row.name, &(row.subjects)()));
    }
    all
}

/// A row's own rules; for an aggregated one those of all rows that aggregate to it, so that what is shown is what
/// is granted.
fn row_rules(row: &RoleRow) -> Vec<Rule> {
    if !row.aggregates {
        return row.rules.iter().map(RuleRow::rule).collect();
    }
    USER_ROLES.iter().filter(|other| other.aggregate_to == row.name).flat_map(row_rules).collect()
}

fn cluster_role(name: &str, row: &RoleRow, rules: Vec<Rule>) -> Value {
    let mut role = json!({
        "apiVersion": API_VERSION, "kind": "ClusterRole",
        "metadata": metadata(None, name, row.aggregate_to),
        "rules": rules,
    });
    if row.aggregates {
        let label = format!("{AGGREGATE}{}", row.name);
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
    }
    role
}

fn binding(kind: &str, namespace: Option<&str>, name: &str, role_kind: &str, role: &str, subjects: &[Value]) -> Value {
    let mut binding = json!({
        "apiVersion": API_VERSION, "kind": kind,
        "metadata": metadata(namespace, name, ""),
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role},
    });
    if !subjects.is_empty() {
        binding["subjects"] = json!(subjects);
    }
    binding
}

fn metadata(namespace: Option<&str>, name: &str, aggregate_to: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {AUTO_UPDATE: "true"},
    });
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    if !aggregate_to.is_empty() {
        metadata["labels"][format!("{AGGREGATE}{aggregate_to}")] = json!("true");
    }
    metadata
}

fn user(name: &str) -> Value {
    json!({"apiGroup": GROUP, "kind": "User", "name": name})
}

fn group(name: &str) -> Value {
    json!({"apiGroup": GROUP, "kind": "Group", "name": name})
}

fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": SYSTEM})
}

/// What brings an existing default object up to date.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Repair {
    Update(Value),
    /// A binding's role cannot be changed: it is deleted and made anew.
    Recreate,
}

/// What an existing default object lacks is added; what it has beyond that stays. `None` when nothing is lacking, or
/// when its owner has taken it out of our hands.
pub(super) fn reconciled(existing: &Value, wanted: &Value) -> Option<Repair> {
    let annotations = existing.pointer("/metadata/annotations");
    if annotations.and_then(|all| all.get(AUTO_UPDATE)).and_then(Value::as_str) == Some("false") {
        return None;
    }
    let is_binding = wanted.get("roleRef").is_some();
    // With its subjects added, the system's users would hold whatever role it leads to now.
    if is_binding && existing.get("roleRef") != wanted.get("roleRef") {
        return Some(Repair::Recreate);
    }
    let mut merged = existing.clone();
    let aggregated = wanted.get("aggregationRule").is_some();
    let list = if is_binding { "subjects" } else { "rules" };
    // Aggregated rules belong to whoever keeps them equal to their parts.
    let lists: &[&str] = if aggregated { &[] } else { &[list] };
    for list in lists {
        let lacking: Vec<Value> = items(wanted, list).filter(|item| !contains(existing, list, item)).cloned().collect();
        if !lacking.is_empty() {
            merged[*list] = items(existing, list).cloned().chain(lacking).collect();
        }
    }
    if !is_binding {
        aggregate(&mut merged, existing, wanted);
    }
    for kind in ["labels", "annotations"] {
        let Some(all) = wanted["metadata"][kind].as_object() else { continue };
        for (key, value) in all {
            if existing["metadata"][kind].get(key).is_none() {
                merged["metadata"][kind][key] = value.clone();
            }
        }
    }
    (merged != *existing).then_some(Repair::Update(merged))
}

/// A role is put together from the roles that it should be, and from others that were added; a role that should not
/// be put together at all stands by itself again.
fn aggregate(merged: &mut Value, existing: &Value, wanted: &Value) {
    const RULE: &str = "aggregationRule";
    const SELECTORS: &str = "clusterRoleSelectors";
    let none = Value::Null;
    let (has, should) = (existing.get(RULE).unwrap_or(&none), wanted.get(RULE));
    let Some(should) = should else {
        if let Some(fields) = merged.as_object_mut() {
            fields.remove(RULE);
        }
        return;
    };
    let lacking: Vec<Value> =
        items(should, SELECTORS).filter(|item| !items(has, SELECTORS).any(|own| own == *item)).cloned().collect();
    if !lacking.is_empty() {
        let all: Vec<Value> = items(has, SELECTORS).cloned().chain(lacking).collect();
        merged[RULE] = json!({SELECTORS: all});
    }
}

fn items<'a>(object: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    object.get(list).and_then(Value::as_array).into_iter().flatten()
}

fn contains(object: &Value, list: &str, item: &Value) -> bool {
    let normal = |value: &Value| serde_json::from_value::<Rule>(value.clone()).ok();
    items(object, list).any(|own| own == item || (list == "rules" && normal(own) == normal(item)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_binding_leads_to_a_role() {
        let all = objects();
        let named = |kind: &str| -> BTreeSet<(String, String)> {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            all.iter()
                .filter(|object| object["kind"] == kind)
                .map(|object| (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"])))
                .collect()
        };
        let (cluster_roles, roles) = (named("ClusterRole"), named("Role"));
        assert!(cluster_roles.len() > 60, "{}", cluster_roles.len());
        for binding in all.iter().filter(|object| object.get("roleRef").is_some()) {
            let role = binding["roleRef"]["name"].as_str().unwrap().to_owned();
            let namespace = binding["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
            let found = if binding["roleRef"]["kind"] == "ClusterRole" {
                cluster_roles.contains(&(String::new(), role))
            } else {
                roles.contains(&(namespace, role))
            };
            assert!(found, "{binding}");
        }
    }

    #[test]
    fn aggregated_roles_show_all_their_rules() {
        let all = objects();
        let rules = |name: &str| {
            let role =
                all.iter().find(|role| role["kind"] == "ClusterRole" && role["metadata"]["name"] == name).unwrap();
            role["rules"].as_array().unwrap().len()
        };
        assert_eq!(rules("view"), rules("system:aggregate-to-view"));
        assert_eq!(rules("edit"), rules("view") + rules("system:aggregate-to-edit"));
        assert_eq!(rules("admin"), rules("edit") + rules("system:aggregate-to-admin"));
    }

    #[test]
    fn reconciling_adds_and_never_takes() {
        let rule = |verb: &str| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
        let role = |rules: Vec<Value>| json!({"metadata": {"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}, "annotations": {AUTO_UPDATE: "true"}}, "rules": rules});
        let wanted = role(vec![rule("get")]);
        assert_eq!(reconciled(&wanted, &wanted), None);
        let own = role(vec![rule("list")]);
        assert_eq!(reconciled(&own, &wanted), Some(Repair::Update(role(vec![rule("list"), rule("get")]))));
        let mut kept = own;
        kept["metadata"]["annotations"][AUTO_UPDATE] = json!("false");
        assert_eq!(reconciled(&kept, &wanted), None);
    }

    #[test]
    fn a_binding_to_another_role_is_made_anew() {
        let wanted = binding("ClusterRoleBinding", None, "b", "ClusterRole", "view", &[user("u")]);
        let mut taken = wanted.clone();
        taken["roleRef"]["name"] = json!("cluster-admin");
        assert_eq!(reconciled(&taken, &wanted), Some(Repair::Recreate));
        taken["metadata"]["annotations"][AUTO_UPDATE] = json!("false");
        assert_eq!(reconciled(&taken, &wanted), None);
    }

    #[test]
    fn an_aggregated_role_gets_its_rule_back() {
        let wanted = objects().into_iter().find(|object| object["metadata"]["name"] == "view").unwrap();
        let mut bare = wanted.clone();
        bare.as_object_mut().unwrap().remove("aggregationRule");
        assert_eq!(reconciled(&bare, &wanted), Some(Repair::Update(wanted.clone())));
        let own = json!({"matchLabels": {"own": "true"}});
        let mut more = bare.clone();
        more["aggregationRule"] = json!({"clusterRoleSelectors": [own]});
        let Some(Repair::Update(both)) = reconciled(&more, &wanted) else { panic!("nothing is repaired") };
        let selectors = both["aggregationRule"]["clusterRoleSelectors"].as_array().unwrap();
        assert_eq!((selectors.len(), &selectors[0]), (2, &own));
    }
}
