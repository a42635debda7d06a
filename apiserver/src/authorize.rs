//! Decides whether an identity may do what it asks: `system:masters`, then the Node authorizer, then RBAC.
//!
//! Decisions are made on views of this member, kept by watch; a refusal is given only after the view has caught up
//! with what the member has applied, so that whoever was just granted a right can use it at once.

pub mod escalation;
pub mod index;
pub mod message;
pub mod node;
pub mod rule;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use quorate_raft_store::WatchRange;

use crate::attributes::{Attributes, Decision};
use crate::follow::{Follower, Source, View};
use crate::identity::{Identity, MASTERS};
use crate::storage::{Home, Stored};
use index::{Kind, RoleIndex};
use node::NodeGraph;

/// How long a request waits for the views that it is judged by to be read for the first time.
const FIRST_READING: Duration = Duration::from_secs(5);

/// The configured authorizers, asked in order.
#[derive(Clone, Debug, Default)]
pub struct Authorizer {
    roles: Arc<Roles>,
    nodes: Arc<NodeGraph>,
    /// Absent in tests that fill the views by hand.
    followers: Option<Followers>,
}

#[derive(Clone, Debug)]
struct Followers {
    roles: Follower,
    pods: Follower,
}

impl Authorizer {
    /// Views kept up to date by tasks of the source's scope.
    pub(crate) fn start(source: Source<'_>) -> Self {
        let (roles, nodes) = (Arc::new(Roles::default()), Arc::new(NodeGraph::default()));
        let (first, last) = (Home::new(index::GROUP, "clusterrolebindings"), Home::new(index::GROUP, "roles"));
        let followers = Followers {
            roles: Follower::start(
                "roles",
                source,
                WatchRange { start: first.range("").0, end: last.range("").1 },
                roles.clone(),
            ),
            pods: node::follow(source, nodes.clone()),
        };
        Self { roles, nodes, followers: Some(followers) }
    }

    /// Whether roles and bindings have been read; before that everybody but masters would be refused.
    pub fn is_ready(&self) -> bool {
        self.followers.as_ref().is_none_or(|followers| followers.roles.is_loaded())
    }

    pub async fn wait_ready(&self) {
        if let Some(followers) = &self.followers {
            followers.roles.wait_loaded().await;
        }
    }

    /// Waits, bounded, for what `identity` is judged by. False: it cannot be judged yet, and a refusal would be wrong.
    pub(crate) async fn can_judge(&self, identity: &Identity) -> bool {
        let Some(followers) = self.followers.as_ref().filter(|_| !identity.in_group(MASTERS)) else { return true };
        followers.roles.loaded_within(FIRST_READING).await
            && (identity.node_name().is_none() || followers.pods.loaded_within(FIRST_READING).await)
    }

    pub async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let decision = self.decide(attributes);
        match (&decision, &self.followers) {
            (Decision::Deny { .. }, Some(followers)) => {
                followers.roles.catch_up().await;
                if attributes.identity.node_name().is_some() {
                    followers.pods.loaded_within(FIRST_READING).await;
                    followers.pods.catch_up().await;
                }
                self.decide(attributes)
            }
            _ => decision,
        }
    }

    /// The decision on what the views hold now.
    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.identity.in_group(MASTERS) {
            return Decision::Allow;
        }
        let mut reasons = Vec::new();
        if let Some(node) = attributes.identity.node_name() {
            match node::decide(node, attributes, &self.nodes) {
                Ok(()) => return Decision::Allow,
                Err(reason) if reason.is_empty() => {}
                Err(reason) => reasons.push(reason),
            }
        }
        match self.roles.0.read().allows(attributes) {
            Ok(()) => return Decision::Allow,
            Err(dangling) if dangling.is_empty() => {}
            Err(dangling) => reasons.push(format!("RBAC: {}", message::aggregate(&dangling))),
        }
        Decision::Deny { reason: reasons.join("\n") }
    }

    /// Roles and bindings as they stand.
    pub(crate) fn with_roles<T>(&self, read: impl FnOnce(&RoleIndex) -> T) -> T {
        read(&self.roles.0.read())
    }

    /// Takes in one role or binding by hand.
    #[cfg(test)]
    pub(crate) fn set_for_test(&self, kind: Kind, namespace: &str, name: &str, object: &serde_json::Value) {
        self.roles.0.write().set(kind, namespace, name, Some(object.to_string().as_bytes()));
    }
}

#[derive(Debug, Default)]
struct Roles(RwLock<RoleIndex>);

impl View for Roles {
    type State = RoleIndex;

    fn state(&self) -> &RwLock<RoleIndex> {
        &self.0
    }

    fn put(&self, roles: &mut RoleIndex, stored: &Stored) {
        if let Some((kind, namespace, name)) = place(&stored.key) {
            roles.set(kind, namespace, name, Some(stored.body()));
        }
    }

    fn delete(&self, roles: &mut RoleIndex, key: &[u8]) {
        if let Some((kind, namespace, name)) = place(key) {
            roles.set(kind, namespace, name, None);
        }
    }
}

/// Kind, namespace and name from a key `SCOPE/GROUP/RESOURCE/[NAMESPACE/]NAME`.
fn place(key: &[u8]) -> Option<(Kind, &str, &str)> {
    let mut parts = std::str::from_utf8(key).ok()?.splitn(4, '/').skip(2);
    let kind = Kind::from_plural(parts.next()?)?;
    let rest = parts.next()?;
    let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
    Some((kind, namespace, name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_read_back() {
        let group = index::GROUP;
        let key = Home::new(group, "roles").object("a", "r:x");
        assert_eq!(place(&key), Some((Kind::Role, "a", "r:x")));
        let key = Home::new(group, "clusterroles").object("", "system:node");
        assert_eq!(place(&key), Some((Kind::ClusterRole, "", "system:node")));
    }

    #[tokio::test]
    async fn masters_pass_and_reasons_are_joined() {
        let authorizer = Authorizer::default();
        let master = Identity::new("root", &[MASTERS]);
        assert_eq!(authorizer.authorize(&Attributes::resource(&master, "get", "", "secrets")).await, Decision::Allow);
        let binding =
            json!({"roleRef": {"kind": "ClusterRole", "name": "gone"}, "subjects": [{"kind": "User", "name": "ann"}]});
        authorizer.set_for_test(Kind::ClusterRoleBinding, "", "b", &binding);
        let ann = Identity::new("ann", &[]);
        let reason = r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#.to_owned();
        assert_eq!(
            authorizer.authorize(&Attributes::resource(&ann, "get", "", "pods")).await,
            Decision::Deny { reason }
        );
    }
}
