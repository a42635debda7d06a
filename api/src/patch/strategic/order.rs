//! The order of a merged list.

use std::collections::HashMap;

use serde_json::Value;

/// What tells the elements of a list apart.
#[derive(Clone, Copy)]
pub(super) enum Identity {
    /// A scalar is its own name.
    Itself,
    /// The value of this field.
    Key(&'static str),
}

// === impl Identity ===

impl Identity {
    pub(super) fn of(self, element: &Value) -> Option<&Value> {
        match self {
            Self::Itself => Some(element),
            Self::Key(key) => element.get(key),
        }
    }
}

/// Puts the elements that `wanted` names in that order, the others in the order they had `before`, and weaves the two:
/// an element of the others goes in front of the first wanted one that stood behind it before. Wanted elements that are
/// new have no place before, so what follows them waits for them.
pub(super) fn arrange(elements: Vec<Value>, wanted: &[Value], before: &[Value], identity: Identity) -> Vec<Value> {
    let (wanted, before) = (places(wanted), places(before));
    let mut named = Vec::with_capacity(elements.len());
    let mut others = Vec::with_capacity(elements.len());
    for element in elements {
        let name = identity.of(&element);
        let place_before = name.and_then(|name| before.get(name).copied());
        match name.and_then(|name| wanted.get(name).copied()) {
            Some(place) => named.push((place, place_before, element)),
            None => others.push((place_before, element)),
        }
    }
    named.sort_by_key(|(place, _, _)| *place);
    others.sort_by_key(|(place_before, _)| *place_before);

    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    for (place, other) in others {
        let goes_first = |next: Option<usize>| place.zip(next).is_some_and(|(other, next)| other < next);
        while let Some((_, _, next)) = named.next_if(|(_, next, _)| !goes_first(*next)) {
            arranged.push(next);
        }
        arranged.push(other);
    }
    arranged.extend(named.map(|(_, _, element)| element));
    arranged
}

fn places(names: &[Value]) -> HashMap<&Value, usize> {
    let mut places = HashMap::with_capacity(names.len());
    for (place, name) in names.iter().enumerate() {
        places.entry(name).or_insert(place);
    }
    places
}
