//! What becomes of one object, given its owners and its dependents.

use serde_json::{Value, json};

use super::graph::{FOREGROUND, Item, ORPHAN};
use crate::action::{Action, Delete, Plan, Propagation, Target};

/// The state of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Lives,
    Gone,
    /// Leaves once its dependents are gone.
    Waiting,
}

/// `owners` runs beside `item.owners`.
pub fn plan(item: &Item, owners: &[Owner], dependents: &[Item]) -> Plan {
    if item.orphans_dependents() {
        let mut actions: Vec<Action> = dependents.iter().map(|own| without_owner(own, &item.uid)).collect();
        actions.push(without_finalizer(item, ORPHAN));
        return Plan::of(actions);
    }
    if item.awaits_dependents() {
        let blocked = dependents.iter().any(|own| own.is_blocking(&item.uid));
        return if blocked { Plan::nothing() } else { Plan::of(vec![without_finalizer(item, FOREGROUND)]) };
    }
    if item.deleting || owners.is_empty() {
        return Plan::nothing();
    }
    if owners.contains(&Owner::Lives) {
        return keep_living_owners(item, owners);
    }
    Plan::of(collect(item, owners, dependents))
}

/// Somebody still wants it: only the references to those who are gone, or want to go, are dropped.
fn keep_living_owners(item: &Item, owners: &[Owner]) -> Plan {
    let kept: Vec<Value> = item
        .owners
        .iter()
        .zip(owners)
        .filter(|(_, state)| **state == Owner::Lives)
        .map(|(reference, _)| json!(reference))
        .collect();
    if kept.len() == item.owners.len() {
        return Plan::nothing();
    }
    Plan::of(vec![amend(item, "ownerReferences", kept)])
}

fn collect(item: &Item, owners: &[Owner], dependents: &[Item]) -> Vec<Action> {
    let mut actions = Vec::new();
    let waited_for = owners.contains(&Owner::Waiting) && !dependents.is_empty();
    let propagation = if waited_for {
        // In a cycle each would wait for the other: this one stops holding up its owners.
        if dependents.iter().any(Item::awaits_dependents) {
            let freed = item.owners.iter().map(|reference| {
                let mut reference = json!(reference);
                reference["blockOwnerDeletion"] = json!(false);
                reference
            });
            actions.push(amend(item, "ownerReferences", freed.collect()));
        }
        Propagation::Foreground
    } else if item.finalizers.iter().any(|own| own == ORPHAN) {
        Propagation::Orphan
    } else if item.finalizers.iter().any(|own| own == FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    // After the patch above the version has moved on.
    let version = actions.is_empty().then(|| item.resource_version.clone());
    actions.push(Action::Delete(Delete {
        resource_version: version,
        propagation: Some(propagation),
        ..Delete::of(target(item), Some(item.uid.clone()))
    }));
    actions
}

fn without_owner(dependent: &Item, owner: &str) -> Action {
    let kept = dependent.owners.iter().filter(|own| own.uid != owner).map(|own| json!(own)).collect();
    amend(dependent, "ownerReferences", kept)
}

fn without_finalizer(item: &Item, finalizer: &str) -> Action {
    let kept = item.finalizers.iter().filter(|own| *own != finalizer).map(|own| json!(own)).collect();
    amend(item, "finalizers", kept)
}

/// Writes a list of the metadata, provided the object has not changed since: the list is written whole.
fn amend(item: &Item, field: &str, list: Vec<Value>) -> Action {
    let list = if list.is_empty() { Value::Null } else { Value::Array(list) };
    let body = json!({"metadata": {"uid": item.uid, "resourceVersion": item.resource_version, field: list}});
    Action::merge(target(item), body)
}

fn target(item: &Item) -> Target {
    Target {
        resource: item.resource.as_ref().clone(),
        namespace: item.key.namespace.clone(),
        name: item.key.name.clone(),
    }
}
