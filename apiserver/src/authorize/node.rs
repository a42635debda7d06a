//! What a node may do: its own Node, Lease and pods, and whatever those pods refer to.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;
use quorate_raft_store::WatchRange;

use super::rule::Rule;
use crate::attributes::Attributes;
use crate::bootstrap::roles;
use crate::follow::{Follower, Source, View};
use crate::storage::{Home, Stored};

pub(crate) mod references;

pub(crate) use references::Reference;

const LEASES: &str = "kube-node-lease";

/// Which node each pod is bound to, and what the pods of each node refer to.
#[derive(Default)]
pub struct NodeGraph(RwLock<Graph>);

#[derive(Default)]
pub(crate) struct Graph {
    /// By `NAMESPACE/NAME`.
    pods: HashMap<Box<str>, Bound>,
    nodes: HashMap<Box<str>, Counts>,
}

/// How many pods of one node refer to each object, by the object's namespace.
type Counts = BTreeMap<(Box<str>, Reference), u32>;

struct Bound {
    node: Box<str>,
    references: Box<[Reference]>,
}

impl std::fmt::Debug for NodeGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeGraph").field("pods", &self.0.read().pods.len()).finish_non_exhaustive()
    }
}

pub(super) fn follow(source: Source<'_>, graph: Arc<NodeGraph>) -> Follower {
    let (start, end) = Home::new("", "pods").range("");
    Follower::start("pods of nodes", source, WatchRange { start, end }, graph)
}

impl View for NodeGraph {
    type State = Graph;

    fn state(&self) -> &RwLock<Graph> {
        &self.0
    }

    fn put(&self, graph: &mut Graph, stored: &Stored) {
        let Some(key) = pod_key(&stored.key) else { return };
        match references::read(stored.body()) {
            // Most changes of a pod are of its status: they need no work.
            Some((node, references))
                if graph
                    .pods
                    .get(key)
                    .is_some_and(|known| *known.node == *node && *known.references == *references) => {}
            Some((node, references)) => {
                graph.set(key, Some(Bound { node: node.into(), references: references.into() }));
            }
            None => graph.set(key, None),
        }
    }

    fn delete(&self, graph: &mut Graph, key: &[u8]) {
        if let Some(key) = pod_key(key) {
            graph.set(key, None);
        }
    }
}

impl Graph {
    fn set(&mut self, key: &str, bound: Option<Bound>) {
        let namespace: Box<str> = key.split('/').next().unwrap_or_default().into();
        if let Some(old) = self.pods.remove(key)
            && let Some(counts) = self.nodes.get_mut(&old.node)
        {
            for reference in old.references {
                let entry = (namespace.clone(), reference);
                match counts.get_mut(&entry) {
                    Some(count) if *count > 1 => *count -= 1,
                    _ => drop(counts.remove(&entry)),
                }
            }
            if counts.is_empty() {
                self.nodes.remove(&old.node);
            }
        }
        if let Some(bound) = bound {
            let counts = self.nodes.entry(bound.node.clone()).or_default();
            for reference in &bound.references {
                *counts.entry((namespace.clone(), reference.clone())).or_default() += 1;
            }
            self.pods.insert(key.into(), bound);
        }
    }
}

impl NodeGraph {
    fn refers(&self, node: &str, namespace: &str, reference: Reference) -> bool {
        let graph = self.0.read();
        graph.nodes.get(node).is_some_and(|counts| counts.contains_key(&(namespace.into(), reference)))
    }

    fn is_bound(&self, node: &str, namespace: &str, pod: &str) -> bool {
        self.0.read().pods.get(format!("{namespace}/{pod}").as_str()).is_some_and(|bound| *bound.node == *node)
    }
}

fn pod_key(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key).ok()?.splitn(4, '/').nth(3)
}

/// What any node may do before it is narrowed to the node's own objects.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| roles::NODE.iter().map(roles::RuleRow::rule).collect());

/// Allows, or says why not (empty: it is not for this authorizer to say).
pub(super) fn decide(node: &str, attributes: &Attributes<'_>, graph: &NodeGraph) -> Result<(), String> {
    if !attributes.is_resource {
        return Err(String::new());
    }
    match (attributes.group, attributes.resource) {
        ("", "secrets") => read_referenced(node, attributes, graph, Reference::Secret),
        ("", "configmaps") => read_referenced(node, attributes, graph, Reference::ConfigMap),
        ("", "persistentvolumeclaims") => claims(node, attributes, graph),
        ("", "serviceaccounts") => service_accounts(node, attributes, graph),
        ("", "pods") => pods(node, attributes, graph),
        ("", "nodes") => nodes(node, attributes),
        ("coordination.k8s.io", "leases") => leases(node, attributes),
        ("storage.k8s.io", "csinodes") => named_like_the_node(node, attributes, "CSINode"),
        _ => by_rules(attributes),
    }
}

