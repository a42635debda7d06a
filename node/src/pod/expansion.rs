//! `$(NAME)` references in commands, arguments and variables.

use std::collections::BTreeMap;

/// Replace each `$(NAME)` that `values` knows; unknown ones stay as they are, and `$$` stands for one dollar sign.
pub fn expand(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find('$') {
        out.push_str(&rest[..position]);
        rest = &rest[position + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match values.get(name) {
                Some(value) => out.push_str(value),
                None => out.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_replaced_and_others_kept() {
        let values = BTreeMap::from([("A".to_owned(), "1".to_owned()), ("B".to_owned(), "$(A)".to_owned())]);
        let cases = [
            ("plain", "plain"),
            ("$(A)-$(A)", "1-1"),
            ("$(B)", "$(A)"),
            ("$(C)", "$(C)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("cost: 5$", "cost: 5$"),
            ("$A ${A} $(A", "$A ${A} $(A"),
        ];
        for (text, expected) in cases {
            assert_eq!(expand(text, &values), expected, "{text}");
        }
    }
}
