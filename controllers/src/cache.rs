//! What the watches have shown so far: one store per kind, shared by all controllers of the process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use quorate_api::name::ObjectKey;
use tokio::sync::watch;

use crate::projection::{
    ConfigMap, ControllerRevision, DaemonSet, Deployment, EndpointSlice, Endpoints, Lease, Namespace, Node,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, Projected, ReplicaSet, ReplicationController, Secret, Service,
    ServiceAccount, StatefulSet,
};
use crate::resource::Kind;

/// The objects of one kind.
#[derive(Debug)]
pub struct Store<K> {
    objects: RwLock<BTreeMap<ObjectKey, Arc<K>>>,
    /// The newest resourceVersion up to which everything has been seen: that of the last event, since events come in its
    /// order, or once a list has been read to its end, the newest in it, since a list is one moment's picture.
    revision: watch::Sender<u64>,
    listed: AtomicBool,
}

/// One object's step from one state to the next.
#[derive(Clone, Debug)]
pub struct Delta<K> {
    pub key: ObjectKey,
    pub old: Option<Arc<K>>,
    pub new: Option<Arc<K>>,
}

/// A write of ours that the cache has yet to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub kind: Kind,
    pub key: ObjectKey,
    pub uid: String,
    pub effect: Effect,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Stored at this revision.
    Written(u64),
    /// Gone, or marked as going.
    Deleted,
}

// === impl Store ===

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self { objects: RwLock::default(), revision: watch::Sender::new(0), listed: AtomicBool::new(false) }
    }
}