fn by_rules(attributes: &Attributes<'_>) -> Result<(), String> {
    if RULES.iter().any(|rule| rule.allows(attributes)) { Ok(()) } else { Err(String::new()) }
}

fn refuse(why: &str) -> Result<(), String> {
    Err(why.to_owned())
}

fn unrelated(node: &str) -> Result<(), String> {
    Err(format!("no relationship found between node '{node}' and this object"))
}

fn read_referenced(
    node: &str,
    attributes: &Attributes<'_>,
    graph: &NodeGraph,
    reference: fn(Box<str>) -> Reference,
) -> Result<(), String> {
    match attributes.verb {
        "get" | "list" | "watch" => {}
        _ => return refuse("can only read resources of this type"),
    }
    if !attributes.subresource.is_empty() {
        return refuse("cannot read subresource");
    }
    if attributes.namespace.is_empty() {
        return refuse("can only read namespaced object of this type");
    }
    if attributes.name.is_empty() {
        return refuse("No Object name found");
    }
    if graph.refers(node, attributes.namespace, reference(attributes.name.into())) { Ok(()) } else { unrelated(node) }
}

fn claims(node: &str, attributes: &Attributes<'_>, graph: &NodeGraph) -> Result<(), String> {
    let allowed = match attributes.subresource {
        "" => attributes.verb == "get",
        "status" => matches!(attributes.verb, "get" | "update" | "patch"),
        _ => false,
    };
    if !allowed {
        return refuse("can only get individual resources of this type");
    }
    let related = graph.refers(node, attributes.namespace, Reference::Claim(attributes.name.into()));
    if related { Ok(()) } else { unrelated(node) }
}

fn service_accounts(node: &str, attributes: &Attributes<'_>, graph: &NodeGraph) -> Result<(), String> {
    match (attributes.subresource, attributes.verb) {
        ("token", "create") if attributes.name.is_empty() => {
            return refuse("can only create tokens for individual service accounts");
        }
        ("token", "create") | ("", "get") => {}
        _ => return refuse("can only read individual service accounts and create tokens for them"),
    }
    let related = graph.refers(node, attributes.namespace, Reference::ServiceAccount(attributes.name.into()));
    if related { Ok(()) } else { unrelated(node) }
}

fn pods(node: &str, attributes: &Attributes<'_>, graph: &NodeGraph) -> Result<(), String> {
    let own = || {
        if graph.is_bound(node, attributes.namespace, attributes.name) { Ok(()) } else { unrelated(node) }
    };
    match (attributes.subresource, attributes.verb) {
        // The admission plugin lets a node create mirror pods bound to itself only.
        ("", "create") => Ok(()),
        ("", "list" | "watch") if selects_node(attributes.field_selector, node) => Ok(()),
        ("", "list" | "watch") => refuse("can only list/watch pods with spec.nodeName field selector"),
        ("", "get" | "delete") | ("status", "get" | "update" | "patch") | ("eviction", "create") => own(),
        _ => refuse("can only read, delete or evict its own pods, and update their status"),
    }
}

fn selects_node(field_selector: &str, node: &str) -> bool {
    field_selector.split(',').any(|term| {
        term.split_once('=').is_some_and(|(label, value)| {
            label.trim() == "spec.nodeName" && value.trim_start_matches('=').trim() == node
        })
    })
}

/// Nodes read each other (routes lead from node to node), but write only themselves.
fn nodes(node: &str, attributes: &Attributes<'_>) -> Result<(), String> {
    match (attributes.subresource, attributes.verb) {
        ("", "get" | "list" | "watch" | "create") => Ok(()),
        ("" | "status", "update" | "patch" | "get") if attributes.name == node => Ok(()),
        ("" | "status", "update" | "patch") => {
            Err(format!("node '{node}' cannot modify '{}', only its own Node object", attributes.name))
        }
        _ => refuse("can only read nodes, and create and modify its own Node object"),
    }
}

fn leases(node: &str, attributes: &Attributes<'_>) -> Result<(), String> {
    if !matches!(attributes.verb, "get" | "create" | "update" | "patch" | "delete") {
        return refuse("can only get, create, update, patch, or delete a node lease");
    }
    if attributes.namespace != LEASES {
        return Err(format!("can only access leases in the {LEASES:?} system namespace"));
    }
    if attributes.verb != "create" && attributes.name != node {
        return refuse("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn named_like_the_node(node: &str, attributes: &Attributes<'_>, kind: &str) -> Result<(), String> {
    if attributes.verb != "create" && attributes.name != node {
        return Err(format!("can only access {kind} with the same name as the requesting node"));
    }
    by_rules(attributes)
}

#[cfg(test)]
mod tests;
