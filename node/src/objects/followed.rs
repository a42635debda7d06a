//! Config maps and secrets that pods of this node use: each is watched, by itself, for as long as a pod uses it.
//!
//! Only metadata travels: a change is a signal to read the object anew, and secrets stay where they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Volume};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use parking_lot::Mutex;
use quorate_env::Scope;
use tokio::sync::Notify;

/// Objects that are watched at the same time; changes of further ones are seen when their pods look by themselves.
pub const FOLLOWED_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

/// What the volumes of a pod are filled from.
pub fn references(pod: &Pod) -> BTreeSet<Reference> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .flat_map(names)
        .filter(|(_, name)| !name.is_empty())
        .map(|(kind, name)| Reference { kind, namespace: namespace.clone(), name })
        .collect()
}

fn names(volume: &Volume) -> Vec<(Kind, String)> {
    let mut names = Vec::new();
    names.extend(volume.config_map.iter().map(|source| (Kind::ConfigMap, source.name.clone())));
    let secret = volume.secret.iter().filter_map(|source| source.secret_name.clone());
    names.extend(secret.map(|name| (Kind::Secret, name)));
    for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
        names.extend(source.config_map.iter().map(|source| (Kind::ConfigMap, source.name.clone())));
        names.extend(source.secret.iter().map(|source| (Kind::Secret, source.name.clone())));
    }
    names
}

#[derive(Clone)]
pub struct Followed {
    client: kube::Client,
    scope: Scope,
    entries: Arc<Mutex<BTreeMap<Reference, Entry>>>,
}

impl Debug for Followed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Followed")
    }
}

struct Entry {
    scope: Scope,
    users: Vec<Arc<User>>,
}

#[derive(Debug)]
struct User {
    changed: AtomicBool,
    wake: Arc<Notify>,
}

/// A pod's interest in objects; it ends with this value.
pub struct Interest {
    followed: Followed,
    references: BTreeSet<Reference>,
    user: Arc<User>,
}

impl Debug for Interest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interest").field("references", &self.references).finish_non_exhaustive()
    }
}

impl Interest {
    /// Whether one of the objects has changed since the last call.
    pub fn take_change(&self) -> bool {
        self.user.changed.swap(false, Ordering::AcqRel)
    }

    pub fn is_in(&self, references: &BTreeSet<Reference>) -> bool {
        self.references == *references
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut entries = self.followed.entries.lock();
        for reference in &self.references {
            let Some(entry) = entries.get_mut(reference) else { continue };
            entry.users.retain(|user| !Arc::ptr_eq(user, &self.user));
            if entry.users.is_empty() {
                entry.scope.cancel();
                entries.remove(reference);
            }
        }
    }
}

impl Followed {
    pub fn new(client: kube::Client, scope: Scope) -> Self {
        Self { client, scope, entries: Arc::default() }
    }

    /// Wake `wake` whenever one of the objects has changed.
    pub fn follow(&self, references: BTreeSet<Reference>, wake: Arc<Notify>) -> Interest {
        let user = Arc::new(User { changed: AtomicBool::new(false), wake });
        let mut entries = self.entries.lock();
        for reference in &references {
            if let Some(entry) = entries.get_mut(reference) {
                entry.users.push(user.clone());
            } else if entries.len() < FOLLOWED_MAX {
                let entry = Entry { scope: self.scope.child(&reference.name), users: vec![user.clone()] };
                self.watch(reference.clone(), &entry.scope);
                entries.insert(reference.clone(), entry);
            }
        }
        drop(entries);
        Interest { followed: self.clone(), references, user }
    }

    fn watch(&self, reference: Reference, scope: &Scope) {
        let this = self.clone();
        match reference.kind {
            Kind::ConfigMap => scope.spawn_until_cancelled("watch", this.run::<ConfigMap>(reference)),
            Kind::Secret => scope.spawn_until_cancelled("watch", this.run::<Secret>(reference)),
        }
    }

    async fn run<K>(self, reference: Reference)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Send + Sync + 'static,
        K: serde::de::DeserializeOwned,
    {
        let api: Api<PartialObjectMeta<K>> = Api::namespaced(self.client.clone(), &reference.namespace);
        let only = watcher::Config::default().fields(&format!("metadata.name={}", reference.name));
        let mut events = std::pin::pin!(watcher(api, only).default_backoff());
        let (mut known, mut listed) = (None, None);
        let mut is_first = true;
        while let Some(event) = events.next().await {
            let version = |object: &PartialObjectMeta<K>| object.metadata.resource_version.clone();
            let is_it = |object: &PartialObjectMeta<K>| object.metadata.name.as_ref() == Some(&reference.name);
            let now = match event {
                Ok(Event::Init) => {
                    listed = None;
                    continue;
                }
                Ok(Event::InitApply(object)) if is_it(&object) => {
                    listed = version(&object);
                    continue;
                }
                Ok(Event::InitDone) => listed.take(),
                Ok(Event::Apply(object)) if is_it(&object) => version(&object),
                Ok(Event::Delete(object)) if is_it(&object) => None,
                Ok(_) => continue,
                Err(error) => {
                    tracing::debug!(%error, ?reference, "a watch of an object that pods use was interrupted");
                    continue;
                }
            };
            // The first list may be newer than what the pods were given.
            if is_first || now != known {
                self.tell(&reference);
            }
            (is_first, known) = (false, now);
        }
    }

    fn tell(&self, reference: &Reference) {
        let entries = self.entries.lock();
        for user in entries.get(reference).into_iter().flat_map(|entry| &entry.users) {
            user.changed.store(true, Ordering::Release);
            user.wake.notify_one();
        }
    }
}
