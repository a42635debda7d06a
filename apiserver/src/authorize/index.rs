//! All roles and bindings, indexed by subject: the state that RBAC decisions are made on.

use std::collections::{BTreeMap, BTreeSet};

use quorate_api::selector::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::rule::Rule;
use crate::attributes::Attributes;
use crate::identity::Identity;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
/// Aggregated roles may aggregate aggregated roles; deeper nests are cut here.
const MAX_AGGREGATION_DEPTH: usize = 8;

/// Whether and why a role's or binding's state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ClusterRole,
    Role,
    ClusterRoleBinding,
    RoleBinding,
}

impl Kind {
    pub fn from_plural(plural: &str) -> Option<Self> {
        match plural {
            "clusterroles" => Some(Self::ClusterRole),
            "roles" => Some(Self::Role),
            "clusterrolebindings" => Some(Self::ClusterRoleBinding),
            "rolebindings" => Some(Self::RoleBinding),
            _ => None,
        }
    }
}

/// What a role grants, and where else its rules come from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Role {
    pub metadata: Metadata,
    pub rules: Option<Vec<Rule>>,
    pub aggregation_rule: Option<AggregationRule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    pub labels: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregationRule {
    pub cluster_role_selectors: Option<Vec<Value>>,
}

/// To whom a role is given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Binding {
    pub subjects: Option<Vec<Subject>>,
    pub role_ref: RoleRef,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleRef {
    pub kind: String,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Subject {
    pub kind: String,
    pub name: String,
    pub namespace: Option<String>,
}

/// A user or group as bindings name it; service accounts are users.
enum Holder {
    User(String),
    Group(String),
}

/// The namespace is empty for cluster-wide objects.
type Key = (String, String);

struct ClusterRole {
    labels: BTreeMap<String, String>,
    rules: Vec<Rule>,
    aggregates: Option<Vec<LabelSelector>>,
}

/// See the module.
#[derive(Default)]
pub struct RoleIndex {
    cluster_roles: BTreeMap<String, ClusterRole>,
    roles: BTreeMap<Key, Vec<Rule>>,
    bindings: BTreeMap<Key, Binding>,
    /// Which bindings name a user, and which a group.
    by_user: BTreeMap<String, BTreeSet<Key>>,
    by_group: BTreeMap<String, BTreeSet<Key>>,
}

impl std::fmt::Debug for RoleIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoleIndex")
            .field("cluster_roles", &self.cluster_roles.len())
            .field("roles", &self.roles.len())
            .field("bindings", &self.bindings.len())
            .finish_non_exhaustive()
    }
}

/// Rules that were found, and references that led nowhere.
#[derive(Debug, Default)]
pub struct Resolved<'a> {
    pub rules: Vec<&'a Rule>,
    pub dangling: Vec<String>,
}

impl RoleIndex {
    /// Takes in the new state of one object; `None` when it is gone. What cannot be read grants nothing.
    pub fn set(&mut self, kind: Kind, namespace: &str, name: &str, object: Option<&[u8]>) {
        let key = (namespace.to_owned(), name.to_owned());
        match kind {
            Kind::ClusterRole => match object.and_then(parse::<Role>) {
                Some(role) => drop(self.cluster_roles.insert(name.to_owned(), cluster_role(role))),
                None => drop(self.cluster_roles.remove(name)),
            },
            Kind::Role => match object.and_then(parse::<Role>) {
                Some(role) => drop(self.roles.insert(key, role.rules.unwrap_or_default())),
                None => drop(self.roles.remove(&key)),
            },
            Kind::ClusterRoleBinding | Kind::RoleBinding => self.set_binding(key, object.and_then(parse::<Binding>)),
        }
    }

    fn set_binding(&mut self, key: Key, binding: Option<Binding>) {
        if let Some(old) = self.bindings.remove(&key) {
            for holder in holders(&old, &key.0) {
                let (held, name) = self.held(holder);
                if let Some(keys) = held.get_mut(&name) {
                    keys.remove(&key);
                    if keys.is_empty() {
                        held.remove(&name);
                    }
                }
            }
        }
        if let Some(binding) = binding {
            for holder in holders(&binding, &key.0) {
                let (held, name) = self.held(holder);
                held.entry(name).or_default().insert(key.clone());
            }
            self.bindings.insert(key, binding);
        }
    }

