//! What a plan may ask for: the closed list of writes and notes.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;

use crate::resource::ResourceType;

/// One object, by its coordinates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub resource: ResourceType,
    pub namespace: Option<String>,
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    Merge,
    Strategic,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    pub resource: ResourceType,
    pub namespace: Option<String>,
    pub body: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    pub target: Target,
    pub subresource: Option<&'static str>,
    pub kind: PatchKind,
    pub body: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    pub target: Target,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub propagation: Option<Propagation>,
    pub grace_seconds: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub about: ObjectReference,
    pub warning: bool,
    pub reason: &'static str,
    pub action: &'static str,
    pub text: String,
}

/// Tells, on the owner, how the pods it asked for fared.
#[derive(Clone, Debug, PartialEq)]
pub struct Announce {
    pub about: ObjectReference,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Create(Create),
    /// Pods made in batches of 1, 2, 4 …: the first failure ends it, so that a refused template costs one try.
    CreatePods {
        pods: Vec<Create>,
        announce: Announce,
    },
    /// Deleted side by side.
    DeletePods {
        pods: Vec<Delete>,
        announce: Announce,
    },
    Patch(Patch),
    /// Writes the whole object back to a subresource, for those that take no patch.
    Replace {
        target: Target,
        subresource: &'static str,
        body: Value,
    },
    Delete(Delete),
    /// Every object of a resource in a namespace.
    DeleteCollection {
        resource: ResourceType,
        namespace: String,
    },
    /// Goes on only if the owner still lives under this uid, read from the API itself and not from the cache.
    ConfirmOwner {
        target: Target,
        uid: String,
    },
    /// Goes on only if the object is really absent: watches of two kinds may be apart.
    ConfirmAbsent {
        target: Target,
    },
    Note(Note),
}

/// Everything one pass decided on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In order; the first that fails ends the pass, unless it was about pods.
    pub actions: Vec<Action>,
    /// Look again after this long, though nothing has changed by then.
    pub look_again: Option<Duration>,
}

impl Plan {
    pub fn nothing() -> Self {
        Self::default()
    }

    pub fn of(actions: Vec<Action>) -> Self {
        Self { actions, look_again: None }
    }

    /// The sooner of both counts.
    pub fn look_again_in(&mut self, delay: Duration) {
        self.look_again = Some(self.look_again.map_or(delay, |sooner| sooner.min(delay)));
    }
}

impl Target {
    pub fn namespaced(resource: ResourceType, namespace: &str, name: &str) -> Self {
        Self { resource, namespace: Some(namespace.to_owned()), name: name.to_owned() }
    }

    pub fn cluster(resource: ResourceType, name: &str) -> Self {
        Self { resource, namespace: None, name: name.to_owned() }
    }
}

impl Action {
    pub fn merge(target: Target, body: Value) -> Self {
        Self::Patch(Patch { target, subresource: None, kind: PatchKind::Merge, body })
    }

    pub fn strategic(target: Target, body: Value) -> Self {
        Self::Patch(Patch { target, subresource: None, kind: PatchKind::Strategic, body })
    }

    pub fn merge_status(target: Target, body: Value) -> Self {
        Self::Patch(Patch { target, subresource: Some("status"), kind: PatchKind::Merge, body })
    }
}

impl Delete {
    pub fn of(target: Target, uid: Option<String>) -> Self {
        Self { target, uid, resource_version: None, propagation: None, grace_seconds: None }
    }
}
