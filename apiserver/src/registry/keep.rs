//! Putting back what a write may not change.

use quorate_api::object::Object;
use serde_json::{Map, Value};

/// The parts of metadata that clients set.
const CLIENTS_METADATA: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// Takes a top-level field from the old object.
pub(crate) fn keep(new: &mut Object, old: &Object, field: &str) {
    put_back(new.as_map_mut(), Some(old.as_map()), field);
}

/// Takes one field of metadata from the old object.
pub(crate) fn keep_in_metadata(new: &mut Object, old: &Object, field: &str) {
    put_back(new.metadata_mut(), old.metadata(), field);
}

/// Takes labels, annotations, finalizers and owners from the old object: for subresources that are about something
/// else, so that a right to them is no right to relabel or release the object.
pub(crate) fn keep_metadata(new: &mut Object, old: &Object) {
    for field in CLIENTS_METADATA {
        keep_in_metadata(new, old, field);
    }
}

fn put_back(new: &mut Map<String, Value>, old: Option<&Map<String, Value>>, field: &str) {
    match old.and_then(|old| old.get(field)) {
        Some(value) => {
            new.insert(field.to_owned(), value.clone());
        }
        None => {
            new.remove(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_clients_part_of_metadata_is_put_back() {
        let old = json!({"metadata": {"name": "n", "labels": {"a": "b"}, "resourceVersion": "1"}});
        let new =
            json!({"metadata": {"name": "n", "labels": {"a": "c"}, "finalizers": ["x/y"], "resourceVersion": "2"}});
        let (old, mut new) = (Object::from_value(old).unwrap(), Object::from_value(new).unwrap());
        keep_metadata(&mut new, &old);
        let expected = json!({"metadata": {"name": "n", "labels": {"a": "b"}, "resourceVersion": "2"}});
        assert_eq!(new.into_value(), expected);
    }
}
