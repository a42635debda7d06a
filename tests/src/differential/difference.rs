//! Where two answers differ, as JSON pointers.

use std::fmt;

use serde_json::Value;

/// How much of a value is shown.
const SHOWN_CHARACTERS: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub case: &'static str,
    /// Into the answer: `/status`, `/warnings`, `/body/…`.
    pub pointer: String,
    /// Kubernetes' value, `None` where it has none.
    pub theirs: Option<Value>,
    pub ours: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (theirs, ours) = (shown(self.theirs.as_ref()), shown(self.ours.as_ref()));
        write!(formatter, "[{}] {}\n    kube-apiserver: {theirs}\n    quorate:        {ours}", self.case, self.pointer)
    }
}

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

pub fn differences(case: &'static str, theirs: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    descend(case, "", Some(theirs), Some(ours), &mut found);
    found
}

fn descend(
    case: &'static str,
    pointer: &str,
    theirs: Option<&Value>,
    ours: Option<&Value>,
    found: &mut Vec<Difference>,
) {
    match (theirs, ours) {
        (Some(a), Some(b)) if a == b => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))).collect();
            keys.sort();
            for key in keys {
                let key_in_pointer = key.replace('~', "~0").replace('/', "~1");
                descend(case, &format!("{pointer}/{key_in_pointer}"), a.get(key), b.get(key), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                descend(case, &format!("{pointer}/{index}"), a.get(index), b.get(index), found);
            }
        }
        _ => {
            found.push(Difference { case, pointer: pointer.to_owned(), theirs: theirs.cloned(), ours: ours.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_difference_has_its_pointer() {
        let theirs = json!({"status": 422, "body": {"a/b": 1, "items": [1, 2], "gone": true}});
        let ours = json!({"status": 400, "body": {"a/b": 2, "items": [1], "new": null}});
        let found: Vec<String> = differences("case", &theirs, &ours).into_iter().map(|d| d.pointer).collect();
        assert_eq!(found, ["/body/a~1b", "/body/gone", "/body/items/1", "/body/new", "/status"]);
        assert_eq!(differences("case", &theirs, &theirs), []);
    }
}
