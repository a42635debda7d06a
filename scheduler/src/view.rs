//! The scheduler's read copy: nodes and the pods that occupy them, bound or assumed to be.

use std::collections::BTreeMap;

use crate::node::NodeInfo;
use crate::pod::{PodInfo, PodKey};
use crate::resources::{PODS, Resources};

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

    fn take(&mut self, key: &PodKey) -> Option<PodInfo> {
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
        match self.nodes.get_mut(&pod.node_name) {
            Some(state) => state.put(pod),
            None => {
                self.homeless.entry(pod.node_name.clone()).or_default().insert(pod.key.clone(), pod);
            }
        }
    }

    pub fn remove_pod(&mut self, key: &PodKey) -> Option<PodInfo> {
        let place = self.places.remove(key)?;
        match self.nodes.get_mut(&place) {
            Some(state) => state.take(key),
            None => self.homeless.get_mut(&place).and_then(|pods| pods.remove(key)),
        }
    }

    pub fn is_placed(&self, key: &PodKey) -> bool {
        self.places.contains_key(key)
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
