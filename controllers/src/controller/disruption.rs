//! Disruption budgets: how many pods may be taken away right now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use quorate_api::int_or_string::IntOrString;
use quorate_api::name::ObjectKey;
use quorate_api::selector::LabelSelector;
use serde_json::{Map, Value, json};

use super::{reference, seconds};
use crate::action::{Action, Note, Plan, Target};
use crate::cache::{Cache, Change};
use crate::projection::{BudgetStatus, Condition, Pod, PodDisruptionBudget, Projected, condition};
use crate::resource::Kind;
use crate::runner::{Pass, Pure};

#[cfg(test)]
mod tests;

/// How long an eviction that was granted may take to show.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(120);
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

#[derive(Clone, Debug)]
pub struct Observed {
    pub budget: Arc<PodDisruptionBudget>,
    pub pods: Vec<Arc<Pod>>,
    /// Pods that the managers of these pods want, summed; or why that cannot be told.
    pub expected: Result<i32, String>,
}

pub fn controller() -> Pure {
    Pure {
        name: "disruption",
        account: "disruption-controller",
        component: "controllermanager",
        wakes,
        plan: |pass, key| observe(pass, key).map_or_else(Plan::nothing, |observed| plan(&observed, pass.now)),
    }
}

fn wakes(cache: &Cache, change: &Change) -> Vec<ObjectKey> {
    let in_namespace = |key: &ObjectKey| {
        let budgets = cache.budgets.select(key.namespace.as_deref().unwrap_or_default(), |_| true);
        budgets.iter().map(|budget| budget.key()).collect::<Vec<_>>()
    };
    match change {
        Change::PodDisruptionBudget(delta) => vec![delta.key.clone()],
        Change::Pod(delta) => {
            let touches =
                |budget: &PodDisruptionBudget| delta.states().any(|pod| selector(budget).matches(pod.labels()));
            let budgets = cache.budgets.select(delta.key.namespace.as_deref().unwrap_or_default(), touches);
            budgets.iter().map(|budget| budget.key()).collect()
        }
        Change::ReplicaSet(delta) => in_namespace(&delta.key),
        Change::ReplicationController(delta) => in_namespace(&delta.key),
        Change::Deployment(delta) => in_namespace(&delta.key),
        Change::StatefulSet(delta) => in_namespace(&delta.key),
        _ => Vec::new(),
    }
}

fn selector(budget: &PodDisruptionBudget) -> LabelSelector {
    LabelSelector::from_json(budget.spec.selector.as_ref()).unwrap_or_else(|_| LabelSelector::nothing())
}

fn observe(pass: &Pass, key: &ObjectKey) -> Option<Observed> {
    let budget = pass.cache.budgets.get(key)?;
    let selector = selector(&budget);
    let pods = pass.cache.pods.select(budget.namespace(), |pod| selector.matches(pod.labels()));
    let expected = expected(&pass.cache, &pods);
    Some(Observed { budget, pods, expected })
}

/// Each manager counts once, by the size it is asked for; pods without one do not count.
fn expected(cache: &Cache, pods: &[Arc<Pod>]) -> Result<i32, String> {
    let mut sizes: BTreeMap<String, i32> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = pod.controller() else { continue };
        let (uid, size) = scale(cache, pod.namespace(), owner)
            .ok_or_else(|| format!("found no controllers for pod \"{}\"", pod.name()))?;
        sizes.insert(uid, size);
    }
    Ok(sizes.values().sum())
}

fn scale(cache: &Cache, namespace: &str, owner: &OwnerReference) -> Option<(String, i32)> {
    let known = |uid: &str, size: i32| (uid == owner.uid).then(|| (uid.to_owned(), size));
    match owner.kind.as_str() {
        "ReplicaSet" => {
            let set = cache.replica_sets.find(namespace, &owner.name)?;
            let manager = set.controller().filter(|manager| manager.kind == "Deployment");
            let deployment = manager.and_then(|manager| cache.deployments.find(namespace, &manager.name));
            match deployment {
                Some(deployment) if set.uid() == owner.uid => {
                    Some((deployment.uid().to_owned(), deployment.replicas()))
                }
                Some(_) | None => known(set.uid(), set.replicas()),
            }
        }
        "ReplicationController" => {
            let own = cache.replication_controllers.find(namespace, &owner.name)?;
            known(own.uid(), own.spec.replicas.unwrap_or(1))
        }
        "StatefulSet" => {
            let own = cache.stateful_sets.find(namespace, &owner.name)?;
            known(own.uid(), own.spec.replicas.unwrap_or(1))
        }
        _ => None,
    }
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let budget = observed.budget.as_ref();
    let mut plan = Plan::nothing();
    let disrupted = still_disrupted(observed, now, &mut plan);
    let status = status(observed, disrupted, now);
    if status != budget.status {
        let target = Target::namespaced(Kind::PodDisruptionBudget.resource(), budget.namespace(), budget.name());
        plan.actions.push(Action::merge_status(target, patch(budget, &status)));
    }
    plan
}

