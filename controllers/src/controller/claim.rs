//! Whose object is it? Adopt what matches and has no manager, let go of what no longer matches.

use std::sync::Arc;

use quorate_api::selector::LabelSelector;
use serde_json::json;

use super::controller_reference;
use crate::action::{Action, Target};
use crate::projection::Projected;
use crate::resource::Kind;

/// The objects an owner manages, and what it takes to make it so.
#[derive(Debug)]
pub struct Claim<K> {
    pub owned: Vec<Arc<K>>,
    pub actions: Vec<Action>,
}

/// Sorts `objects` of the owner's namespace. An owner on its way out adopts and releases nothing.
pub fn claim<O: Projected, K: Projected>(
    owner: (Kind, &O),
    selector: &LabelSelector,
    kind: Kind,
    objects: &[Arc<K>],
) -> Claim<K> {
    let (owner_kind, owner) = owner;
    let mut claim = Claim { owned: Vec::new(), actions: Vec::new() };
    let mut adoptions = Vec::new();
    for object in objects {
        let matches = selector.matches(object.labels());
        let target = || Target::namespaced(kind.resource(), owner.namespace(), object.name());
        match object.controller() {
            Some(manager) if manager.uid != owner.uid() => {}
            Some(_) if matches || owner.is_deleting() => claim.owned.push(Arc::clone(object)),
            Some(_) => {
                let drop_reference = json!({"metadata": {
                    "uid": object.uid(),
                    "ownerReferences": [{"$patch": "delete", "uid": owner.uid()}],
                }});
                claim.actions.push(Action::strategic(target(), drop_reference));
            }
            None if matches && !owner.is_deleting() && !object.is_deleting() => {
                let reference = controller_reference(owner_kind, owner);
                let adopt = json!({"metadata": {"uid": object.uid(), "ownerReferences": [reference]}});
                adoptions.push(Action::strategic(target(), adopt));
                claim.owned.push(Arc::clone(object));
            }
            None => {}
        }
    }
    if !adoptions.is_empty() {
        let target = Target::namespaced(owner_kind.resource(), owner.namespace(), owner.name());
        claim.actions.push(Action::ConfirmOwner { target, uid: owner.uid().to_owned() });
        claim.actions.extend(adoptions);
    }
    claim
}
