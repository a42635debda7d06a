//! The table of resources: one row per resource this server knows by itself.
//!
//! The rows are data (`facts/resources.tsv`); custom resources make rows of the same shape at run time.

mod parse;
mod table;
#[cfg(test)]
mod tests;

pub use parse::RowError;
pub use table::{Table, table};

use std::fmt;

use crate::name::{GroupKind, GroupResource, GroupVersion, Gvk, Gvr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// What discovery and authorization call the things one can do; declared in discovery's (alphabetical) order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

/// One version in which a resource is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub name: String,
    /// The schema of the kind in this version: `io.k8s.api.core.v1.Pod`.
    pub message: String,
}

/// A part of an object with verbs of its own: `status`, `scale`, `pods/exec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    pub name: String,
    /// The kind read and written there; its version is empty where it is the version of the request.
    pub kind: Gvk,
    pub verbs: Vec<Verb>,
    /// The schema of that kind.
    pub message: String,
    /// Further path segments after the name belong to it (`proxy`).
    pub takes_path: bool,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub group: String,
    /// In order of preference; never empty.
    pub versions: Vec<Version>,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub scope: Scope,
    pub verbs: Vec<Verb>,
    pub subresources: Vec<Subresource>,
    /// The kind and version under which objects are stored; in another group for a second door to the same objects.
    pub storage: Gvk,
    /// The row of an old API: served by converting to and from `storage`, never listed or watched.
    pub legacy: bool,
}

// === impl Verb ===

impl Verb {
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Update,
        Self::Watch,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == text)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Resource ===

impl Resource {
    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }

    pub fn gvr(&self, version: &str) -> Gvr {
        Gvr::new(&self.group, version, &self.plural)
    }

    pub fn gvk(&self, version: &str) -> Gvk {
        Gvk::new(&self.group, version, &self.kind)
    }

    pub fn group_versions(&self) -> impl Iterator<Item = GroupVersion> {
        self.versions.iter().map(|version| GroupVersion::new(&self.group, &version.name))
    }

    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub fn allows(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether objects are stored under this very row, and not under another group's.
    pub fn stores(&self) -> bool {
        !self.legacy && self.storage.group == self.group
    }
}
