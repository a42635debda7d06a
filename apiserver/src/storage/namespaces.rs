//! This member's view of namespaces, so that a create costs no read: the transaction compares with what the view
//! says, and a view that was behind is refreshed by the failed compare.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use quorate_api::name::GroupResource;
use quorate_api::status::{Cause, Status};
use quorate_env::{Backoff, Env, Scope};
use quorate_raft_store::{Change, Compare, Consistency, Revision, WatchRange};

use super::{Home, Storage, Stored};

const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    revision: Revision,
    terminating: bool,
}

/// Which namespaces exist, and at which revision.
#[derive(Clone, Debug)]
pub struct Namespaces {
    storage: Storage,
    home: Home,
    known: Arc<RwLock<BTreeMap<String, State>>>,
}

impl Namespaces {
    /// A view kept up to date by a task of `scope`.
    pub fn start(storage: Storage, env: Env, scope: &Scope) -> Self {
        let view = Self { storage, home: Home::new("", "namespaces"), known: Arc::default() };
        let follower = view.clone();
        scope.spawn_until_cancelled("namespaces", async move {
            let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX, env.random.clone());
            loop {
                if let Err(status) = follower.follow().await {
                    tracing::debug!(%status, "namespace view starts over");
                }
                env.clock.sleep(backoff.next_delay()).await;
            }
        });
        view
    }

    async fn follow(&self) -> Result<(), Status> {
        let (all, revision) = self.storage.all(&self.home, "").await?;
        *self.known.write() = all.iter().map(|stored| (self.name(stored), state(stored))).collect();
        let (start, end) = self.home.range("");
        let mut watcher = self.storage.watch(WatchRange { start, end }, revision)?;
        while let Ok(batch) = watcher.next().await {
            for event in batch.events {
                let name = String::from_utf8_lossy(self.home.relative(&event.key)).into_owned();
                match &event.change {
                    Change::Put(kv) => {
                        if let Ok(stored) = Stored::open(kv) {
                            self.known.write().insert(name, state(&stored));
                        }
                    }
                    Change::Delete => {
                        self.known.write().remove(&name);
                    }
                }
            }
        }
        Ok(())
    }

    fn name(&self, stored: &Stored) -> String {
        String::from_utf8_lossy(self.home.relative(&stored.key)).into_owned()
    }

    /// The condition that `namespace` is as it was when it was found alive. What the view does not know, or knows to
    /// end, is read again before the caller is refused.
    pub async fn guard(&self, namespace: &str, resource: &GroupResource, name: &str) -> Result<Compare, Status> {
        let known = self.known.read().get(namespace).copied();
        let alive = match known {
            Some(state) if !state.terminating => state,
            _ => self.refresh(namespace).await?.ok_or_else(|| absent(namespace))?,
        };
        if alive.terminating {
            return Err(terminating(namespace, resource, name));
        }
        Ok(Compare::ModRevision { key: self.home.object("", namespace), revision: alive.revision })
    }

    /// Reads the namespace afresh, after a compare with the view's knowledge failed.
    pub async fn forget(&self, namespace: &str) -> Result<(), Status> {
        self.refresh(namespace).await.map(drop)
    }

    async fn refresh(&self, namespace: &str) -> Result<Option<State>, Status> {
        let found = self.storage.get(&self.home, "", namespace, Consistency::Linearizable).await?;
        let Some(fresh) = found.as_ref().map(state) else {
            self.known.write().remove(namespace);
            return Ok(None);
        };
        self.known.write().insert(namespace.to_owned(), fresh);
        Ok(Some(fresh))
    }

    /// Whether the view knows `namespace` as alive.
    pub fn is_alive(&self, namespace: &str) -> bool {
        self.known.read().get(namespace).is_some_and(|state| !state.terminating)
    }
}

fn state(stored: &Stored) -> State {
    State { revision: stored.revision, terminating: stored.is_deleting() }
}

fn absent(namespace: &str) -> Status {
    Status::not_found(&GroupResource::new("", "namespaces"), namespace)
}

fn terminating(namespace: &str, resource: &GroupResource, name: &str) -> Status {
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    Status::forbidden(resource, name, why).with_cause(Cause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    })
}
