//! The scheduler's read copy: nodes and the pods that occupy them, bound or assumed to be, and what namespaces, services
//! and owners say of pods.

use std::collections::{BTreeMap, BTreeSet};

use quorate_api::object::StringMap;
use quorate_api::selector::LabelSelector;
use serde_json::Value;

use crate::constraint::selector;
use crate::node::NodeInfo;
use crate::pod::{Owner, PodInfo, PodKey, string_map};
use crate::resources::{PODS, Resources};

/// On claims: both sides agree on the binding.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// A node and what stands on it.
#[derive(Clone, Debug)]
pub struct NodeState {
    pub node: NodeInfo,
    pub pods: BTreeMap<PodKey, PodInfo>,
    pub requested: Resources,
    pub assumed_requested: Resources,
}

impl NodeState {
    fn new(node: NodeInfo) -> Self {
        let (requested, assumed_requested) = (Resources::default(), Resources::default());
        Self { node, pods: BTreeMap::new(), requested, assumed_requested }
    }

    /// What is left for another pod, per resource.
    pub fn free(&self, resource: &str) -> i64 {
        if resource == PODS {
            return self.node.allocatable.get(PODS) - i64::try_from(self.pods.len()).unwrap_or(i64::MAX);
        }
        self.node.allocatable.get(resource) - self.requested.get(resource)
    }

    fn put(&mut self, pod: PodInfo) {
        self.take(&pod.key);
        self.requested.add(&pod.requests);
        self.assumed_requested.add(&pod.assumed_requests);
        self.pods.insert(pod.key.clone(), pod);
    }

    pub(crate) fn take(&mut self, key: &PodKey) -> Option<PodInfo> {
        let pod = self.pods.remove(key)?;
        self.requested.subtract(&pod.requests);
        self.assumed_requested.subtract(&pod.assumed_requests);
        Some(pod)
    }
}

/// All nodes by name, each with its pods.
#[derive(Clone, Debug, Default)]
pub struct View {
    nodes: BTreeMap<String, NodeState>,
    /// Where each occupying pod stands.
    places: BTreeMap<PodKey, String>,
    /// Pods on nodes that are not known (yet).
    homeless: BTreeMap<String, BTreeMap<PodKey, PodInfo>>,
    /// Occupying pods that say something about other pods.
    affine: BTreeSet<PodKey>,
    /// The labels of each namespace.
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// The selector of each service that has one.
    services: BTreeMap<PodKey, BTreeMap<String, String>>,
    /// Volume claims.
    claims: BTreeMap<PodKey, Claim>,
    /// Storage classes whose claims wait for their first pod.
    waiting_classes: BTreeSet<String>,
    /// The selectors of those who own pods.
    owners: BTreeMap<(OwnerKind, PodKey), LabelSelector>,
}

/// A volume claim as pods see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    pub bound: bool,
    /// The volume that it was bound to and that is no more.
    pub lost: Option<String>,
    pub deleting: bool,
    pub class: Option<String>,
}

/// The controllers whose pods are spread by their selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerKind {
    ReplicationController,
    ReplicaSet,
    StatefulSet,
}

/// What the view is fed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Nodes,
    Pods,
    Namespaces,
    Services,
    Claims,
    Classes,
    Owners(OwnerKind),
}

impl Claim {
    pub fn from_json(claim: &Value) -> Self {
        let text = |pointer: &str| claim.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (phase, volume) = (text("/status/phase"), text("/spec/volumeName"));
        let completed = claim.pointer("/metadata/annotations").and_then(|own| own.get(BIND_COMPLETED)).is_some();
        Self {
            bound: volume.is_some() && (completed || phase == Some("Bound")),
            lost: (phase == Some("Lost")).then(|| volume.unwrap_or_default().to_owned()),
            deleting: claim.pointer("/metadata/deletionTimestamp").is_some(),
            class: text("/spec/storageClassName").map(str::to_owned),
        }
    }
}

impl Source {
    pub const ALL: [Self; 9] = [
        Self::Nodes,
        Self::Pods,
        Self::Namespaces,
        Self::Services,
        Self::Claims,
        Self::Classes,
        Self::Owners(OwnerKind::ReplicationController),
        Self::Owners(OwnerKind::ReplicaSet),
        Self::Owners(OwnerKind::StatefulSet),
    ];
}

