//! Namespaces on their way out: their content is deleted, pods first, and then the namespace is let go.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::core::Request;
use quorate_api::name::ObjectKey;
use serde::Deserialize;
use serde_json::{Value, json};

use super::seconds;
use crate::action::{Action, Plan, Target};
use crate::cache::{Cache, Change};
use crate::discovery::discover;
use crate::execute::object_path;
use crate::projection::{Condition, Namespace, Projected, condition};
use crate::resource::{Kind, ResourceType};
use crate::runner::{Controller, Pass, PassError};

#[cfg(test)]
mod tests;

pub const ACCOUNT: &str = "namespace-controller";
const FINALIZER: &str = "kubernetes";
/// How soon content is looked at again, at least; pods that go wake the namespace sooner.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long whoever holds a finalizer is expected to take (upstream's `finalizerEstimateSeconds`).
const FINALIZER_SECONDS: u64 = 15;
/// How soon the API is asked again for what it could not tell.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Objects of one resource that are looked at; the others are counted only.
const LOOKED_AT: u32 = 500;
/// Lists on their way at once.
const LISTS_IN_FLIGHT: usize = 8;

/// What one resource still has in the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub resource: ResourceType,
    pub remaining: usize,
    /// Finalizer → how many objects wait for it.
    pub finalizers: BTreeMap<String, usize>,
    /// In how many seconds it may be gone, as far as its objects tell.
    pub estimate: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub contents: Vec<Content>,
    /// Why the list of resources may be incomplete.
    pub discovery_failure: Option<String>,
    /// Resources that could not be listed.
    pub content_failure: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Listed {
    metadata: ListMetadata,
    items: Vec<ListedItem>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    remaining_item_count: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListedItem {
    metadata: ListedMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedMetadata {
    finalizers: Vec<String>,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: u64,
}

pub struct NamespaceController {
    client: kube::Client,
    /// What each ending namespace still had when it was last looked at. Nothing new can come into it, so until that is
    /// gone nothing else has to be listed.
    left: Mutex<BTreeMap<String, Vec<ResourceType>>>,
}

impl std::fmt::Debug for NamespaceController {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NamespaceController")
    }
}

impl Controller for NamespaceController {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn account(&self) -> &'static str {
        ACCOUNT
    }

    fn wakes(&self, cache: &Cache, change: &Change) -> Vec<ObjectKey> {
        let ends = |key: &ObjectKey| cache.namespaces.get(key).is_some_and(|namespace| namespace.is_deleting());
        let key = match change {
            Change::Namespace(delta) => Some(delta.key.clone()),
            Change::Pod(delta) if delta.new.is_none() => delta.key.namespace.as_ref().map(ObjectKey::cluster),
            _ => None,
        };
        key.filter(ends).into_iter().collect()
    }

    fn pass(&self, pass: Pass, key: ObjectKey) -> BoxFuture<'_, Result<Plan, PassError>> {
        Box::pin(async move {
            let Some(namespace) = pass.cache.namespaces.get(&key) else {
                self.left().remove(&key.name);
                return Ok(Plan::nothing());
            };
            let held = namespace.spec.finalizers.iter().any(|own| own == FINALIZER);
            if !namespace.is_deleting() || !held {
                return Ok(Plan::nothing());
            }
            let observed = self.observe(namespace.name()).await;
            if let Some(plan) = plan(&namespace, &observed, pass.now) {
                return Ok(plan);
            }
            let target = Target::cluster(Kind::Namespace.resource(), namespace.name());
            let request = http::Request::get(object_path(&target, None)).body(Vec::new());
            let request = request.map_err(|error| PassError(error.to_string()))?;
            let whole: Value = self.client.request(request).await?;
            Ok(Plan::of(vec![let_go(target, whole)]))
        })
    }
}

impl NamespaceController {
    pub fn new(client: kube::Client) -> Self {
        Self { client, left: Mutex::default() }
    }

    fn left(&self) -> MutexGuard<'_, BTreeMap<String, Vec<ResourceType>>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is left of what was there last; once that is nothing, everything there could be.
    async fn observe(&self, namespace: &str) -> Observed {
        let left = self.left().get(namespace).cloned().unwrap_or_default();
        let mut observed = self.count_all(left, namespace).await;
        if observed.contents.is_empty() && observed.content_failure.is_none() {
            observed = match discover(&self.client).await {
                Ok(found) => {
                    let found =
                        found.into_iter().filter(|own| own.resource.namespaced && own.listable && own.deletable);
                    self.count_all(found.map(|own| own.resource).collect(), namespace).await
                }
                Err(error) => Observed { discovery_failure: Some(error.to_string()), ..Observed::default() },
            };
        }
        let resources = observed.contents.iter().map(|content| content.resource.clone()).collect();
        if observed.content_failure.is_none() {
            self.left().insert(namespace.to_owned(), resources);
        } else {
            self.left().remove(namespace);
        }
        observed
    }

    async fn count_all(&self, resources: Vec<ResourceType>, namespace: &str) -> Observed {
        let mut observed = Observed::default();
        let counted = resources.into_iter().map(|resource| self.count(resource, namespace));
        let mut counts = futures::stream::iter(counted).buffered(LISTS_IN_FLIGHT);
        while let Some(count) = counts.next().await {
            match count {
                Ok(content) if content.remaining > 0 => observed.contents.push(content),
                Ok(_) => {}
                Err(PassError(why)) => observed.content_failure = Some(why),
            }
        }
        observed
    }