    fn held(&mut self, holder: Holder) -> (&mut BTreeMap<String, BTreeSet<Key>>, String) {
        match holder {
            Holder::User(name) => (&mut self.by_user, name),
            Holder::Group(name) => (&mut self.by_group, name),
        }
    }

    /// Whether `attributes` are allowed; else the references that led nowhere, which may be why.
    pub fn allows(&self, attributes: &Attributes<'_>) -> Result<(), Vec<String>> {
        let mut dangling = Vec::new();
        let namespace = if attributes.is_resource { attributes.namespace } else { "" };
        for (key, binding) in self.bindings_of(attributes.identity, namespace) {
            match self.role_rules(&binding.role_ref, &key.0) {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => return Ok(()),
                Ok(_) => {}
                Err(error) => dangling.push(error),
            }
        }
        Err(dangling)
    }

    /// Everything `identity` holds in `namespace`, cluster-wide grants included.
    pub fn rules_for(&self, identity: &Identity, namespace: &str) -> Resolved<'_> {
        let mut resolved = Resolved::default();
        for (key, binding) in self.bindings_of(identity, namespace) {
            match self.role_rules(&binding.role_ref, &key.0) {
                Ok(rules) => resolved.rules.extend(rules),
                Err(error) => resolved.dangling.push(error),
            }
        }
        resolved
    }

    /// The rules behind a reference made in `namespace` (empty: by a cluster-wide binding).
    pub fn role_rules(&self, reference: &RoleRef, namespace: &str) -> Result<Vec<&Rule>, String> {
        let RoleRef { kind, name } = reference;
        if kind == "ClusterRole" {
            let Some((name, _)) = self.cluster_roles.get_key_value(name) else {
                return Err(format!("clusterrole.rbac.authorization.k8s.io {name:?} not found"));
            };
            let mut rules = Vec::new();
            self.collect(name, &mut BTreeSet::new(), &mut rules, 0);
            return Ok(rules);
        }
        match self.roles.get(&(namespace.to_owned(), name.clone())) {
            Some(rules) => Ok(rules.iter().collect()),
            None => Err(format!("role.rbac.authorization.k8s.io {name:?} not found")),
        }
    }

    /// Adds the rules of a cluster role and of all it aggregates, each role once.
    fn collect<'a>(&'a self, name: &'a str, seen: &mut BTreeSet<&'a str>, rules: &mut Vec<&'a Rule>, depth: usize) {
        if depth > MAX_AGGREGATION_DEPTH || !seen.insert(name) {
            return;
        }
        let Some(role) = self.cluster_roles.get(name) else { return };
        let Some(selectors) = &role.aggregates else {
            rules.extend(&role.rules);
            return;
        };
        for (other, candidate) in &self.cluster_roles {
            if selectors.iter().any(|selector| selector.matches(&candidate.labels)) {
                self.collect(other, seen, rules, depth + 1);
            }
        }
    }

    fn bindings_of<'a>(
        &'a self,
        identity: &'a Identity,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Binding)> + 'a {
        let of_groups = identity.groups.iter().filter_map(|group| self.by_group.get(group));
        let all = self.by_user.get(&identity.user).into_iter().chain(of_groups);
        all.flatten()
            .filter(move |(scope, _)| scope.is_empty() || scope == namespace)
            .filter_map(|key| self.bindings.get_key_value(key))
    }
}

fn parse<T: for<'de> Deserialize<'de>>(json: &[u8]) -> Option<T> {
    serde_json::from_slice(json)
        .inspect_err(|error| tracing::warn!(%error, "a role or binding cannot be read and grants nothing"))
        .ok()
}

fn cluster_role(role: Role) -> ClusterRole {
    let aggregates = role.aggregation_rule.map(|rule| {
        let selectors = rule.cluster_role_selectors.unwrap_or_default();
        selectors.iter().filter_map(|selector| LabelSelector::from_json(Some(selector)).ok()).collect()
    });
    ClusterRole { labels: role.metadata.labels.unwrap_or_default(), rules: role.rules.unwrap_or_default(), aggregates }
}

