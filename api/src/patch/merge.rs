//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// The current value with the patch merged in: objects merge, `null` removes, everything else replaces.
pub fn apply(current: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut merged = match current {
        Value::Object(fields) => fields.clone(),
        _ => Map::new(),
    };
    for (name, change) in changes {
        match (change, merged.get_mut(name)) {
            (Value::Null, _) => {
                merged.remove(name);
            }
            (_, Some(field)) => *field = apply(field, change),
            (_, None) => {
                merged.insert(name.clone(), apply(&Value::Null, change));
            }
        }
    }
    Value::Object(merged)
}

/// The smallest merge patch that turns one value into the other; exact unless `to` holds a `null` in an object, which
/// a merge patch cannot express.
pub fn diff(from: &Value, to: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, wanted) in after {
        match before.get(name) {
            Some(current) if current == wanted => {}
            Some(current) => {
                patch.insert(name.clone(), diff(current, wanted));
            }
            None => {
                patch.insert(name.clone(), wanted.clone());
            }
        }
    }
    Value::Object(patch)
}
