//! One metadata watch per kind, which fills the graph and wakes what a change concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, pin_mut};
use kube::api::{Api, ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, Event, watcher};
use quorate_api::name::ObjectKey;
use quorate_env::{Backoff, Env, Scope};

use super::{Item, Shared};
use crate::observe::{RETRY_INITIAL, RETRY_MAX};
use crate::resource::ResourceType;
use crate::runner::Station;

#[derive(Clone)]
pub(super) struct Observer {
    pub(super) client: kube::Client,
    pub(super) shared: Arc<Shared>,
    pub(super) station: Arc<Station>,
    pub(super) env: Env,
}

impl Observer {
    pub(super) fn start(self, resource: ResourceType, scope: &Scope) {
        scope.spawn_until_cancelled("watch", async move { self.follow(resource).await });
    }

    async fn follow(self, resource: ResourceType) {
        let kind = ApiResource {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            api_version: resource.api_version(),
            kind: resource.kind.to_string(),
            plural: resource.plural.to_string(),
        };
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(self.client.clone(), &kind);
        let events = watcher(api, watcher::Config::default());
        pin_mut!(events);
        let resource = Arc::new(resource);
        let mut backoff = Backoff::new(RETRY_INITIAL, RETRY_MAX, self.env.random.clone());
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    backoff.reset();
                    self.absorb(&resource, event, &mut listed);
                }
                Err(error) => {
                    tracing::debug!(%error, kind = %resource.kind, "watch interrupted");
                    self.env.clock.sleep(backoff.next_delay()).await;
                }
            }
        }
    }

    fn absorb(
        &self,
        resource: &Arc<ResourceType>,
        event: Event<PartialObjectMeta<DynamicObject>>,
        listed: &mut BTreeSet<String>,
    ) {
        let woken = match event {
            Event::Init => {
                listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                listed.extend(object.metadata.uid.clone());
                self.put(resource, object)
            }
            Event::Apply(object) => self.put(resource, object),
            Event::Delete(object) => self.shared.graph().remove(object.metadata.uid.as_deref().unwrap_or_default()),
            Event::InitDone => {
                let woken = self.shared.graph().retain(resource, &std::mem::take(listed));
                self.shared.unlisted.send_modify(|left| {
                    if let Some(left) = left {
                        left.remove(resource.as_ref());
                    }
                });
                woken
            }
        };
        self.station.add(woken.into_iter().map(ObjectKey::cluster).collect());
    }

    fn put(&self, resource: &Arc<ResourceType>, object: PartialObjectMeta<DynamicObject>) -> Vec<String> {
        let Some(item) = Item::of(resource, object.metadata) else { return Vec::new() };
        self.shared.graph().put(item)
    }
}
