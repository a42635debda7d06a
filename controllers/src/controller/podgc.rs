//! Pods that nobody else can end: those of nodes that no longer exist, and those deleted before they were placed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use quorate_api::name::ObjectKey;
use serde_json::json;

use super::seconds;
use crate::action::{Action, Delete, Patch, PatchKind, Plan, Target};
use crate::cache::{Cache, Change};
use crate::projection::{Pod, Projected};
use crate::resource::Kind;
use crate::runner::{Controller, Pass, PassError};

/// How long a node must be missing: one that registers anew keeps its pods.
const QUARANTINE: Duration = Duration::from_secs(40);
/// Missing nodes that are remembered.
const REMEMBERED: usize = 4096;

/// Keys are pods.
#[derive(Debug, Default)]
pub struct PodCollector {
    /// Since when each node has been missing.
    missing: Mutex<BTreeMap<String, Timestamp>>,
}

impl Controller for PodCollector {
    fn name(&self) -> &'static str {
        "pod_garbage_collector"
    }

    fn account(&self) -> &'static str {
        "pod-garbage-collector"
    }

    fn wakes(&self, cache: &Cache, change: &Change) -> Vec<ObjectKey> {
        match change {
            Change::Pod(delta) => {
                let homeless = |pod: &Pod| {
                    if pod.spec.node_name.is_empty() {
                        pod.is_deleting()
                    } else {
                        cache.nodes.get(&ObjectKey::cluster(&pod.spec.node_name)).is_none()
                    }
                };
                delta.new.as_ref().filter(|pod| homeless(pod)).map(|pod| pod.key()).into_iter().collect()
            }
            Change::Node(delta) if delta.new.is_none() => {
                let pods = cache.pods.all();
                pods.iter().filter(|pod| pod.spec.node_name == delta.key.name).map(|pod| pod.key()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn pass(&self, pass: Pass, key: ObjectKey) -> BoxFuture<'_, Result<Plan, PassError>> {
        Box::pin(async move {
            let Some(pod) = pass.cache.pods.get(&key) else { return Ok(Plan::nothing()) };
            let node = &pod.spec.node_name;
            let missing = !node.is_empty() && pass.cache.nodes.get(&ObjectKey::cluster(node)).is_none();
            let since = self.missing_since(node, missing, pass.now);
            Ok(plan(&pod, since, pass.now))
        })
    }
}

impl PodCollector {
    fn missing_since(&self, node: &str, missing: bool, now: Timestamp) -> Option<Timestamp> {
        let mut all = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if !missing {
            all.remove(node);
            return None;
        }
        if all.len() >= REMEMBERED {
            all.clear();
        }
        Some(*all.entry(node.to_owned()).or_insert(now))
    }
}

fn plan(pod: &Pod, node_missing_since: Option<Timestamp>, now: Timestamp) -> Plan {
    let target = || Target::namespaced(Kind::Pod.resource(), pod.namespace(), pod.name());
    let delete = Action::Delete(Delete { grace_seconds: Some(0), ..Delete::of(target(), Some(pod.uid().to_owned())) });
    if pod.spec.node_name.is_empty() {
        return if pod.is_deleting() { Plan::of(vec![delete]) } else { Plan::nothing() };
    }
    let Some(since) = node_missing_since else { return Plan::nothing() };
    let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    if passed < QUARANTINE {
        return Plan { actions: Vec::new(), look_again: Some(QUARANTINE.saturating_sub(passed)) };
    }
    let mut actions = Vec::new();
    if !pod.is_finished() {
        let body = json!({"metadata": {"uid": pod.uid()}, "status": {"phase": "Failed", "conditions": [{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": seconds(now),
        }]}});
        actions.push(Action::Patch(Patch {
            target: target(),
            subresource: Some("status"),
            kind: PatchKind::Strategic,
            body,
        }));
    }
    actions.push(delete);
    Plan::of(actions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(node: &str, deleting: bool) -> Pod {
        let mut meta = json!({"name": "p", "namespace": "a", "uid": "u"});
        if deleting {
            meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(json!({"metadata": meta, "spec": {"nodeName": node}})).unwrap()
    }

    #[test]
    fn a_pod_of_a_missing_node_goes_after_its_quarantine() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let later = start.saturating_add(QUARANTINE).unwrap();
        assert_eq!(plan(&pod("n", false), None, later), Plan::nothing());
        let waiting = plan(&pod("n", false), Some(start), start);
        assert_eq!((waiting.actions.len(), waiting.look_again), (0, Some(QUARANTINE)));
        assert_eq!(plan(&pod("n", false), Some(start), later).actions.len(), 2);
    }

    #[test]
    fn a_pod_deleted_before_it_was_placed_goes_at_once() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(plan(&pod("", false), None, now), Plan::nothing());
        assert!(matches!(plan(&pod("", true), None, now).actions[..], [Action::Delete(_)]));
    }
}