fn holders(binding: &Binding, namespace: &str) -> Vec<Holder> {
    let subjects = binding.subjects.iter().flatten();
    subjects
        .filter_map(|subject| match subject.kind.as_str() {
            "User" => Some(Holder::User(subject.name.clone())),
            "Group" => Some(Holder::Group(subject.name.clone())),
            "ServiceAccount" => {
                let home = subject.namespace.as_deref().unwrap_or(namespace);
                Some(Holder::User(format!("system:serviceaccount:{home}:{}", subject.name)))
            }
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(index: &mut RoleIndex, kind: Kind, namespace: &str, name: &str, object: &Value) {
        index.set(kind, namespace, name, Some(object.to_string().as_bytes()));
    }

    fn role(labels: &Value, rules: &Value) -> Value {
        json!({"metadata": {"labels": labels}, "rules": rules})
    }

    fn binding(kind: &str, role: &str, subject_kind: &str, subject: &str) -> Value {
        json!({"roleRef": {"kind": kind, "name": role}, "subjects": [{"kind": subject_kind, "name": subject}]})
    }

    fn index() -> RoleIndex {
        let mut index = RoleIndex::default();
        let pods = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
        set(&mut index, Kind::ClusterRole, "", "pods", &role(&json!({"to-view": "true"}), &pods));
        set(&mut index, Kind::ClusterRole, "", "secrets", &role(&json!({"to-edit": "true"}), &secrets));
        let aggregated = |selector: &str, labels: &Value| {
            json!({"metadata": {"labels": labels}, "rules": null,
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {selector: "true"}}]}})
        };
        set(&mut index, Kind::ClusterRole, "", "view", &aggregated("to-view", &json!({"to-edit": "true"})));
        set(&mut index, Kind::ClusterRole, "", "edit", &aggregated("to-edit", &json!(null)));
        set(&mut index, Kind::ClusterRoleBinding, "", "all", &binding("ClusterRole", "pods", "Group", "team"));
        set(&mut index, Kind::RoleBinding, "a", "edit", &binding("ClusterRole", "edit", "ServiceAccount", "robot"));
        set(&mut index, Kind::RoleBinding, "a", "none", &binding("Role", "absent", "User", "ann"));
        index
    }

    fn ask(index: &RoleIndex, identity: &Identity, resource: &str, namespace: &str) -> Result<(), Vec<String>> {
        index.allows(&Attributes { namespace, ..Attributes::resource(identity, "get", "", resource) })
    }

    #[test]
    fn bindings_reach_their_scope_only() {
        let index = index();
        let ann = Identity::new("ann", &["team"]);
        let robot = Identity::service_account("a", "robot");
        for (who, resource, namespace, expected) in [
            (&ann, "pods", "a", true),
            (&ann, "pods", "", true),
            (&ann, "secrets", "a", false),
            (&robot, "secrets", "a", true),
            (&robot, "secrets", "b", false),
            (&robot, "secrets", "", false),
            (&robot, "pods", "a", true),
            (&Identity::service_account("b", "robot"), "secrets", "a", false),
        ] {
            assert_eq!(ask(&index, who, resource, namespace).is_ok(), expected, "{} {resource} {namespace}", who.user);
        }
        let reasons = ask(&index, &ann, "secrets", "a").unwrap_err();
        assert_eq!(reasons, [r#"role.rbac.authorization.k8s.io "absent" not found"#]);
    }

    #[test]
    fn changes_take_effect_at_once() {
        let mut index = index();
        let robot = Identity::service_account("a", "robot");
        index.set(Kind::ClusterRole, "", "secrets", None);
        assert!(ask(&index, &robot, "secrets", "a").is_err(), "the aggregated role is gone");
        assert!(ask(&index, &robot, "pods", "a").is_ok());
        index.set(Kind::RoleBinding, "a", "edit", None);
        assert!(ask(&index, &robot, "pods", "a").is_err());
        assert!(!index.by_user.contains_key(&robot.user));
    }

    #[test]
    fn roles_that_aggregate_each_other_end() {
        let mut index = index();
        let aggregated = |selector: &str, label: &str| {
            json!({"metadata": {"labels": {label: "true"}},
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {selector: "true"}}]}})
        };
        set(&mut index, Kind::ClusterRole, "", "x", &aggregated("to-x", "to-y"));
        set(&mut index, Kind::ClusterRole, "", "y", &aggregated("to-y", "to-x"));
        let rules = index.role_rules(&RoleRef { kind: "ClusterRole".into(), name: "x".into() }, "").unwrap();
        assert!(rules.is_empty());
    }
}
