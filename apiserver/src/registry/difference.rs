//! What changed between two values, for messages about fields that may not change.

use serde_json::Value;

/// Messages name this many changes at most.
const MAX_CHANGES: usize = 10;

/// One line for each changed place, old and new value side by side.
pub(crate) fn difference(old: &Value, new: &Value, at: &str) -> String {
    let mut lines = Vec::new();
    collect(Some(old), Some(new), at, &mut lines);
    let more = lines.len().saturating_sub(MAX_CHANGES);
    lines.truncate(MAX_CHANGES);
    if more > 0 {
        lines.push(format!("  ... and {more} more"));
    }
    lines.join("\n")
}

fn collect(old: Option<&Value>, new: Option<&Value>, at: &str, lines: &mut Vec<String>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                collect(old.get(key), new.get(key), &format!("{at}.{key}"), lines);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                collect(old.get(index), new.get(index), &format!("{at}[{index}]"), lines);
            }
        }
        (old, new) => {
            let shown = |value: Option<&Value>| value.map_or_else(|| "<unset>".to_owned(), Value::to_string);
            lines.push(format!("  {at}: {} -> {}", shown(old), shown(new)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_named_by_path() {
        let old = json!({"a": {"b": [1, 2]}, "c": true});
        let new = json!({"a": {"b": [1, 3]}, "d": "x"});
        assert_eq!(
            difference(&old, &new, "spec"),
            "  spec.a.b[1]: 2 -> 3\n  spec.c: true -> <unset>\n  spec.d: <unset> -> \"x\""
        );
    }
}