impl OwnerKind {
    fn of(owner: &Owner) -> Option<Self> {
        match (owner.api_version.as_str(), owner.kind.as_str()) {
            ("v1", "ReplicationController") => Some(Self::ReplicationController),
            ("apps/v1", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps/v1", "StatefulSet") => Some(Self::StatefulSet),
            _ => None,
        }
    }
}

impl View {
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &NodeState> {
        self.nodes.values()
    }

    pub fn node(&self, name: &str) -> Option<&NodeState> {
        self.nodes.get(name)
    }

    pub fn put_node(&mut self, node: NodeInfo) {
        let name = node.name.clone();
        if let Some(state) = self.nodes.get_mut(&name) {
            state.node = node;
            return;
        }
        let mut state = NodeState::new(node);
        for pod in self.homeless.remove(&name).unwrap_or_default().into_values() {
            state.put(pod);
        }
        self.nodes.insert(name, state);
    }

    pub fn remove_node(&mut self, name: &str) {
        if let Some(state) = self.nodes.remove(name).filter(|state| !state.pods.is_empty()) {
            self.homeless.insert(name.to_owned(), state.pods);
        }
    }

    /// Records what a pod occupies: nothing once it has finished or before it has a node.
    pub fn put_pod(&mut self, pod: PodInfo) {
        self.remove_pod(&pod.key);
        if pod.node_name.is_empty() || pod.finished {
            return;
        }
        self.places.insert(pod.key.clone(), pod.node_name.clone());
        if !pod.affinity.is_empty() {
            self.affine.insert(pod.key.clone());
        }
        match self.nodes.get_mut(&pod.node_name) {
            Some(state) => state.put(pod),
            None => {
                self.homeless.entry(pod.node_name.clone()).or_default().insert(pod.key.clone(), pod);
            }
        }
    }

    pub fn remove_pod(&mut self, key: &PodKey) -> Option<PodInfo> {
        let place = self.places.remove(key)?;
        self.affine.remove(key);
        match self.nodes.get_mut(&place) {
            Some(state) => state.take(key),
            None => self.homeless.get_mut(&place).and_then(|pods| pods.remove(key)),
        }
    }

    /// Everything known of a source, by key; nodes and namespaces have none for a namespace.
    pub fn keys(&self, source: Source) -> Vec<PodKey> {
        let cluster = |name: &String| (String::new(), name.clone());
        match source {
            Source::Nodes => self.nodes.keys().map(cluster).collect(),
            Source::Pods => self.places.keys().cloned().collect(),
            Source::Namespaces => self.namespaces.keys().map(cluster).collect(),
            Source::Services => self.services.keys().cloned().collect(),
            Source::Claims => self.claims.keys().cloned().collect(),
            Source::Classes => self.waiting_classes.iter().map(cluster).collect(),
            Source::Owners(kind) => {
                self.owners.keys().filter(|(own, _)| *own == kind).map(|(_, key)| key.clone()).collect()
            }
        }
    }

    /// An occupying pod as last put.
    pub fn placed(&self, key: &PodKey) -> Option<&PodInfo> {
        let place = self.places.get(key)?;
        match self.nodes.get(place) {
            Some(state) => state.pods.get(key),
            None => self.homeless.get(place)?.get(key),
        }
    }

    /// The occupying pods that say something about other pods, with their known nodes.
    pub fn affine_pods(&self) -> impl Iterator<Item = (&PodInfo, &NodeInfo)> {
        self.affine.iter().filter_map(|key| {
            let state = self.nodes.get(self.places.get(key)?)?;
            Some((state.pods.get(key)?, &state.node))
        })
    }

    pub fn namespace_labels(&self, namespace: &str) -> &BTreeMap<String, String> {
        self.namespaces.get(namespace).unwrap_or(&NO_LABELS)
    }

    /// Returns whether the labels are new.
    pub fn put_namespace(&mut self, name: &str, labels: BTreeMap<String, String>) -> bool {
        let old = self.namespaces.insert(name.to_owned(), labels);
        old.as_ref() != self.namespaces.get(name)
    }

    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// A service without a selector selects no pods.
    pub fn put_service(&mut self, key: PodKey, selector: Option<&Value>) {
        match selector.filter(|selector| selector.is_object()) {
            Some(selector) => drop(self.services.insert(key, string_map(Some(selector)))),
            None => self.remove_service(&key),
        }
    }

