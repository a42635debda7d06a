//! The watches of nodes and pods, turned into causes.

use futures::{StreamExt, pin_mut};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use quorate_env::{Backoff, Env, Scope};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::mpsc;

use super::Cause;
use crate::node::NodeInfo;
use crate::pod::{PodInfo, PodKey};

const RETRY_INITIAL: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// One watch per kind, until the scope is cancelled.
pub(super) fn start(client: &kube::Client, causes: &mpsc::Sender<Cause>, env: &Env, scope: &Scope) {
    for kind in [Kind::Node, Kind::Pod] {
        let (client, causes, env) = (client.clone(), causes.clone(), env.clone());
        scope.spawn_until_cancelled(kind.name(), async move { watch(kind, client, causes, env).await });
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Node,
    Pod,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Node => "watch-nodes",
            Self::Pod => "watch-pods",
        }
    }

    fn resource(self) -> ApiResource {
        match self {
            Self::Node => ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&()),
            Self::Pod => ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&()),
        }
    }

    fn seen(self, object: &Value) -> Option<Cause> {
        match self {
            Self::Node => NodeInfo::from_json(object).map(|node| Cause::Node(Box::new(node))),
            Self::Pod => PodInfo::from_json(object).map(|pod| Cause::Pod(Box::new(pod))),
        }
    }

    fn gone(self, key: PodKey) -> Cause {
        match self {
            Self::Node => Cause::NodeGone(key.1),
            Self::Pod => Cause::PodGone(key),
        }
    }

    fn listed(self, keys: Vec<PodKey>) -> Cause {
        match self {
            Self::Node => Cause::NodesListed(keys.into_iter().map(|key| key.1).collect()),
            Self::Pod => Cause::PodsListed(keys),
        }
    }
}

async fn watch(kind: Kind, client: kube::Client, causes: mpsc::Sender<Cause>, env: Env) {
    let api: Api<DynamicObject> = Api::all_with(client, &kind.resource());
    let events = watcher(api, watcher::Config::default());
    pin_mut!(events);
    let mut backoff = Backoff::new(RETRY_INITIAL, RETRY_MAX, env.random.clone());
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let told = match event {
            Ok(event) => {
                backoff.reset();
                translate(kind, event, &mut listed)
            }
            Err(error) => {
                tracing::debug!(%error, watch = kind.name(), "watch interrupted");
                env.clock.sleep(backoff.next_delay()).await;
                None
            }
        };
        if let Some(cause) = told
            && causes.send(cause).await.is_err()
        {
            return;
        }
    }
}

fn translate(kind: Kind, event: Event<DynamicObject>, listed: &mut Vec<PodKey>) -> Option<Cause> {
    match event {
        Event::Init => {
            listed.clear();
            None
        }
        Event::InitApply(object) => {
            listed.push(key(&object));
            kind.seen(&serde_json::to_value(&object).ok()?)
        }
        Event::InitDone => Some(kind.listed(std::mem::take(listed))),
        Event::Apply(object) => kind.seen(&serde_json::to_value(&object).ok()?),
        Event::Delete(object) => Some(kind.gone(key(&object))),
    }
}

fn key(object: &DynamicObject) -> PodKey {
    (object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap_or_default())
}
