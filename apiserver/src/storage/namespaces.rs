//! This member's view of namespaces, so that a create costs no read: the transaction compares with what the view
//! says, and a view that was behind is refreshed by the failed compare.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use quorate_api::name::GroupResource;
use quorate_api::status::{Cause, Status};
use quorate_raft_store::{Compare, Consistency, Revision, WatchRange};

use super::{Home, Storage, Stored};
use crate::follow::{Follower, Source, View};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    revision: Revision,
    terminating: bool,
}

/// Which namespaces exist, and at which revision.
#[derive(Clone, Debug)]
pub struct Namespaces {
    storage: Storage,
    known: Arc<Known>,
}

#[derive(Debug)]
struct Known {
    home: Home,
    states: RwLock<BTreeMap<String, State>>,
}

impl View for Known {
    type State = BTreeMap<String, State>;

    fn state(&self) -> &RwLock<Self::State> {
        &self.states
    }

    fn put(&self, states: &mut Self::State, stored: &Stored) {
        let (name, new) = (self.name(&stored.key), state(stored));
        // A caller may have read a newer state than this event's.
        if states.get(&name).is_none_or(|known| known.revision < new.revision) {
            states.insert(name, new);
        }
    }

    fn delete(&self, states: &mut Self::State, key: &[u8]) {
        states.remove(&self.name(key));
    }
}

impl Known {
    fn name(&self, key: &[u8]) -> String {
        String::from_utf8_lossy(self.home.relative(key)).into_owned()
    }
}

impl Namespaces {
    /// A view kept up to date by a task of the source's scope.
    pub(crate) fn start(source: Source<'_>) -> Self {
        let known = Arc::new(Known { home: Home::new("", "namespaces"), states: RwLock::default() });
        let (start, end) = known.home.range("");
        // Whoever asks for a namespace that the view lacks reads it, so nobody waits for the view.
        drop(Follower::start("namespaces", source, WatchRange { start, end }, known.clone()));
        Self { storage: source.storage.clone(), known }
    }

    /// The condition that `namespace` is as it was when it was found alive. What the view does not know, or knows to
    /// end, is read again before the caller is refused.
    pub async fn guard(&self, namespace: &str, resource: &GroupResource, name: &str) -> Result<Compare, Status> {
        let known = self.known.states.read().get(namespace).copied();
        let alive = match known {
            Some(state) if !state.terminating => state,
            _ => self.refresh(namespace).await?.ok_or_else(|| absent(namespace))?,
        };
        if alive.terminating {
            return Err(terminating(namespace, resource, name));
        }
        Ok(Compare::ModRevision { key: self.known.home.object("", namespace), revision: alive.revision })
    }

    /// Reads the namespace afresh, after a compare with the view's knowledge failed.
    pub async fn forget(&self, namespace: &str) -> Result<(), Status> {
        self.refresh(namespace).await.map(drop)
    }

    async fn refresh(&self, namespace: &str) -> Result<Option<State>, Status> {
        let found = self.storage.get(&self.known.home, "", namespace, Consistency::Linearizable).await?;
        let Some(fresh) = found.as_ref().map(state) else {
            self.known.states.write().remove(namespace);
            return Ok(None);
        };
        self.known.states.write().insert(namespace.to_owned(), fresh);
        Ok(Some(fresh))
    }

    /// Whether the view knows `namespace` as alive.
    pub fn is_alive(&self, namespace: &str) -> bool {
        self.known.states.read().get(namespace).is_some_and(|state| !state.terminating)
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