    pub fn remove_service(&mut self, key: &PodKey) {
        self.services.remove(key);
    }

    pub fn claim(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.claims.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Returns whether it differs from what was known.
    pub fn put_claim(&mut self, key: PodKey, claim: Claim) -> bool {
        let old = self.claims.insert(key.clone(), claim);
        old.as_ref() != self.claims.get(&key)
    }

    pub fn remove_claim(&mut self, key: &PodKey) {
        self.claims.remove(key);
    }

    /// Whether the claim is bound only once a pod that uses it has got a node.
    pub fn waits_for_pod(&self, claim: &Claim) -> bool {
        claim.class.as_ref().is_some_and(|class| self.waiting_classes.contains(class))
    }

    /// Returns whether that is new.
    pub fn put_class(&mut self, name: &str, waits: bool) -> bool {
        if waits { self.waiting_classes.insert(name.to_owned()) } else { self.waiting_classes.remove(name) }
    }

    /// `spec_selector` is a plain map for replication controllers, a LabelSelector for the others.
    pub fn put_owner(&mut self, kind: OwnerKind, key: PodKey, spec_selector: Option<&Value>) {
        let selector = match kind {
            OwnerKind::ReplicationController => LabelSelector::from_map(StringMap::new(spec_selector)),
            OwnerKind::ReplicaSet | OwnerKind::StatefulSet => selector(spec_selector),
        };
        self.owners.insert((kind, key), selector);
    }

    pub fn remove_owner(&mut self, kind: OwnerKind, key: &PodKey) {
        self.owners.remove(&(kind, key.clone()));
    }

    /// What pods of the pod's sort have in common: the selectors of the services that select it and of its owner
    /// (upstream's `DefaultSelector`). Selects everything if there are none.
    pub fn default_selector(&self, pod: &PodInfo) -> LabelSelector {
        let first = (pod.namespace().to_owned(), String::new());
        let services = self.services.range(first..).take_while(|((namespace, _), _)| namespace == pod.namespace());
        let selecting = services.filter(|(_, own)| own.iter().all(|(key, value)| pod.labels.get(key) == Some(value)));
        let labels: BTreeMap<&String, &String> = selecting.flat_map(|(_, own)| own).collect();
        let labels: serde_json::Map<String, Value> =
            labels.into_iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect();
        let mut requirements = LabelSelector::from_map(StringMap::of(&labels)).requirements().to_vec();
        let owner = pod.controller.as_ref().and_then(|owner| {
            let key = (pod.namespace().to_owned(), owner.name.clone());
            self.owners.get(&(OwnerKind::of(owner)?, key))
        });
        requirements.extend(owner.into_iter().flat_map(|own| own.requirements().iter().cloned()));
        LabelSelector::new(requirements)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::CPU;

    fn node(name: &str) -> NodeInfo {
        NodeInfo::from_json(&json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "2"}}}))
            .unwrap()
    }

    fn pod(name: &str, node: &str, phase: &str) -> PodInfo {
        let containers = [json!({"resources": {"requests": {"cpu": "1"}}})];
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": containers}, "status": {"phase": phase}});
        PodInfo::from_json(&pod).unwrap()
    }

    #[test]
    fn pods_occupy_their_node_until_they_end() {
        let mut view = View::default();
        view.put_pod(pod("early", "n", "Running"));
        view.put_node(node("n"));
        view.put_pod(pod("late", "n", "Pending"));
        let free = |view: &View| (view.node("n").unwrap().free(CPU), view.node("n").unwrap().free(PODS));
        assert_eq!(free(&view), (2000, 0));
        view.put_pod(pod("late", "n", "Succeeded"));
        assert_eq!(free(&view), (3000, 1));
        view.remove_node("n");
        view.put_node(node("n"));
        assert_eq!(free(&view), (3000, 1));
        view.remove_pod(&(String::new(), "early".to_owned()));
        assert_eq!(free(&view), (4000, 2));
    }
}
