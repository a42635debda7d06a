use proptest::prelude::*;
use serde_json::{Value, json};

use crate::patch::merge::{apply, diff};

#[test]
fn the_examples_of_the_rfc() {
    for (current, patch, merged) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"a": "foo"}), json!("bar"), json!("bar")),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ] {
        assert_eq!(apply(&current, &patch), merged, "{current} + {patch}");
    }
}

/// JSON without null: a merge patch cannot write one.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![any::<bool>().prop_map(Value::from), (0..4).prop_map(Value::from), "[ab]".prop_map(Value::from)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_diff_applied_gives_the_target(from in any_json(), to in any_json()) {
        prop_assert_eq!(apply(&from, &diff(&from, &to)), to);
    }

    #[test]
    fn no_difference_is_no_change(value in any_json()) {
        let patch = diff(&value, &value);
        prop_assert_eq!(apply(&value, &patch), value.clone());
        if value.is_object() {
            prop_assert_eq!(patch, json!({}));
        }
    }

    #[test]
    fn a_patch_twice_is_a_patch_once(value in any_json(), patch in any_json()) {
        let once = apply(&value, &patch);
        prop_assert_eq!(apply(&once, &patch), once);
    }
}
