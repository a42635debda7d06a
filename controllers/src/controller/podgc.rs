//! Pods that nobody else ends: those of nodes that no longer exist, those deleted before they were placed, and finished
//! ones when there are too many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
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
/// Finished pods that may stay (upstream's `--terminated-pod-gc-threshold`).
pub const TERMINATED_LIMIT: usize = 12_500;
/// How often finished pods are counted at most.
const COUNT_PERIOD: Duration = Duration::from_secs(20);
/// Finished pods that one pass deletes at most.
const BURST: usize = 500;
/// The key under which finished pods are counted. No pod has it: pods have a namespace.
const FINISHED: &str = "finished";

/// Keys are pods, and one for all that have finished.
#[derive(Debug)]
pub struct PodCollector {
    terminated_limit: usize,
    /// Since when each node has been missing.
    missing: Mutex<BTreeMap<String, Timestamp>>,
    counted: Mutex<Option<Timestamp>>,
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
                let finished = |pod: &Option<Arc<Pod>>| pod.as_ref().is_some_and(|pod| pod.is_finished());
                let counts = finished(&delta.new) && !finished(&delta.old);
                let one = delta.new.as_ref().filter(|pod| homeless(pod)).map(|pod| pod.key());
                one.into_iter().chain(counts.then(|| ObjectKey::cluster(FINISHED))).collect()
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
            if key.namespace.is_none() {
                return Ok(self.count(&pass));
            }
            let Some(pod) = pass.cache.pods.get(&key) else { return Ok(Plan::nothing()) };
            let node = &pod.spec.node_name;
            let missing = !node.is_empty() && pass.cache.nodes.get(&ObjectKey::cluster(node)).is_none();
            let since = self.missing_since(node, missing, pass.now);
            Ok(plan(&pod, since, pass.now))
        })
    }
}

impl PodCollector {
    pub fn new(terminated_limit: usize) -> Self {
        Self { terminated_limit, missing: Mutex::default(), counted: Mutex::default() }
    }

    fn count(&self, pass: &Pass) -> Plan {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let since = counted.map(|at| Duration::try_from(pass.now.duration_since(at)).unwrap_or_default());
        if let Some(left) = since.and_then(|since| COUNT_PERIOD.checked_sub(since)).filter(|left| !left.is_zero()) {
            return Plan { actions: Vec::new(), look_again: Some(left) };
        }
        *counted = Some(pass.now);
        surplus(pass.cache.pods.all(), self.terminated_limit)
    }

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

/// The finished pods beyond the limit: evicted ones go first, then the oldest.
fn surplus(pods: Vec<Arc<Pod>>, limit: usize) -> Plan {
    let mut finished: Vec<Arc<Pod>> = pods.into_iter().filter(|pod| pod.is_finished()).collect();
    let surplus = finished.len().saturating_sub(limit);
    let evicted = |pod: &Pod| pod.status.phase == "Failed" && pod.status.reason == "Evicted";
    finished.sort_by_cached_key(|pod| (!evicted(pod), pod.created(), pod.name().to_owned()));
    let going = finished.iter().take(surplus.min(BURST));
    let actions = going.map(|pod| {
        let target = Target::namespaced(Kind::Pod.resource(), pod.namespace(), pod.name());
        Action::Delete(Delete { grace_seconds: Some(0), ..Delete::of(target, Some(pod.uid().to_owned())) })
    });
    let mut plan = Plan::of(actions.collect());
    if surplus > BURST {
        plan.look_again_in(COUNT_PERIOD);
    }
    plan
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

    fn finished(name: &str, created: &str, reason: &str) -> Arc<Pod> {
        let metadata = json!({"name": name, "namespace": "a", "uid": name, "creationTimestamp": created});
        let status = json!({"phase": "Failed", "reason": reason});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap())
    }

    #[test]
    fn finished_pods_beyond_the_limit_go_evicted_and_old_ones_first() {
        let pods = vec![
            finished("old", "2026-01-01T00:00:00Z", ""),
            finished("older", "2025-01-01T00:00:00Z", ""),
            finished("evicted", "2026-01-02T00:00:00Z", "Evicted"),
            Arc::new(pod("n", false)),
        ];
        assert_eq!(surplus(pods.clone(), 3), Plan::nothing());
        let gone = |limit: usize| -> Vec<String> {
            let actions = surplus(pods.clone(), limit).actions.into_iter();
            let names =
                actions.filter_map(|own| if let Action::Delete(own) = own { Some(own.target.name) } else { None });
            names.collect()
        };
        assert_eq!((gone(2), gone(1)), (vec!["evicted".to_owned()], vec!["evicted".to_owned(), "older".to_owned()]));
    }

    #[test]
    fn finished_pods_are_counted_now_and_then() {
        let collector = PodCollector::new(1);
        let cache = Arc::new(Cache::default());
        for name in ["x", "y"] {
            cache.pods.put(finished(name, "2026-01-01T00:00:00Z", "").as_ref().clone());
        }
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let pass = |after: Duration| Pass {
            cache: Arc::clone(&cache),
            now: start.saturating_add(after).unwrap(),
            last_failure: None,
        };
        assert_eq!(collector.count(&pass(Duration::ZERO)).actions.len(), 1);
        let again = collector.count(&pass(Duration::from_secs(5)));
        assert_eq!((again.actions.len(), again.look_again), (0, Some(Duration::from_secs(15))));
        assert_eq!(collector.count(&pass(COUNT_PERIOD)).actions.len(), 1);
    }
}
