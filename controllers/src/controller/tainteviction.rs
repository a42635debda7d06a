//! Pods leave nodes whose NoExecute taints they do not tolerate, at once or when their patience ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use quorate_api::name::ObjectKey;
use serde_json::json;

use super::nodefit::tolerates;
use super::{reference, seconds};
use crate::action::{Action, Delete, Note, Patch, PatchKind, Plan, Target};
use crate::cache::{Cache, Change};
use crate::projection::{Node, Pod, Projected, Taint, Toleration};
use crate::resource::Kind;
use crate::runner::{Controller, Pass, PassError};

#[cfg(test)]
mod tests;

/// Pods whose first sight is remembered.
const REMEMBERED: usize = 65_536;

/// Keys are pods.
#[derive(Debug, Default)]
pub struct TaintEviction {
    /// When a pod was first seen beside a taint that does not say since when it stands.
    seen: Mutex<BTreeMap<ObjectKey, Timestamp>>,
}

pub fn controller() -> TaintEviction {
    TaintEviction::default()
}

impl Controller for TaintEviction {
    fn name(&self) -> &'static str {
        "taint_eviction_controller"
    }

    fn account(&self) -> &'static str {
        "node-controller"
    }

    fn component(&self) -> &'static str {
        "taint-eviction-controller"
    }

    fn wakes(&self, cache: &Cache, change: &Change) -> Vec<ObjectKey> {
        match change {
            Change::Pod(delta) => match (&delta.old, &delta.new) {
                (Some(old), Some(new)) if old.spec == new.spec => Vec::new(),
                _ => vec![delta.key.clone()],
            },
            Change::Node(delta) => {
                let taints = |node: &Option<Arc<Node>>| node.as_ref().map(|node| executing(node)).unwrap_or_default();
                if taints(&delta.old) == taints(&delta.new) {
                    return Vec::new();
                }
                let pods = cache.pods.all();
                pods.iter().filter(|pod| pod.spec.node_name == delta.key.name).map(|pod| pod.key()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn pass(&self, pass: Pass, key: ObjectKey) -> BoxFuture<'_, Result<Plan, PassError>> {
        Box::pin(async move {
            let pod = pass.cache.pods.get(&key);
            let node = pod.as_ref().and_then(|pod| pass.cache.nodes.get(&ObjectKey::cluster(&pod.spec.node_name)));
            let taints = node.map(|node| executing(&node)).unwrap_or_default();
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let (Some(pod), false) = (pod, taints.is_empty()) else {
                seen.remove(&key);
                return Ok(Plan::nothing());
            };
            if seen.len() >= REMEMBERED {
                seen.clear();
            }
            let first_seen = *seen.entry(key).or_insert(pass.now);
            Ok(plan(&pod, &taints, first_seen, pass.now))
        })
    }
}

fn executing(node: &Node) -> Vec<Taint> {
    node.spec.taints.iter().filter(|taint| taint.effect == "NoExecute").cloned().collect()
}

pub fn plan(pod: &Pod, taints: &[Taint], first_seen: Timestamp, now: Timestamp) -> Plan {
    if pod.is_deleting() || pod.is_finished() {
        return Plan::nothing();
    }
    match deadline(pod, taints, first_seen) {
        Deadline::Never => Plan::nothing(),
        Deadline::At(at) if at > now => {
            let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            Plan { actions: Vec::new(), look_again: Some(left) }
        }
        Deadline::At(_) | Deadline::Now => Plan::of(evict(pod, now)),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deadline {
    Now,
    At(Timestamp),
    Never,
}

/// The soonest end of patience over all taints; a taint that is not tolerated at all leaves none.
fn deadline(pod: &Pod, taints: &[Taint], first_seen: Timestamp) -> Deadline {
    let mut soonest = Deadline::Never;
    for taint in taints {
        let tolerating: Vec<&Toleration> = pod.spec.tolerations.iter().filter(|own| tolerates(own, taint)).collect();
        if tolerating.is_empty() {
            return Deadline::Now;
        }
        let Some(patience) = tolerating.iter().filter_map(|own| own.toleration_seconds).min() else { continue };
        if patience <= 0 {
            return Deadline::Now;
        }
        let since = taint.time_added.as_ref().map_or(first_seen, |added| added.0).max(pod.created());
        let at = since.saturating_add(jiff::SignedDuration::from_secs(patience)).unwrap_or(Timestamp::MAX);
        soonest = match soonest {
            Deadline::At(sooner) if sooner <= at => soonest,
            Deadline::At(_) | Deadline::Never | Deadline::Now => Deadline::At(at),
        };
    }
    soonest
}

fn evict(pod: &Pod, now: Timestamp) -> Vec<Action> {
    let target = || Target::namespaced(Kind::Pod.resource(), pod.namespace(), pod.name());
    let body = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [{
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": seconds(now),
    }]}});
    let note = Note {
        about: reference(Kind::Pod, pod),
        warning: false,
        reason: "TaintManagerEviction",
        action: "TaintManagerEviction",
        text: format!("Marking for deletion Pod {}/{}", pod.namespace(), pod.name()),
    };
    vec![
        Action::Note(note),
        Action::Patch(Patch { target: target(), subresource: Some("status"), kind: PatchKind::Strategic, body }),
        Action::Delete(Delete::of(target(), Some(pod.uid().to_owned()))),
    ]
}
