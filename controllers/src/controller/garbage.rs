//! The garbage collector: what all owners have left is deleted; owners that wait for their dependents are held.
//!
//! The graph comes from watches of the metadata of every kind that can be deleted. Keys are uids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use quorate_api::name::ObjectKey;
use quorate_env::{Env, Scope};
use serde::Deserialize;

use crate::Config;
use crate::action::{Plan, Target};
use crate::cache::{Cache, Change};
use crate::discovery::{Found, discover};
use crate::execute::object_path;
use crate::resource::ResourceType;
use crate::runner::{Controller, Pass, PassError};

pub mod graph;
mod observe;
mod plan;
#[cfg(test)]
mod tests;

pub use graph::{Graph, Item};
pub use plan::{Owner, plan};

pub const ACCOUNT: &str = "generic-garbage-collector";
/// How often the list of kinds is read anew.
const REDISCOVERY: Duration = Duration::from_secs(30);
/// How long the first lists may take. After that the collector works with what it has: an owner that the graph lacks
/// is always asked for by name before anything is deleted.
const FIRST_LISTS: Duration = Duration::from_secs(30);

/// What watches and passes share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    graph: Mutex<Graph>,
    kinds: Mutex<Vec<ResourceType>>,
    unlisted: tokio::sync::watch::Sender<Option<BTreeSet<ResourceType>>>,
}

impl Shared {
    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves once every kind that was found has been listed.
    async fn listed(&self) {
        let mut unlisted = self.unlisted.subscribe();
        while !unlisted.borrow_and_update().as_ref().is_some_and(BTreeSet::is_empty) {
            if unlisted.changed().await.is_err() {
                return;
            }
        }
    }

    /// The resource an owner reference speaks of.
    fn resource_of(&self, reference: &OwnerReference) -> Option<ResourceType> {
        let (group, _) = reference.api_version.split_once('/').unwrap_or(("", ""));
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.iter().find(|own| own.group == group && own.kind == reference.kind).cloned()
    }
}

pub struct GarbageCollector {
    client: kube::Client,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for GarbageCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GarbageCollector")
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Partial {
    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
}

impl Controller for GarbageCollector {
    fn name(&self) -> &'static str {
        "garbage_collector"
    }

    fn account(&self) -> &'static str {
        ACCOUNT
    }

    fn wakes(&self, _cache: &Cache, _change: &Change) -> Vec<ObjectKey> {
        Vec::new()
    }

    fn pass(&self, _pass: Pass, key: ObjectKey) -> BoxFuture<'_, Result<Plan, PassError>> {
        Box::pin(async move {
            let Some(item) = self.shared.graph().get(&key.name).cloned() else { return Ok(Plan::nothing()) };
            let mut owners = Vec::with_capacity(item.owners.len());
            for reference in &item.owners {
                owners.push(self.owner(&item, reference).await?);
            }
            let dependents = self.shared.graph().dependents(&key.name);
            Ok(plan(&item, &owners, &dependents))
        })
    }
}

impl GarbageCollector {
    /// Does the owner still live? The graph may say yes; only the API itself may say no.
    async fn owner(&self, item: &Item, reference: &OwnerReference) -> Result<Owner, PassError> {
        if let Some(known) = self.shared.graph().get(&reference.uid)
            && known.is_meant_by(item, reference)
        {
            return Ok(if known.awaits_dependents() { Owner::Waiting } else { Owner::Lives });
        }
        let Some(resource) = self.shared.resource_of(reference) else {
            return Err(PassError(format!("no resource is known for {} {}", reference.api_version, reference.kind)));
        };
        if resource.namespaced && item.key.namespace.is_none() {
            return Err(PassError(format!(
                "a cluster-wide object names {} {} as its owner",
                reference.kind, reference.name
            )));
        }
        let namespace = item.key.namespace.clone().filter(|_| resource.namespaced);
        let target = Target { resource, namespace, name: reference.name.clone() };
        let request = http::Request::get(object_path(&target, None)).body(Vec::new());
        let request = request.map_err(|error| PassError(error.to_string()))?;
        match self.client.request::<Partial>(request).await {
            Ok(found) if found.metadata.uid.as_deref() == Some(&reference.uid) => {
                let waits = found.metadata.deletion_timestamp.is_some()
                    && found.metadata.finalizers.iter().flatten().any(|own| own == graph::FOREGROUND);
                Ok(if waits { Owner::Waiting } else { Owner::Lives })
            }
            Ok(_replaced) => Ok(Owner::Gone),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Owner::Gone),
            Err(error) => Err(error.into()),
        }
    }
}

/// Starts the watches and the work; both end with the scope.
pub fn start(config: &Config, cache: &Arc<Cache>, env: &Env, scope: &Scope) {
    let client = (config.client_for)(ACCOUNT);
    let shared = Arc::new(Shared::default());
    let collector = GarbageCollector { client: client.clone(), shared: Arc::clone(&shared) };
    let station = crate::station(Box::new(collector), config, env, scope);
    let observer =
        observe::Observer { client, shared: Arc::clone(&shared), station: Arc::clone(&station), env: env.clone() };
    let watches = scope.child("garbage");
    scope.spawn_until_cancelled("garbage-kinds", keep_up(observer, watches));
    let (cache, clock, work_scope) = (Arc::clone(cache), env.clock.clone(), scope.clone());
    scope.spawn("garbage-work", async move {
        tokio::select! {
            () = work_scope.cancelled() => return,
            outcome = clock.timeout(FIRST_LISTS, shared.listed()) => {
                if outcome.is_err() {
                    tracing::warn!("some kinds could not be listed yet; collecting without them");
                }
            }
        }
        station.work(cache, work_scope).await;
    });
}

/// Watches every kind there is, and lets go of those that are no more.
async fn keep_up(observer: observe::Observer, scope: Scope) {
    let mut watched: BTreeMap<ResourceType, Scope> = BTreeMap::new();
    loop {
        match discover(&observer.client).await {
            Ok(found) => follow_kinds(&observer, &scope, &mut watched, found),
            Err(error) => tracing::debug!(%error, "the kinds could not be read"),
        }
        observer.env.clock.sleep(if watched.is_empty() { Duration::from_millis(500) } else { REDISCOVERY }).await;
    }
}

fn follow_kinds(
    observer: &observe::Observer,
    scope: &Scope,
    watched: &mut BTreeMap<ResourceType, Scope>,
    found: Vec<Found>,
) {
    let all: Vec<ResourceType> = found.iter().map(|own| own.resource.clone()).collect();
    *observer.shared.kinds.lock().unwrap_or_else(PoisonError::into_inner) = all;
    let collectable = |own: &Found| own.listable && own.watchable && own.deletable && own.resource.kind != "Event";
    let wanted: BTreeSet<ResourceType> = found.into_iter().filter(collectable).map(|own| own.resource).collect();
    watched.retain(|resource, watch| {
        let stays = wanted.contains(resource);
        if !stays {
            watch.cancel();
            observer.shared.graph().forget(resource);
        }
        stays
    });
    let new: Vec<ResourceType> = wanted.into_iter().filter(|own| !watched.contains_key(own)).collect();
    observer.shared.unlisted.send_modify(|left| {
        left.get_or_insert_default().extend(new.iter().cloned());
    });
    for resource in new {
        let watch = scope.child(&resource.plural);
        observer.clone().start(resource.clone(), &watch);
        watched.insert(resource, watch);
    }
}
