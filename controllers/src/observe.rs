//! One watch per kind, which fills the cache and tells the runner of every change.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, pin_mut};
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};
use quorate_api::name::ObjectKey;
use quorate_env::{Backoff, Env, Scope};
use serde::de::DeserializeOwned;

use crate::cache::{Cache, Cached, Change, parse_revision};
use crate::controller::rootca::CONFIG_MAP_NAME;
use crate::controller::tokencleaner::SECRET_TYPE;
use crate::projection::{
    ConfigMap, ControllerRevision, DaemonSet, Deployment, EndpointSlice, Endpoints, Lease, Namespace, Node,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, Secret, Service,
    ServiceAccount, StatefulSet,
};
use crate::resource::Kind;

pub const RETRY_INITIAL: Duration = Duration::from_millis(100);
pub const RETRY_MAX: Duration = Duration::from_secs(5);
/// Where nodes keep their heartbeats.
const NODE_LEASES: &str = "kube-node-lease";
/// Where bootstrap tokens live.
const TOKENS: &str = "kube-system";

/// Gets every change, in the order of its kind's watch.
pub type Listener = Arc<dyn Fn(&Change) + Send + Sync>;

#[derive(Clone)]
struct Observer {
    client: kube::Client,
    cache: Arc<Cache>,
    listener: Listener,
    env: Env,
    scope: Scope,
}

pub fn start(client: &kube::Client, cache: &Arc<Cache>, listener: &Listener, env: &Env, scope: &Scope) {
    let observer = Observer {
        client: client.clone(),
        cache: Arc::clone(cache),
        listener: Arc::clone(listener),
        env: env.clone(),
        scope: scope.clone(),
    };
    let named = watcher::Config::default().fields(&format!("metadata.name={CONFIG_MAP_NAME}"));
    observer.watch(Api::<ConfigMap>::all(observer.client.clone()), named);
    observer.watch(Api::<Lease>::namespaced(observer.client.clone(), NODE_LEASES), watcher::Config::default());
    let tokens = watcher::Config::default().fields(&format!("type={SECRET_TYPE}"));
    observer.watch(Api::<Secret>::namespaced(observer.client.clone(), TOKENS), tokens);
    observer.watch_all::<ControllerRevision>();
    observer.watch_all::<DaemonSet>();
    observer.watch_all::<Deployment>();
    observer.watch_all::<EndpointSlice>();
    observer.watch_all::<Endpoints>();
    observer.watch_all::<Namespace>();
    observer.watch_all::<Node>();
    observer.watch_all::<PersistentVolumeClaim>();
    observer.watch_all::<Pod>();
    observer.watch_all::<PodDisruptionBudget>();
    observer.watch_all::<ReplicaSet>();
    observer.watch_all::<ReplicationController>();
    observer.watch_all::<Service>();
    observer.watch_all::<ServiceAccount>();
    observer.watch_all::<StatefulSet>();
}

/// Whether the watches above tell of an object: of some kinds only a part is watched.
pub fn is_watched(kind: Kind, key: &ObjectKey) -> bool {
    match kind {
        Kind::ConfigMap => key.name == CONFIG_MAP_NAME,
        Kind::Lease => key.namespace.as_deref() == Some(NODE_LEASES),
        // Which type a secret has, its key does not say.
        Kind::Secret => false,
        _ => true,
    }
}

impl Observer {
    fn watch_all<K>(&self)
    where
        K: Cached + kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        Change: From<crate::cache::Delta<K>>,
    {
        self.watch(Api::<K>::all(self.client.clone()), watcher::Config::default());
    }

    fn watch<K>(&self, api: Api<K>, config: watcher::Config)
    where
        K: Cached + kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        Change: From<crate::cache::Delta<K>>,
    {
        let (cache, listener, env) = (Arc::clone(&self.cache), Arc::clone(&self.listener), self.env.clone());
        self.scope.spawn_until_cancelled(&format!("watch-{}", K::KIND.resource().plural), async move {
            follow(watcher(api, config), &cache, &listener, &env).await;
        });
    }
}

async fn follow<K>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>>,
    cache: &Cache,
    listener: &Listener,
    env: &Env,
) where
    K: Cached + kube::Resource<DynamicType = ()>,
    Change: From<crate::cache::Delta<K>>,
{
    pin_mut!(events);
    let mut backoff = Backoff::new(RETRY_INITIAL, RETRY_MAX, env.random.clone());
    let mut listed = Listed::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                backoff.reset();
                for delta in absorb(event, K::store(cache), &mut listed) {
                    listener(&Change::from(delta));
                }
            }
            Err(error) => {
                tracing::debug!(%error, kind = ?K::KIND, "watch interrupted");
                env.clock.sleep(backoff.next_delay()).await;
            }
        }
    }
}

/// A list on its way.
#[derive(Debug, Default)]
struct Listed {
    keys: BTreeSet<ObjectKey>,
    newest: u64,
}

fn absorb<K: Cached + kube::Resource>(
    event: Event<K>,
    store: &crate::cache::Store<K>,
    listed: &mut Listed,
) -> Vec<crate::cache::Delta<K>> {
    match event {
        Event::Init => {
            *listed = Listed::default();
            Vec::new()
        }
        Event::InitApply(object) => {
            listed.keys.insert(object.key());
            listed.newest = listed.newest.max(parse_revision(object.resource_version()));
            vec![store.put_listed(lean(object))]
        }
        Event::InitDone => {
            let Listed { keys, newest } = std::mem::take(listed);
            store.retain(&keys, newest)
        }
        Event::Apply(object) => vec![store.put(lean(object))],
        Event::Delete(object) => vec![store.remove(&object.key(), parse_revision(object.resource_version()))],
    }
}

/// Nobody plans by managed fields, and they are the largest part of the metadata.
fn lean<K: kube::Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Effect, Pending};
    use crate::projection::Projected;

    fn pod(name: &str, version: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.namespace = Some("a".to_owned());
        pod.metadata.uid = Some(name.to_owned());
        pod.metadata.resource_version = Some(version.to_owned());
        pod
    }

    #[test]
    fn a_list_shows_nothing_before_its_end() {
        let (cache, mut listed) = (Cache::default(), Listed::default());
        let mut absorb = |event| absorb(event, &cache.pods, &mut listed);
        let ours = pod("z", "5");
        let (kind, uid) = (Kind::Pod, ours.uid().to_owned());
        let pending = Pending { kind, key: ours.key(), uid, effect: Effect::Written(5) };
        absorb(Event::Init);
        absorb(Event::InitApply(pod("a", "9")));
        assert!(!cache.shows(&pending) && cache.lacks(&pending), "a newer one was listed, ours was not yet");
        absorb(Event::InitApply(ours));
        absorb(Event::InitDone);
        assert!(cache.shows(&pending) && !cache.lacks(&pending));
    }

    #[test]
    fn what_no_watch_tells_of_is_not_waited_for() {
        let named = |namespace: &str, name: &str| ObjectKey::namespaced(namespace, name);
        assert!(is_watched(Kind::ConfigMap, &named("a", CONFIG_MAP_NAME)) && is_watched(Kind::Pod, &named("a", "x")));
        assert!(!is_watched(Kind::ConfigMap, &named("a", "x")));
        assert!(is_watched(Kind::Lease, &named(NODE_LEASES, "n")) && !is_watched(Kind::Lease, &named("a", "n")));
    }
}
