use proptest::prelude::*;
use serde_json::{Value, json};

use crate::codec::MAX_DEPTH;
use crate::patch::PatchError;
use crate::patch::json_patch::{MAX_OPERATIONS, apply};

#[test]
fn operations_apply_in_order() {
    for (current, patch, expected) in [
        (json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": [1]}]), json!({"a": 1, "b": [1]})),
        (json!({"a": 1}), json!([{"op": "add", "path": "/a", "value": 2}]), json!({"a": 2})),
        (json!({"a": [1, 3]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2, 3]})),
        (json!({"a": [1, 2]}), json!([{"op": "add", "path": "/a/-", "value": 3}]), json!({"a": [1, 2, 3]})),
        (json!({"a": [1]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2]})),
        (json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/-1"}]), json!({"a": [1]})),
        (json!({"a": {"b": 1}}), json!([{"op": "remove", "path": "/a/b"}]), json!({"a": {}})),
        (json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": null}]), json!({"a": null})),
        (json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {"b": 2}}]), json!({"b": 2})),
        (json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1})),
        (json!([1, 2, 3]), json!([{"op": "move", "from": "/0", "path": "/2"}]), json!([2, 3, 1])),
        (json!({"a": [1]}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": [1], "b": [1]})),
        (
            json!({"a/b": {"~": 1}}),
            json!([{"op": "replace", "path": "/a~1b/~0", "value": 2}]),
            json!({"a/b": {"~": 2}}),
        ),
        (json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 1.0}]), json!({"a": 1})),
        (json!({"a": 1}), json!([{"op": "test", "path": "/b", "value": null}]), json!({"a": 1})),
        (json!({}), json!([]), json!({})),
        (
            json!({"a": {"b": "c"}}),
            json!([{"op": "test", "path": "/a/b", "value": "c"}, {"op": "add", "path": "/a/d", "value": {}},
                   {"op": "move", "from": "/a/b", "path": "/a/d/e"}]),
            json!({"a": {"d": {"e": "c"}}}),
        ),
    ] {
        assert_eq!(apply(&current, &patch).as_ref(), Ok(&expected), "{current} + {patch}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let current = json!({"a": {"b": [1]}, "s": "x"});
    for operation in [
        json!({"op": "remove", "path": "/x"}),
        json!({"op": "remove", "path": "/a/b/1"}),
        json!({"op": "remove", "path": ""}),
        json!({"op": "replace", "path": "/a/x", "value": 1}),
        json!({"op": "add", "path": "/x/y", "value": 1}),
        json!({"op": "add", "path": "/a/b/2", "value": 1}),
        json!({"op": "add", "path": "/a/b/01", "value": 1}),
        json!({"op": "add", "path": "/a/b/x", "value": 1}),
        json!({"op": "add", "path": "/s/x", "value": 1}),
        json!({"op": "move", "from": "/x", "path": "/y"}),
        json!({"op": "move", "from": "/a", "path": "/a/b/0"}),
        json!({"op": "copy", "from": "/x", "path": "/y"}),
        json!({"op": "add", "path": "a", "value": 1}),
        json!({"op": "jump", "path": "/a"}),
    ] {
        let error = apply(&current, &json!([operation])).unwrap_err();
        assert!(matches!(error, PatchError::DoesNotApply(_)), "{operation}: {error}");
        assert_eq!(error.code(), 422);
    }
    let failed = apply(&current, &json!([{"op": "test", "path": "/s", "value": "y"}])).unwrap_err();
    assert_eq!(failed.to_string(), "testing value /s failed: test failed");
    assert_eq!(failed.code(), 422);
    assert_eq!(
        apply(&current, &json!([{"op": "remove", "path": "/x"}])).unwrap_err().to_string(),
        r#"remove operation does not apply: doc is missing path: "/x": missing value"#
    );
}

#[test]
fn malformed_patches_are_refused() {
    for patch in [
        json!({}),
        json!([1]),
        json!([{}]),
        json!([{"op": "add", "path": "/a"}]),
        json!([{"op": 1, "path": "/a"}]),
        json!([{"op": "move", "path": "/a"}]),
    ] {
        let error = apply(&json!({}), &patch).unwrap_err();
        assert!(matches!(error, PatchError::Malformed(_)), "{patch}: {error}");
        assert_eq!(error.code(), 400);
    }
}

#[test]
fn patches_are_bounded() {
    let many: Value = vec![json!({"op": "test", "path": "/a", "value": null}); MAX_OPERATIONS + 1].into();
    assert!(matches!(apply(&json!({}), &many), Err(PatchError::TooManyOperations { .. })));

    let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
    let growing: Value = vec![double; 64].into();
    let current = json!({"a": ["x".repeat(1024)]});
    assert!(apply(&current, &growing).is_err());

    let copy = |at: usize| json!({"op": "copy", "from": "/a", "path": format!("/b{at}")});
    let copies: Value = (0..4096).map(copy).collect();
    assert!(matches!(apply(&current, &copies), Err(PatchError::CopiesTooLarge { .. })));
}

#[test]
fn depth_is_bounded() {
    let deepen = json!({"op": "copy", "from": "", "path": "/a"});
    let patch: Value = vec![deepen; 2 * MAX_DEPTH].into();
    assert!(matches!(apply(&json!({}), &patch), Err(PatchError::DoesNotApply(_))));
    let path = "/a".repeat(MAX_DEPTH + 1);
    assert!(apply(&json!({}), &json!([{"op": "add", "path": path, "value": 1}])).is_err());
}

proptest! {
    /// Any operation either fails or does what its name says.
    #[test]
    fn operations_keep_their_promise(key in "[a-c]", value in 0..3, current in proptest::collection::btree_map("[a-c]", 0..3, 0..3)) {
        let current: Value = serde_json::to_value(&current).unwrap();
        let path = format!("/{key}");
        let added = apply(&current, &json!([{"op": "add", "path": path, "value": value}])).unwrap();
        prop_assert_eq!(&added[&key], &json!(value));
        let tested = apply(&added, &json!([{"op": "test", "path": path, "value": value}]));
        prop_assert_eq!(tested.as_ref(), Ok(&added));
        let removed = apply(&added, &json!([{"op": "remove", "path": path}])).unwrap();
        prop_assert!(removed.get(&key).is_none());
        let replaced = apply(&current, &json!([{"op": "replace", "path": path, "value": value}]));
        prop_assert_eq!(replaced.is_ok(), current.get(&key).is_some());
    }
}
