//! Lists that merge: of scalars as sets, of objects by their merge key.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::order::{self, Identity};
use super::{Directive, Of, PATCH, directive, merge_object};
use crate::patch::PatchError;
use crate::schema::{Field, FieldType};

/// The list with the patch's elements merged in and both put in order.
pub(super) fn merge(
    current: Vec<Value>,
    patch: &[Value],
    order: Option<&Value>,
    field: &'static Field,
) -> Result<Vec<Value>, PatchError> {
    let identity = identity(field)?;
    let wanted = wanted_order(order, patch, identity, field)?;
    let before: Vec<Value> = current.iter().map(|element| identity.of(element).cloned().unwrap_or_default()).collect();
    let merged = match identity {
        Identity::Itself => merge_scalars(current, patch, field)?,
        Identity::Key(key) => match merge_objects(current, patch, key, field)? {
            Merged::Elements(elements) => elements,
            // The patch's list stands as it is, in its own order.
            Merged::Whole(elements) => return Ok(elements),
        },
    };
    Ok(order::arrange(merged, &wanted, &before, identity))
}

/// Takes the given scalars out of a list.
pub(super) fn delete_scalars(
    current: &mut Map<String, Value>,
    name: &str,
    deletions: &Value,
) -> Result<(), PatchError> {
    let Value::Array(deletions) = deletions else {
        return Err(PatchError::Invalid("invalid patch format of primitive list".into()));
    };
    if let Some(Value::Array(elements)) = current.get_mut(name) {
        let deletions: HashSet<&Value> = deletions.iter().collect();
        elements.retain(|element| !deletions.contains(element));
    }
    Ok(())
}

enum Merged {
    Elements(Vec<Value>),
    Whole(Vec<Value>),
}

fn identity(field: &'static Field) -> Result<Identity, PatchError> {
    match (field.of, field.patch.merge_key) {
        (FieldType::Message(_), Some(key)) => Ok(Identity::Key(key)),
        (FieldType::Message(_), None) => {
            Err(PatchError::Invalid(format!("cannot merge lists without merge key for {}", field.name)))
        }
        _ => Ok(Identity::Itself),
    }
}

/// The identities the patch names, in the order it wants; without a directive, the order of its elements.
fn wanted_order(
    order: Option<&Value>,
    patch: &[Value],
    identity: Identity,
    field: &Field,
) -> Result<Vec<Value>, PatchError> {
    let Some(order) = order else {
        return Ok(patch.iter().filter_map(|element| identity.of(element).cloned()).collect());
    };
    let mismatch = || {
        PatchError::Invalid(format!(
            "The order in patch list: {} doesn't match $setElementOrder list: {order}",
            field.name
        ))
    };
    let Value::Array(elements) = order else { return Err(mismatch()) };
    let wanted: Vec<Value> = elements.iter().filter_map(|element| identity.of(element).cloned()).collect();
    // The elements that stay must stand in the order list, in the same order.
    let places: HashMap<&Value, usize> = wanted.iter().enumerate().map(|(place, name)| (name, place)).collect();
    let mut staying = patch.iter().filter(|element| element.get(PATCH).and_then(Value::as_str) != Some("delete"));
    let ascending = staying
        .try_fold(0, |least, element| places.get(identity.of(element)?).copied().filter(|place| *place >= least));
    if wanted.len() != elements.len() || ascending.is_none() {
        return Err(mismatch());
    }
    Ok(wanted)
}

fn merge_scalars(mut current: Vec<Value>, patch: &[Value], field: &Field) -> Result<Vec<Value>, PatchError> {
    if patch.iter().any(|element| element.is_object() || element.is_array()) {
        return Err(PatchError::Invalid(format!("{} is a list of scalars", field.name)));
    }
    let mut known: HashSet<Value> = current.iter().cloned().collect();
    current.extend(patch.iter().filter(|element| known.insert((*element).clone())).cloned());
    Ok(current)
}

fn merge_objects(
    mut current: Vec<Value>,
    patch: &[Value],
    key: &'static str,
    field: &'static Field,
) -> Result<Merged, PatchError> {
    let of = Of::element(field);
    let mut changes = Vec::with_capacity(patch.len());
    let mut gone = HashSet::new();
    let mut whole = false;
    for element in patch {
        let Value::Object(change) = element else {
            return Err(PatchError::Invalid(format!("{} is a list of objects, found {element}", field.name)));
        };
        match directive(change)? {
            Directive::Replace if !change.contains_key(key) => whole = true,
            Directive::Replace => {
                whole = true;
                changes.push(change);
            }
            Directive::Delete => {
                gone.insert(value_of(change, key)?);
            }
            Directive::Merge => changes.push(change),
        }
    }
    if whole {
        current.clear();
    } else if !gone.is_empty() {
        current.retain(|element| element.get(key).is_none_or(|name| !gone.contains(name)));
    }
    let mut places = places_of(&current, key);
    for change in changes {
        // In a list that is given whole, nothing is looked up, so that an element may lack its key.
        let name = if whole { None } else { Some(value_of(change, key)?) };
        let found = name.and_then(|name| places.get(name)).and_then(|place| current.get_mut(*place));
        if let Some(Value::Object(element)) = found {
            merge_object(element, change, of)?;
        } else {
            let mut element = Map::new();
            merge_object(&mut element, change, of)?;
            if let Some(name) = name {
                places.insert(name.clone(), current.len());
            }
            current.push(Value::Object(element));
        }
    }
    Ok(if whole { Merged::Whole(current) } else { Merged::Elements(current) })
}

/// Where each key first stands.
fn places_of(elements: &[Value], key: &str) -> HashMap<Value, usize> {
    let mut places = HashMap::with_capacity(elements.len());
    for (place, element) in elements.iter().enumerate() {
        if let Some(name) = element.get(key) {
            places.entry(name.clone()).or_insert(place);
        }
    }
    places
}

fn value_of<'a>(change: &'a Map<String, Value>, key: &str) -> Result<&'a Value, PatchError> {
    change.get(key).ok_or_else(|| {
        let shown = Value::Object(change.clone());
        PatchError::Invalid(format!("map: {shown} does not contain declared merge key: {key}"))
    })
}
