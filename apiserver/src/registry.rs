//! The rows that the verbs work on: a resource's data in one served version, and its strategy.

pub mod guard;
pub(crate) mod kinds;
pub mod strategy;

// The kinds, a file each, by group.
mod admission_registration;
mod apps;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
pub(crate) mod core;
mod devices;
mod discovery;
mod flow_control;
pub(crate) mod legacy;
mod networking;
mod node;
mod policy;
mod rbac;
mod scheduling;
mod storage;

// What kinds are written with.
mod defaulting;
mod difference;
mod display;
mod formats;
pub(crate) mod gated;
mod int_or_percent;
pub(crate) mod keep;
mod replicas;
mod rules;
mod selectors;
#[cfg(test)]
mod testing;

use std::collections::HashMap;
use std::sync::Arc;

use quorate_api::name::{GroupKind, GroupResource, Gvk};
use quorate_api::resource::{Resource, Subresource, Table, Verb};

use crate::storage::Home;
use strategy::Conversion;
pub use strategy::Strategy;

/// One resource in one served version.
#[derive(Clone, Debug)]
pub struct Row {
    pub resource: Arc<Resource>,
    /// The served version's name: `v1`.
    pub version: String,
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// The schema of the kind in this version.
    pub message: String,
    pub group_resource: GroupResource,
    pub strategy: &'static Strategy,
    /// Present when this version differs from the stored one.
    pub conversion: Option<&'static Conversion>,
    /// The schema of the stored version.
    pub storage_message: String,
    pub home: Home,
}

impl Row {
    pub fn gvk(&self) -> Gvk {
        self.resource.gvk(&self.version)
    }

    pub fn group_kind(&self) -> GroupKind {
        self.resource.group_kind()
    }

    pub fn namespaced(&self) -> bool {
        self.resource.namespaced()
    }

    pub fn allows(&self, verb: Verb) -> bool {
        self.resource.allows(verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.resource.subresource(name)
    }

    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// What every user of this version is told, whatever the verb: that the version or the kind is on its way out.
    pub fn deprecation(&self) -> Option<String> {
        legacy::warning(&self.resource, &self.version).or_else(|| self.strategy.deprecated.map(str::to_owned))
    }

    /// Whether this is the row of `plural` in `group`, in any version.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.resource.group == group && self.resource.plural == plural
    }

    /// Whether stored bytes can be sent as they are.
    pub fn serves_stored_form(&self) -> bool {
        self.conversion.is_none() && self.resource.storage == self.gvk()
    }
}

/// All rows, by `GROUP/VERSION` (or `v1`) and plural.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    rows: HashMap<String, HashMap<String, Arc<Row>>>,
    /// In the table's order, for discovery.
    ordered: Vec<Arc<Row>>,
}

impl Registry {
    /// The rows of the built-in resources; old APIs only if `legacy`.
    pub fn built_in(table: &Table, legacy: bool) -> Self {
        let mut registry = Self::default();
        for resource in table.rows().iter().filter(|resource| legacy || !resource.legacy) {
            let resource = Arc::new(resource.clone());
            for version in &resource.versions {
                registry.insert(built_in_row(table, &resource, &version.name));
            }
        }
        registry
    }

    pub fn insert(&mut self, row: Row) {
        let row = Arc::new(row);
        let version = self.rows.entry(row.api_version.clone()).or_default();
        version.insert(row.resource.plural.clone(), Arc::clone(&row));
        self.ordered.push(row);
    }

    /// `api_version` is `v1` or `GROUP/VERSION`.
    pub fn row(&self, api_version: &str, plural: &str) -> Option<&Arc<Row>> {
        self.rows.get(api_version)?.get(plural)
    }

    /// A row by group alone, in the most preferred version.
    pub fn preferred(&self, group: &str, plural: &str) -> Option<&Arc<Row>> {
        self.ordered.iter().find(|row| row.is(group, plural))
    }

    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Row>> {
        self.rows.get(api_version)?.values().find(|row| row.resource.kind == kind)
    }

    pub fn rows(&self) -> &[Arc<Row>] {
        &self.ordered
    }
}

fn built_in_row(table: &Table, resource: &Arc<Resource>, version: &str) -> Row {
    let gvk = resource.gvk(version);
    let home_row = table.storage_of(resource);
    let home = match home_row {
        Some(stored) => Home::new(&stored.group, &stored.plural),
        None => Home::new(&resource.group, &resource.plural),
    };
    // An old API follows today's rules; a second door to the same objects has its own.
    let ruled_by = home_row.filter(|_| resource.legacy).unwrap_or(resource);
    let message = resource.version(version).map(|version| version.message.clone()).unwrap_or_default();
    let storage_message = home_row
        .and_then(|row| row.version(&resource.storage.version))
        .map_or_else(|| message.clone(), |version| version.message.clone());
    Row {
        strategy: kinds::strategy(&ruled_by.group, &ruled_by.plural),
        conversion: kinds::conversion(&resource.group, version, &resource.plural),
        version: version.to_owned(),
        api_version: gvk.api_version(),
        group_resource: resource.group_resource(),
        resource: Arc::clone(resource),
        message,
        storage_message,
        home,
    }
}
