//! The watches, turned into causes.

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod, ReplicationController, Service};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use quorate_env::{Backoff, Env, Scope};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::mpsc;

use super::Cause;
use crate::node::NodeInfo;
use crate::pod::{PodInfo, PodKey, string_map};
use crate::view::{Claim, OwnerKind, Source};

const RETRY_INITIAL: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// One watch per source, until the scope is cancelled.
pub(super) fn start(client: &kube::Client, causes: &mpsc::Sender<Cause>, env: &Env, scope: &Scope) {
    for source in Source::ALL {
        let (client, causes, env) = (client.clone(), causes.clone(), env.clone());
        let name = format!("watch-{}", resource(source).plural);
        scope.spawn_until_cancelled(&name, async move { watch(source, client, causes, env).await });
    }
}

fn resource(source: Source) -> ApiResource {
    match source {
        Source::Nodes => ApiResource::erase::<Node>(&()),
        Source::Pods => ApiResource::erase::<Pod>(&()),
        Source::Namespaces => ApiResource::erase::<Namespace>(&()),
        Source::Services => ApiResource::erase::<Service>(&()),
        Source::Claims => ApiResource::erase::<PersistentVolumeClaim>(&()),
        Source::Classes => ApiResource::erase::<StorageClass>(&()),
        Source::Owners(OwnerKind::ReplicationController) => ApiResource::erase::<ReplicationController>(&()),
        Source::Owners(OwnerKind::ReplicaSet) => ApiResource::erase::<ReplicaSet>(&()),
        Source::Owners(OwnerKind::StatefulSet) => ApiResource::erase::<StatefulSet>(&()),
    }
}

/// Only what the view keeps is taken out of an object.
fn seen(source: Source, key: PodKey, object: &Value) -> Option<Cause> {
    let selector = || object.pointer("/spec/selector").cloned();
    Some(match source {
        Source::Nodes => Cause::Node(Box::new(NodeInfo::from_json(object)?)),
        Source::Pods => Cause::Pod(Box::new(PodInfo::from_json(object)?)),
        Source::Namespaces => Cause::Namespace(key.1, string_map(object.pointer("/metadata/labels"))),
        Source::Services => Cause::Service(key, selector()),
        Source::Claims => Cause::Claim(key, Claim::from_json(object)),
        Source::Classes => {
            let mode = object.get("volumeBindingMode").and_then(Value::as_str);
            Cause::Class(key.1, mode == Some("WaitForFirstConsumer"))
        }
        Source::Owners(kind) => Cause::Owner(kind, key, selector()),
    })
}

async fn watch(source: Source, client: kube::Client, causes: mpsc::Sender<Cause>, env: Env) {
    let api: Api<DynamicObject> = Api::all_with(client, &resource(source));
    let events = watcher(api, watcher::Config::default());
    pin_mut!(events);
    let mut backoff = Backoff::new(RETRY_INITIAL, RETRY_MAX, env.random.clone());
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let told = match event {
            Ok(event) => {
                backoff.reset();
                translate(source, event, &mut listed)
            }
            Err(error) => {
                tracing::debug!(%error, ?source, "watch interrupted");
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

fn translate(source: Source, event: Event<DynamicObject>, listed: &mut Vec<PodKey>) -> Option<Cause> {
    match event {
        Event::Init => {
            listed.clear();
            None
        }
        Event::InitApply(object) => {
            listed.push(key(&object));
            seen(source, key(&object), &serde_json::to_value(&object).ok()?)
        }
        Event::InitDone => Some(Cause::Listed(source, std::mem::take(listed))),
        Event::Apply(object) => seen(source, key(&object), &serde_json::to_value(&object).ok()?),
        Event::Delete(object) => Some(Cause::Gone(source, key(&object))),
    }
}

fn key(object: &DynamicObject) -> PodKey {
    (object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap_or_default())
}
