//! Watches of the API that feed the owner task: one task a kind, all into one bounded queue.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Endpoints, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use quorate_env::{Backoff, Env, Scope};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::catalog::{self, Change, ServiceKey, SliceSource};
use super::routes::{NodeAddress, node_from};

/// Events that wait for the owner task; a watch that is ahead waits.
pub const FEED_CAPACITY: usize = 1024;
const BACKOFF_INITIAL: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// What the owner task is fed with.
#[derive(Debug)]
pub enum Event {
    Catalog(Change),
    Nodes(Vec<NodeAddress>),
    Node(NodeAddress),
    NodeGone(String),
    /// A watch has delivered its first complete list, before this event.
    Listed(Source),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Services,
    Slices,
    Endpoints,
    Nodes,
}

impl Source {
    pub const ALL: [Self; 4] = [Self::Services, Self::Slices, Self::Endpoints, Self::Nodes];
}

/// How a kind becomes events.
trait Watched: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static {
    type Projection: Send;
    const SOURCE: Source;
    fn project(&self) -> Option<Self::Projection>;
    fn all(list: Vec<Self::Projection>) -> Event;
    fn put(projection: Self::Projection) -> Event;
    fn gone(namespace: String, name: String) -> Event;
}

impl Watched for Service {
    type Projection = catalog::Service;
    const SOURCE: Source = Source::Services;

    fn project(&self) -> Option<Self::Projection> {
        catalog::service_from(self)
    }

    fn all(list: Vec<Self::Projection>) -> Event {
        Event::Catalog(Change::Services(list))
    }

    fn put(projection: Self::Projection) -> Event {
        Event::Catalog(Change::Service(projection))
    }

    fn gone(namespace: String, name: String) -> Event {
        Event::Catalog(Change::ServiceGone(ServiceKey { namespace, name }))
    }
}

impl Watched for EndpointSlice {
    type Projection = catalog::Slice;
    const SOURCE: Source = Source::Slices;

    fn project(&self) -> Option<Self::Projection> {
        catalog::slice_from(self)
    }

    fn all(list: Vec<Self::Projection>) -> Event {
        Event::Catalog(Change::Slices(SliceSource::EndpointSlice, list))
    }

    fn put(projection: Self::Projection) -> Event {
        Event::Catalog(Change::Slice(SliceSource::EndpointSlice, projection))
    }

    fn gone(namespace: String, name: String) -> Event {
        Event::Catalog(Change::SliceGone(SliceSource::EndpointSlice, ServiceKey { namespace, name }))
    }
}

impl Watched for Endpoints {
    type Projection = catalog::Slice;
    const SOURCE: Source = Source::Endpoints;

    fn project(&self) -> Option<Self::Projection> {
        catalog::slice_from_endpoints(self)
    }

    fn all(list: Vec<Self::Projection>) -> Event {
        Event::Catalog(Change::Slices(SliceSource::Endpoints, list))
    }

    fn put(projection: Self::Projection) -> Event {
        Event::Catalog(Change::Slice(SliceSource::Endpoints, projection))
    }

    fn gone(namespace: String, name: String) -> Event {
        Event::Catalog(Change::SliceGone(SliceSource::Endpoints, ServiceKey { namespace, name }))
    }
}

impl Watched for Node {
    type Projection = NodeAddress;
    const SOURCE: Source = Source::Nodes;

    fn project(&self) -> Option<Self::Projection> {
        node_from(self)
    }

    fn all(list: Vec<Self::Projection>) -> Event {
        Event::Nodes(list)
    }

    fn put(projection: Self::Projection) -> Event {
        Event::Node(projection)
    }

    fn gone(_namespace: String, name: String) -> Event {
        Event::NodeGone(name)
    }
}

/// Start all watches.
pub fn start(client: &Client, env: &Env, scope: &Scope) -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(FEED_CAPACITY);
    spawn::<Service>("watch-services", client, env, scope, &sender);
    spawn::<EndpointSlice>("watch-endpoint-slices", client, env, scope, &sender);
    spawn::<Endpoints>("watch-endpoints", client, env, scope, &sender);
    spawn::<Node>("watch-nodes", client, env, scope, &sender);
    receiver
}

fn spawn<K: Watched>(name: &str, client: &Client, env: &Env, scope: &Scope, sender: &mpsc::Sender<Event>) {
    scope.spawn_until_cancelled(name, watch::<K>(Api::all(client.clone()), env.clone(), sender.clone()));
}

async fn watch<K: Watched>(api: Api<K>, env: Env, sender: mpsc::Sender<Event>) {
    let mut backoff = Backoff::new(BACKOFF_INITIAL, BACKOFF_MAX, env.random.clone());
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    let mut list = Vec::new();
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%error, source = ?K::SOURCE, "watch interrupted");
                env.clock.sleep(backoff.next_delay()).await;
                continue;
            }
        };
        backoff.reset();
        for event in translate::<K>(event, &mut list) {
            if sender.send(event).await.is_err() {
                return;
            }
        }
    }
}

/// A list is passed on as a whole, so that what vanished while nobody watched vanishes here.
fn translate<K: Watched>(event: watcher::Event<K>, list: &mut Vec<K::Projection>) -> Vec<Event> {
    match event {
        watcher::Event::Init => {
            list.clear();
            Vec::new()
        }
        watcher::Event::InitApply(object) => {
            list.extend(object.project());
            Vec::new()
        }
        watcher::Event::InitDone => vec![K::all(std::mem::take(list)), Event::Listed(K::SOURCE)],
        watcher::Event::Apply(object) => vec![object.project().map_or_else(|| gone(&object), K::put)],
        watcher::Event::Delete(object) => vec![gone(&object)],
    }
}

fn gone<K: Watched>(object: &K) -> Event {
    let meta = object.meta();
    K::gone(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}