    async fn count(&self, resource: ResourceType, namespace: &str) -> Result<Content, PassError> {
        let request =
            Request::new(resource.path(Some(namespace))).list_metadata(&ListParams::default().limit(LOOKED_AT));
        let request = request.map_err(|error| PassError(error.to_string()))?;
        let listed: Listed = match self.client.request(request).await {
            Ok(listed) => listed,
            // A kind that went away took its objects along.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.code == 405 => Listed::default(),
            Err(error) => return Err(PassError(format!("{}: {error}", resource.plural))),
        };
        let mut finalizers = BTreeMap::new();
        for finalizer in listed.items.iter().flat_map(|item| &item.metadata.finalizers) {
            *finalizers.entry(finalizer.clone()).or_default() += 1;
        }
        let estimate = estimate(&listed);
        let remaining = listed.items.len() + listed.metadata.remaining_item_count;
        Ok(Content { resource, remaining, finalizers, estimate })
    }
}

/// Objects that are not marked yet are about to be; those that are go with their grace, or when their finalizers do.
fn estimate(listed: &Listed) -> u64 {
    let each = |item: &ListedItem| {
        let held = if item.metadata.finalizers.is_empty() { 0 } else { FINALIZER_SECONDS };
        let marked = item.metadata.deletion_timestamp.is_some();
        if marked { held.max(item.metadata.deletion_grace_period_seconds) } else { 0 }
    };
    listed.items.iter().map(each).min().unwrap_or(0)
}

/// Nothing if the namespace is empty, and known to be.
pub fn plan(namespace: &Namespace, observed: &Observed, now: Timestamp) -> Option<Plan> {
    let is_pods = |content: &&Content| content.resource.is(Kind::Pod);
    let pods_first = observed.contents.iter().any(|content| is_pods(&content));
    let due = observed.contents.iter().filter(|content| !pods_first || is_pods(content));
    let mut actions: Vec<Action> = due
        .map(|content| Action::DeleteCollection {
            resource: content.resource.clone(),
            namespace: namespace.name().to_owned(),
        })
        .collect();
    let conditions = conditions(namespace, observed, now);
    if namespace.status.phase != "Terminating" || conditions != namespace.status.conditions {
        let target = Target::cluster(Kind::Namespace.resource(), namespace.name());
        let conditions: Vec<Value> = conditions.iter().map(condition_json).collect();
        let body = json!({"status": {"phase": "Terminating", "conditions": conditions}});
        actions.insert(0, Action::merge_status(target, body));
    }
    let unknown = observed.discovery_failure.is_some() || observed.content_failure.is_some();
    if observed.contents.is_empty() && !unknown {
        return None;
    }
    let mut plan = Plan::of(actions);
    // As upstream: after half the time that the slowest may take.
    let slowest = observed.contents.iter().map(|content| content.estimate).max().unwrap_or(0);
    let wait = LOOK_AGAIN + Duration::from_secs(slowest / 2);
    plan.look_again_in(if unknown { wait.max(ASK_AGAIN) } else { wait });
    Some(plan)
}

fn conditions(namespace: &Namespace, observed: &Observed, now: Timestamp) -> Vec<Condition> {
    let remaining: Vec<String> = observed
        .contents
        .iter()
        .map(|content| format!("{} has {} resource instances", full_name(&content.resource), content.remaining))
        .collect();
    let mut waiting: BTreeMap<&str, usize> = BTreeMap::new();
    for (finalizer, count) in observed.contents.iter().flat_map(|content| &content.finalizers) {
        *waiting.entry(finalizer).or_default() += count;
    }
    let waiting: Vec<String> =
        waiting.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances")).collect();
    let failure = |failure: &Option<String>, reason: &'static str, good: (&'static str, &'static str)| match failure {
        Some(why) => ("True", reason, why.clone()),
        None => ("False", good.0, good.1.to_owned()),
    };
    let states = [
        (
            "NamespaceDeletionDiscoveryFailure",
            failure(
                &observed.discovery_failure,
                "DiscoveryFailed",
                ("ResourcesDiscovered", "All resources successfully discovered"),
            ),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed".to_owned()),
        ),
        (
            "NamespaceDeletionContentFailure",
            failure(
                &observed.content_failure,
                "ContentDeletionFailed",
                ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            ),
        ),
        (
            "NamespaceContentRemaining",
            if remaining.is_empty() {
                ("False", "ContentRemoved", "All content successfully removed".to_owned())
            } else {
                ("True", "SomeResourcesRemain", format!("Some resources are remaining: {}", remaining.join(", ")))
            },
        ),
        (
            "NamespaceFinalizersRemaining",
            if waiting.is_empty() {
                ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
            } else {
                let message = format!("Some content in the namespace has finalizers remaining: {}", waiting.join(", "));
                ("True", "SomeFinalizersRemain", message)
            },
        ),
    ];
    states.into_iter().map(|(kind, state)| settled(namespace, kind, state, now)).collect()
}

/// An unchanged status keeps its transition time.
fn settled(namespace: &Namespace, kind: &str, state: (&str, &str, String), now: Timestamp) -> Condition {
    let (status, reason, message) = state;
    let current = condition(&namespace.status.conditions, kind).filter(|own| own.status == status);
    let since = current.and_then(|own| own.last_transition_time.clone());
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since.or(Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now))),
        ..Condition::default()
    }
}

fn condition_json(condition: &Condition) -> Value {
    json!({
        "type": condition.kind,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time.as_ref().map(|time| seconds(time.0)),
    })
}

fn full_name(resource: &ResourceType) -> String {
    if resource.group.is_empty() {
        format!("{}.", resource.plural)
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}

fn let_go(target: Target, mut whole: Value) -> Action {
    if let Some(finalizers) = whole.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|own| own != FINALIZER);
    }
    Action::Replace { target, subresource: "finalize", body: whole }
}
