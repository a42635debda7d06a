//! Doors that let only some changes of an object through.

use quorate_api::object::Object;

use crate::registry::keep::keep_metadata;
use crate::registry::kinds::{self, DoorRules};
use crate::registry::{Row, core};
use crate::verb::write::Part;

/// What a door lets through and what it then demands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    /// Puts back what may not change here.
    pub(crate) narrow: fn(new: &mut Object, old: &Object),
    pub(crate) validate: DoorRules,
    /// Whether `metadata.generation` counts what changes here.
    pub(crate) counts_as_change: bool,
}

/// The part of the object behind a subresource, if it is a door.
pub(crate) fn part(row: &Row, subresource: &str) -> Option<Part> {
    let (group, plural) = (row.resource.group.as_str(), row.resource.plural.as_str());
    let narrow: fn(&mut Object, &Object) = match (group, plural, subresource) {
        (_, _, "status") => return Some(Part::Status),
        ("", "namespaces", "finalize") => |new, old| only(new, old, "/spec/finalizers"),
        ("certificates.k8s.io", "certificatesigningrequests", "approval") => {
            |new, old| only(new, old, "/status/conditions")
        }
        ("", "pods", "ephemeralcontainers") => |new, old| {
            only(new, old, "/spec/ephemeralContainers");
            keep_metadata(new, old);
        },
        ("", "pods", "resize") => |new, old| {
            core::pod::narrow_resize(new, old);
            keep_metadata(new, old);
        },
        _ => return None,
    };
    let validate = kinds::door_rules(group, plural, subresource).unwrap_or(|_, _| Vec::new());
    Some(Part::Through(Door { narrow, validate, counts_as_change: true }))
}

/// Keeps of the new object only the named place and its metadata; the rest stays as it was.
fn only(new: &mut Object, old: &Object, place: &str) {
    let mut kept = old.clone();
    match new.get(place).cloned() {
        Some(value) => {
            // A place that cannot be set does not exist in an object of the kind.
            if let Err(error) = kept.set(place, value) {
                tracing::debug!(%error, "setting a field of a subresource");
            }
        }
        None => {
            kept.remove(place);
        }
    }
    if let Some(metadata) = new.as_map_mut().remove("metadata") {
        kept.as_map_mut().insert("metadata".to_owned(), metadata);
    }
    *new = kept;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_door_keeps_the_rest() {
        let old =
            json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let old = Object::from_value(old).unwrap();
        let new = json!({"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {}, "status": {"phase": "x"}});
        let mut new = Object::from_value(new).unwrap();
        only(&mut new, &old, "/spec/finalizers");
        let expected =
            json!({"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {}, "status": {"phase": "Active"}});
        assert_eq!(new.to_value(), expected);
    }
}