impl<K: Projected> Store<K> {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<ObjectKey, Arc<K>>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<ObjectKey, Arc<K>>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read().get(key).cloned()
    }

    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.get(&ObjectKey::namespaced(namespace, name))
    }

    pub fn all(&self) -> Vec<Arc<K>> {
        self.read().values().cloned().collect()
    }

    /// The objects of a namespace that `wanted` accepts, by name.
    pub fn select(&self, namespace: &str, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let objects = self.read();
        let from = objects.range(ObjectKey::namespaced(namespace, "")..);
        let within = from.take_while(|(key, _)| key.namespace.as_deref() == Some(namespace));
        within.filter(|(_, object)| wanted(object)).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// An event of the watch.
    pub fn put(&self, object: K) -> Delta<K> {
        let revision = parse_revision(object.resource_version());
        let delta = self.put_listed(object);
        self.advance(revision);
        delta
    }

    /// An object of a list that is still being read: lists are in the order of names, so older objects may follow, and
    /// nothing is known to be complete.
    pub fn put_listed(&self, object: K) -> Delta<K> {
        let (key, new) = (object.key(), Arc::new(object));
        let old = self.write().insert(key.clone(), Arc::clone(&new));
        Delta { key, old, new: Some(new) }
    }

    pub fn remove(&self, key: &ObjectKey, revision: u64) -> Delta<K> {
        let old = self.write().remove(key);
        self.advance(revision);
        Delta { key: key.clone(), old, new: None }
    }

    /// A list has been read to its end: what it did not name is gone. `newest` is the largest version in it.
    pub fn retain(&self, listed: &std::collections::BTreeSet<ObjectKey>, newest: u64) -> Vec<Delta<K>> {
        let gone: Vec<ObjectKey> = self.read().keys().filter(|key| !listed.contains(*key)).cloned().collect();
        let deltas = gone.iter().map(|key| self.remove(key, 0)).collect();
        self.listed.store(true, Ordering::Release);
        self.advance(newest);
        deltas
    }

    fn advance(&self, revision: u64) {
        self.revision.send_modify(|newest| *newest = (*newest).max(revision));
    }

    fn shows(&self, pending: &Pending) -> bool {
        match pending.effect {
            Effect::Written(revision) => *self.revision.borrow() >= revision,
            Effect::Deleted => {
                self.read().get(&pending.key).is_none_or(|found| found.uid() != pending.uid || found.is_deleting())
            }
        }
    }

    /// The object is not there, or another of its name is.
    fn lacks(&self, pending: &Pending) -> bool {
        self.read().get(&pending.key).is_none_or(|found| found.uid() != pending.uid)
    }

    async fn until(&self, ready: impl Fn(&Self) -> bool) {
        let mut changes = self.revision.subscribe();
        while !ready(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// 0 for a version that is no number: it then never holds anything up.
pub fn parse_revision(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or(0)
}

macro_rules! cached {
    ($($kind:ident => $field:ident),+ $(,)?) => {
        #[derive(Debug, Default)]
        pub struct Cache {
            $(pub $field: Store<$kind>,)+
        }

        /// Everything that may wake a controller.
        #[derive(Clone, Debug)]
        pub enum Change {
            $($kind(Delta<$kind>),)+
        }

        $(
            impl From<Delta<$kind>> for Change {
                fn from(delta: Delta<$kind>) -> Self {
                    Self::$kind(delta)
                }
            }

            impl Cached for $kind {
                const KIND: Kind = Kind::$kind;
                fn store(cache: &Cache) -> &Store<Self> {
                    &cache.$field
                }
            }
        )+

        impl Cache {
            /// Resolves once every kind has been listed.
            pub async fn listed(&self) {
                $(self.$field.until(|store| store.listed.load(Ordering::Acquire)).await;)+
            }

            pub fn shows(&self, pending: &Pending) -> bool {
                match pending.kind {
                    $(Kind::$kind => self.$field.shows(pending),)+
                }
            }

            /// Whether the object of a write of ours is not in the cache.
            pub fn lacks(&self, pending: &Pending) -> bool {
                match pending.kind {
                    $(Kind::$kind => self.$field.lacks(pending),)+
                }
            }

            /// Resolves once the cache shows a write of ours.
            pub async fn shown(&self, pending: &Pending) {
                match pending.kind {
                    $(Kind::$kind => self.$field.until(|store| store.shows(pending)).await,)+
                }
            }
        }

        impl Kind {
            /// All of them, in the order they are watched.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),+];
        }
    };
}

/// A projection that has a store in the cache.
pub trait Cached: Projected + Sized {
    const KIND: Kind;
    fn store(cache: &Cache) -> &Store<Self>;
}

cached! {
    Namespace => namespaces,
    Node => nodes,
    Lease => leases,
    Pod => pods,
    ReplicaSet => replica_sets,
    ReplicationController => replication_controllers,
    Deployment => deployments,
    ControllerRevision => revisions,
    DaemonSet => daemon_sets,
    StatefulSet => stateful_sets,
    PersistentVolumeClaim => claims,
    Service => services,
    Endpoints => endpoints,
    EndpointSlice => endpoint_slices,
    ServiceAccount => service_accounts,
    ConfigMap => config_maps,
    Secret => secrets,
    PodDisruptionBudget => budgets,
}

impl<K> Delta<K> {
    /// The object as it is, or as it last was.
    pub fn latest(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// Every state the step touches: keys that only the old one names must be woken too.
    pub fn states(&self) -> impl Iterator<Item = &Arc<K>> {
        self.old.iter().chain(self.new.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, version: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.namespace = Some("a".to_owned());
        pod.metadata.uid = Some(format!("uid-{name}"));
        pod.metadata.resource_version = Some(version.to_owned());
        pod
    }

    #[test]
    fn a_namespace_is_one_range() {
        let cache = Cache::default();
        cache.pods.put(pod("x", "1"));
        let mut other = pod("x", "2");
        other.metadata.namespace = Some("ab".to_owned());
        cache.pods.put(other);
        assert_eq!(cache.pods.select("a", |_| true).len(), 1);
        assert_eq!(cache.pods.select("b", |_| true).len(), 0);
    }

    #[tokio::test]
    async fn a_write_is_shown_once_its_revision_has_been_seen() {
        let cache = Cache::default();
        let key = ObjectKey::namespaced("a", "x");
        let pending = |effect| Pending { kind: Kind::Pod, key: key.clone(), uid: "uid-x".to_owned(), effect };
        assert!(!cache.pods.shows(&pending(Effect::Written(5))));
        cache.pods.put(pod("x", "5"));
        cache.shown(&pending(Effect::Written(5))).await;
        assert!(!cache.pods.shows(&pending(Effect::Deleted)));
        cache.pods.remove(&key, 6);
        cache.shown(&pending(Effect::Deleted)).await;
    }
}
