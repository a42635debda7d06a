//! Who owns whom, over all kinds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use quorate_api::name::ObjectKey;

use crate::resource::ResourceType;

pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";

/// One object, as far as ownership goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub uid: String,
    pub resource: Arc<ResourceType>,
    pub key: ObjectKey,
    pub resource_version: String,
    pub owners: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    pub deleting: bool,
}

#[derive(Debug, Default)]
pub struct Graph {
    items: BTreeMap<String, Item>,
    dependents: BTreeMap<String, BTreeSet<String>>,
}

// === impl Item ===

impl Item {
    pub fn of(resource: &Arc<ResourceType>, metadata: ObjectMeta) -> Option<Self> {
        Some(Self {
            uid: metadata.uid?,
            resource: Arc::clone(resource),
            key: ObjectKey { namespace: metadata.namespace, name: metadata.name? },
            resource_version: metadata.resource_version.unwrap_or_default(),
            owners: metadata.owner_references.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
        })
    }

    fn holds(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| own == finalizer)
    }

    /// On its way out, once those that block it are gone.
    pub fn awaits_dependents(&self) -> bool {
        self.deleting && self.holds(FOREGROUND)
    }

    /// On its way out, once its dependents have let go of it.
    pub fn orphans_dependents(&self) -> bool {
        self.deleting && self.holds(ORPHAN)
    }

    /// Whether `reference`, written in `dependent`, speaks of this object and not of one elsewhere with its uid.
    pub fn is_meant_by(&self, dependent: &Item, reference: &OwnerReference) -> bool {
        let reachable = self.key.namespace.is_none() || self.key.namespace == dependent.key.namespace;
        let (group, _) = reference.api_version.split_once('/').unwrap_or(("", ""));
        reachable
            && self.key.name == reference.name
            && self.resource.kind == reference.kind
            && self.resource.group == group
    }

    pub fn is_blocking(&self, owner: &str) -> bool {
        self.owners.iter().any(|own| own.uid == owner && own.block_owner_deletion == Some(true))
    }
}

// === impl Graph ===

impl Graph {
    pub fn get(&self, uid: &str) -> Option<&Item> {
        self.items.get(uid)
    }

    pub fn dependents(&self, owner: &str) -> Vec<Item> {
        let uids = self.dependents.get(owner).into_iter().flatten();
        uids.filter_map(|uid| self.items.get(uid)).cloned().collect()
    }

    /// Returns the uids that the change concerns.
    pub fn put(&mut self, item: Item) -> Vec<String> {
        let old = self.items.get(&item.uid);
        let old_owners = old.map(|old| old.owners.clone()).unwrap_or_default();
        let was_waiting = old.is_some_and(Item::awaits_dependents);
        let mut woken = Vec::new();
        for owner in &old_owners {
            if !item.owners.iter().any(|own| own.uid == owner.uid) {
                self.unlink(&owner.uid, &item.uid);
            }
        }
        // An owner that waits may no longer be blocked by this object.
        if old_owners != item.owners {
            woken.extend(old_owners.iter().filter(|owner| self.waits(&owner.uid)).map(|owner| owner.uid.clone()));
        }
        for owner in &item.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(item.uid.clone());
        }
        let leaving = item.awaits_dependents() || item.orphans_dependents();
        let lives = |owner: &OwnerReference| self.items.get(&owner.uid).is_some_and(|own| !own.awaits_dependents());
        if leaving || !item.owners.iter().all(lives) {
            woken.push(item.uid.clone());
        }
        if item.awaits_dependents() && !was_waiting {
            woken.extend(self.dependents.get(&item.uid).into_iter().flatten().cloned());
        }
        self.items.insert(item.uid.clone(), item);
        woken
    }

    /// Returns the uids that the loss concerns.
    pub fn remove(&mut self, uid: &str) -> Vec<String> {
        let Some(item) = self.items.remove(uid) else { return Vec::new() };
        let mut woken: Vec<String> = self.dependents.get(uid).into_iter().flatten().cloned().collect();
        for owner in &item.owners {
            self.unlink(&owner.uid, uid);
            if self.waits(&owner.uid) {
                woken.push(owner.uid.clone());
            }
        }
        woken
    }

    /// A list has been read to its end: what it did not name is gone.
    pub fn retain(&mut self, resource: &ResourceType, listed: &BTreeSet<String>) -> Vec<String> {
        let own = self.items.values().filter(|item| *item.resource == *resource && !listed.contains(&item.uid));
        let gone: Vec<String> = own.map(|item| item.uid.clone()).collect();
        gone.iter().flat_map(|uid| self.remove(uid)).collect()
    }

    /// The kind itself is no more. Its dependents are not woken: whether their owners still live cannot be asked.
    pub fn forget(&mut self, resource: &ResourceType) {
        let own = self.items.values().filter(|item| *item.resource == *resource);
        for uid in own.map(|item| item.uid.clone()).collect::<Vec<_>>() {
            self.remove(&uid);
        }
    }

    fn waits(&self, uid: &str) -> bool {
        self.items.get(uid).is_some_and(Item::awaits_dependents)
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(all) = self.dependents.get_mut(owner) {
            all.remove(dependent);
            if all.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}
