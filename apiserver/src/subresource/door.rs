//! Doors that let only some changes of an object through.

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::Value;

use crate::registry::{Row, kinds};
use crate::verb::write::Part;

/// What a door lets through and what it then demands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    /// Puts back what may not change here.
    pub(crate) narrow: fn(new: &mut Object, old: &Object),
    pub(crate) validate: fn(new: &Object, old: &Object) -> Vec<FieldError>,
}

/// The part of the object behind a subresource, if it is a door.
pub(crate) fn part(row: &Row, subresource: &str) -> Option<Part> {
    let narrow: fn(&mut Object, &Object) = match (row.resource.plural.as_str(), subresource) {
        (_, "status") => return Some(Part::Status),
        ("namespaces", "finalize") => |new, old| only(new, old, &["/spec/finalizers"]),
        ("certificatesigningrequests", "approval") => |new, old| only(new, old, &["/status/conditions"]),
        ("pods", "ephemeralcontainers") => |new, old| only(new, old, &["/spec/ephemeralContainers"]),
        ("pods", "resize") => {
            |new, old| only(new, old, &["/spec/containers", "/spec/initContainers", "/spec/resources"])
        }
        _ => return None,
    };
    let validate = kinds::door_rules(&row.resource.plural, subresource).unwrap_or(|_, _| Vec::new());
    Some(Part::Through(Door { narrow, validate }))
}

/// Keeps of the new object only the named places; the rest stays as it was, but for labels and annotations.
fn only(new: &mut Object, old: &Object, places: &[&str]) {
    let wanted: Vec<Option<Value>> = places.iter().map(|place| new.get(place).cloned()).collect();
    let metadata = new.as_map().get("metadata").cloned();
    let mut kept = old.clone();
    for (place, value) in places.iter().zip(wanted) {
        match value {
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
    }
    if let Some(metadata) = metadata {
        kept.as_map_mut().insert("metadata".to_owned(), metadata);
        kept.set_owner_references(&old.owner_references());
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
        only(&mut new, &old, &["/spec/finalizers"]);
        let expected =
            json!({"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {}, "status": {"phase": "Active"}});
        assert_eq!(new.to_value(), expected);
    }
}
