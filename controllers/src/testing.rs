//! A small API server in memory for tests: objects, generations, finalizers, preconditions, watches.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use quorate_api::patch::{json_patch, merge, strategic};
use quorate_api::schema;
use serde_json::{Value, json};

use crate::action::{Action, Delete, PatchKind, Propagation, Target};
use crate::execute::object_path;

mod service;

pub(crate) use service::Fake;

/// Group, plural, namespace (empty for none), name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A path taken apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) address: Address,
    pub(crate) subresource: String,
}

/// One change, as watches tell it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) revision: u64,
    pub(crate) kind: &'static str,
    pub(crate) address: Address,
    pub(crate) object: Value,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) objects: BTreeMap<Address, Value>,
    pub(crate) log: Vec<Record>,
    pub(crate) revision: u64,
    pub(crate) now: Timestamp,
    /// Plurals whose creation is refused.
    pub(crate) refused: BTreeSet<String>,
    serial: u64,
}

/// HTTP code, reason and message.
pub(crate) type Refusal = (u16, &'static str, String);

impl Default for World {
    fn default() -> Self {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Self { objects: BTreeMap::new(), log: Vec::new(), revision: 0, now, refused: BTreeSet::new(), serial: 0 }
    }
}

impl Place {
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, plural, rest @ ..] if !["status", "finalize"].contains(plural) => {
                (*namespace, [&[*plural], rest].concat())
            }
            rest => ("", rest.to_vec()),
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        let address = Address {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: part(0),
            namespace: namespace.to_owned(),
            name: part(1),
        };
        Some(Self { address, subresource: part(2) })
    }
}

impl Address {
    pub(crate) fn of(target: &Target) -> Self {
        Place::parse(&object_path(target, None)).unwrap().address
    }

    pub(crate) fn new(group: &str, plural: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn contains(&self, other: &Self) -> bool {
        (&self.group, &self.plural) == (&other.group, &other.plural)
            && (self.namespace.is_empty() || self.namespace == other.namespace)
            && (self.name.is_empty() || self.name == other.name)
    }
}

impl World {
    pub(crate) fn list(&self, plural: &str) -> Vec<&Value> {
        self.objects.iter().filter(|(address, _)| address.plural == plural).map(|(_, object)| object).collect()
    }

    /// The projections of all objects of one plural.
    pub(crate) fn read<K: serde::de::DeserializeOwned>(&self, plural: &str) -> Vec<std::sync::Arc<K>> {
        let decoded = self.list(plural).into_iter().map(|object| serde_json::from_value(object.clone()).unwrap());
        decoded.map(std::sync::Arc::new).collect()
    }

    pub(crate) fn create(&mut self, mut at: Address, mut object: Value) -> Result<Value, Refusal> {
        if self.refused.contains(&at.plural) {
            return Err((403, "Forbidden", format!("{} are refused", at.plural)));
        }
        let namespace = self.objects.get(&Address::new("", "namespaces", "", &at.namespace));
        if namespace.is_some_and(|own| own["metadata"]["deletionTimestamp"].is_string()) {
            return Err((403, "NamespaceTerminating", format!("namespace {} is being terminated", at.namespace)));
        }
        self.serial += 1;
        let prefix = object["metadata"]["generateName"].as_str().map(str::to_owned);
        let given = object["metadata"]["name"].as_str().map(str::to_owned);
        at.name = given.unwrap_or_else(|| format!("{}{:05}", prefix.unwrap_or_default(), self.serial));
        if self.objects.contains_key(&at) {
            return Err((409, "AlreadyExists", format!("{} already exists", at.name)));
        }
        object["metadata"]["name"] = json!(at.name);
        if !at.namespace.is_empty() {
            object["metadata"]["namespace"] = json!(at.namespace);
        }
        object["metadata"]["uid"] = json!(format!("uid-{}", self.serial));
        object["metadata"]["creationTimestamp"] = json!(self.now.to_string());
        object["metadata"]["generation"] = json!(1);
        if at.plural == "namespaces" {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
        }
        Ok(self.store("ADDED", &at, object))
    }

    fn store(&mut self, kind: &'static str, at: &Address, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let gone = kind == "DELETED";
        if gone {
            self.objects.remove(at);
        } else {
            self.objects.insert(at.clone(), object.clone());
        }
        self.log.push(Record { revision: self.revision, kind, address: at.clone(), object: object.clone() });
        object
    }