fn counts(observed: &Observed) -> Result<(i32, i32), String> {
    let spec = &observed.budget.spec;
    let scaled = |value: &IntOrString, total| value.scaled(total, true).map_err(|error| error.to_string());
    if let Some(unavailable) = &spec.max_unavailable {
        let expected = observed.expected.clone()?;
        return Ok((expected, (expected - scaled(unavailable, expected)?).max(0)));
    }
    match &spec.min_available {
        Some(IntOrString::Int(least)) => Ok((i32::try_from(observed.pods.len()).unwrap_or(i32::MAX), *least)),
        Some(share @ IntOrString::String(_)) => {
            let expected = observed.expected.clone()?;
            Ok((expected, scaled(share, expected)?))
        }
        None => Ok((i32::try_from(observed.pods.len()).unwrap_or(i32::MAX), 1)),
    }
}

/// Evictions that were granted and have not shown yet count as if they had.
fn still_disrupted(observed: &Observed, now: Timestamp, plan: &mut Plan) -> BTreeMap<String, Time> {
    let mut kept = BTreeMap::new();
    for (name, since) in &observed.budget.status.disrupted_pods {
        let Some(pod) = observed.pods.iter().find(|pod| pod.name() == name).filter(|pod| !pod.is_deleting()) else {
            continue;
        };
        let until = since.0.saturating_add(EVICTION_TIMEOUT).unwrap_or(Timestamp::MAX);
        if until <= now {
            plan.actions.push(Action::Note(Note {
                about: reference(Kind::Pod, pod.as_ref()),
                warning: true,
                reason: "NotDeleted",
                action: "NotDeleted",
                text: format!(
                    "Pod was expected by PDB {}/{} to be deleted but it wasn't",
                    observed.budget.namespace(),
                    observed.budget.name()
                ),
            }));
        } else {
            plan.look_again_in(Duration::try_from(until.duration_since(now)).unwrap_or(EVICTION_TIMEOUT));
            kept.insert(name.clone(), since.clone());
        }
    }
    kept
}

fn status(observed: &Observed, disrupted: BTreeMap<String, Time>, now: Timestamp) -> BudgetStatus {
    let budget = observed.budget.as_ref();
    let (expected, desired) = match counts(observed) {
        Ok(counts) => counts,
        Err(why) => {
            let state = ("False", "SyncFailed", why);
            return BudgetStatus {
                disruptions_allowed: 0,
                observed_generation: budget.generation(),
                conditions: conditions(budget, state, now),
                ..budget.status.clone()
            };
        }
    };
    let healthy = |pod: &&Arc<Pod>| pod.is_ready() && !pod.is_deleting() && !disrupted.contains_key(pod.name());
    let current = i32::try_from(observed.pods.iter().filter(healthy).count()).unwrap_or(i32::MAX);
    let allowed = if expected > 0 { (current - desired).max(0) } else { 0 };
    let state = if allowed > 0 {
        ("True", "SufficientPods", String::new())
    } else {
        ("False", "InsufficientPods", String::new())
    };
    BudgetStatus {
        observed_generation: budget.generation(),
        disrupted_pods: disrupted,
        disruptions_allowed: allowed,
        current_healthy: current,
        desired_healthy: desired,
        expected_pods: expected,
        conditions: conditions(budget, state, now),
    }
}

fn conditions(budget: &PodDisruptionBudget, state: (&str, &str, String), now: Timestamp) -> Vec<Condition> {
    let (status, reason, message) = state;
    let current = condition(&budget.status.conditions, DISRUPTION_ALLOWED);
    if current.is_some_and(|own| own.status == status && own.reason == reason && own.message == message) {
        return budget.status.conditions.clone();
    }
    let since = current.filter(|own| own.status == status).and_then(|own| own.last_transition_time.clone());
    let mut conditions: Vec<Condition> =
        budget.status.conditions.iter().filter(|own| own.kind != DISRUPTION_ALLOWED).cloned().collect();
    conditions.push(Condition {
        kind: DISRUPTION_ALLOWED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since.or(Some(Time(now))),
        ..Condition::default()
    });
    conditions
}

/// The version guards against an eviction granted meanwhile: its debit must not be written over.
fn patch(budget: &PodDisruptionBudget, status: &BudgetStatus) -> Value {
    let mut disrupted: Map<String, Value> =
        budget.status.disrupted_pods.keys().map(|name| (name.clone(), Value::Null)).collect();
    disrupted.extend(status.disrupted_pods.iter().map(|(name, time)| (name.clone(), seconds(time.0))));
    let generation = budget.generation();
    let conditions: Vec<Value> = status
        .conditions
        .iter()
        .map(|own| {
            json!({
                "type": own.kind,
                "status": own.status,
                "reason": own.reason,
                "message": own.message,
                "observedGeneration": generation,
                "lastTransitionTime": own.last_transition_time.as_ref().map(|time| seconds(time.0)),
            })
        })
        .collect();
    json!({
        "metadata": {"resourceVersion": budget.resource_version()},
        "status": {
            "observedGeneration": status.observed_generation,
            "disruptedPods": disrupted,
            "disruptionsAllowed": status.disruptions_allowed,
            "currentHealthy": status.current_healthy,
            "desiredHealthy": status.desired_healthy,
            "expectedPods": status.expected_pods,
            "conditions": conditions,
        },
    })
}