    pub(crate) fn update(&mut self, place: &Place, new: Value) -> Result<Value, Refusal> {
        let at = &place.address;
        let old = self.objects.get(at).cloned().ok_or_else(|| absent(at))?;
        let mut kept = old.clone();
        match place.subresource.as_str() {
            "status" => kept["status"] = new["status"].clone(),
            "finalize" => kept["spec"]["finalizers"] = new["spec"]["finalizers"].clone(),
            _ => {
                kept = new;
                kept["status"] = old["status"].clone();
            }
        }
        if kept["status"].is_null()
            && let Some(map) = kept.as_object_mut()
        {
            map.remove("status");
        }
        if kept == old {
            return Ok(old);
        }
        if kept["spec"] != old["spec"] {
            kept["metadata"]["generation"] = json!(old["metadata"]["generation"].as_i64().unwrap_or(1) + 1);
        }
        let held = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
        let deleting = kept["metadata"]["deletionTimestamp"].is_string();
        let namespace_held = at.plural == "namespaces" && held(&kept["spec"]["finalizers"]);
        let pod_runs = at.plural == "pods" && kept["spec"]["nodeName"].is_string();
        let ends = deleting && !held(&kept["metadata"]["finalizers"]) && !namespace_held && !pod_runs;
        Ok(self.store(if ends { "DELETED" } else { "MODIFIED" }, at, kept))
    }

    pub(crate) fn patch(&mut self, place: &Place, kind: PatchKind, patch: &Value) -> Result<Value, Refusal> {
        let old = self.objects.get(&place.address).ok_or_else(|| absent(&place.address))?;
        for field in ["uid", "resourceVersion"] {
            let wanted = &patch["metadata"][field];
            if kind != PatchKind::Json && !wanted.is_null() && *wanted != old["metadata"][field] {
                return Err((409, "Conflict", format!("{field} differs")));
            }
        }
        let new = match kind {
            PatchKind::Merge => merge::apply(old, patch),
            PatchKind::Json => json_patch::apply(old, patch).unwrap(),
            PatchKind::Strategic => {
                let (version, kind) = (old["apiVersion"].as_str().unwrap(), old["kind"].as_str().unwrap());
                strategic::apply(old, patch, schema::for_version_kind(version, kind).unwrap()).unwrap()
            }
        };
        self.update(place, new)
    }

    pub(crate) fn delete(&mut self, at: &Address, options: &Value) -> Result<Value, Refusal> {
        let mut object = self.objects.get(at).cloned().ok_or_else(|| absent(at))?;
        for field in ["uid", "resourceVersion"] {
            let wanted = &options["preconditions"][field];
            if !wanted.is_null() && *wanted != object["metadata"][field] {
                return Err((409, "Conflict", format!("{field} differs")));
            }
        }
        let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        match options["propagationPolicy"].as_str() {
            Some("Foreground") => finalizers.push(json!("foregroundDeletion")),
            Some("Orphan") => finalizers.push(json!("orphan")),
            _ => {}
        }
        finalizers.dedup();
        let graceful = at.plural == "pods"
            && object["spec"]["nodeName"].is_string()
            && options["gracePeriodSeconds"].as_i64() != Some(0);
        if finalizers.is_empty() && !graceful && at.plural != "namespaces" {
            return Ok(self.store("DELETED", at, object));
        }
        if object["metadata"]["deletionTimestamp"].is_string() && finalizers.is_empty() {
            return Ok(object);
        }
        object["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
        if !finalizers.is_empty() {
            object["metadata"]["finalizers"] = json!(finalizers);
        }
        if at.plural == "namespaces" {
            object["status"]["phase"] = json!("Terminating");
        }
        Ok(self.store("MODIFIED", at, object))
    }

    /// Carries out a plan at once, without a network.
    pub(crate) fn perform(&mut self, action: &Action) -> Result<(), Refusal> {
        match action {
            Action::Create(create) => self.create_as(create).map(|_| ()),
            Action::CreatePods { pods, .. } => pods.iter().try_for_each(|pod| self.create_as(pod).map(|_| ())),
            Action::DeletePods { pods, .. } => pods.iter().try_for_each(|pod| self.delete_as(pod)),
            Action::Delete(delete) => self.delete_as(delete),
            Action::Patch(patch) => {
                let subresource = patch.subresource.unwrap_or_default().to_owned();
                let place = Place { address: Address::of(&patch.target), subresource };
                self.patch(&place, patch.kind, &patch.body).map(|_| ())
            }
            Action::Replace { target, subresource, body } => {
                let place = Place { address: Address::of(target), subresource: (*subresource).to_owned() };
                self.update(&place, body.clone()).map(|_| ())
            }
            Action::DeleteCollection { .. }
            | Action::ConfirmOwner { .. }
            | Action::ConfirmAbsent { .. }
            | Action::Note(_) => Ok(()),
        }
    }

    fn create_as(&mut self, create: &crate::action::Create) -> Result<Value, Refusal> {
        let place = Place::parse(&create.resource.path(create.namespace.as_deref())).unwrap();
        self.create(place.address, create.body.clone())
    }

    fn delete_as(&mut self, delete: &Delete) -> Result<(), Refusal> {
        let policy = delete.propagation.map(|own| match own {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        });
        let options = json!({
            "preconditions": {"uid": delete.uid, "resourceVersion": delete.resource_version},
            "propagationPolicy": policy,
            "gracePeriodSeconds": delete.grace_seconds,
        });
        self.delete(&Address::of(&delete.target), &options).map(|_| ())
    }
}

pub(crate) fn absent(at: &Address) -> Refusal {
    (404, "NotFound", format!("{} \"{}\" not found", at.plural, at.name))
}
