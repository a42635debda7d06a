use serde_json::{Value, json};

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn pod(tolerations: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "a", "uid": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "n", "tolerations": tolerations},
    }))
    .unwrap()
}

fn taint(key: &str, added: Option<&str>) -> Taint {
    serde_json::from_value(json!({"key": key, "effect": "NoExecute", "timeAdded": added})).unwrap()
}

fn patience(seconds: Option<i64>) -> Value {
    json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
}

#[test]
fn the_intolerant_go_at_once() {
    let planned = plan(&pod(&json!([])), &[taint("k", None)], at("2026-01-01T00:01:00Z"), at("2026-01-01T00:01:00Z"));
    let [Action::Note(note), Action::Patch(patch), Action::Delete(delete)] = &planned.actions[..] else {
        panic!("{planned:?}")
    };
    assert_eq!(note.text, "Marking for deletion Pod a/p");
    assert_eq!(patch.body["status"]["conditions"][0]["reason"], "DeletionByTaintManager");
    assert_eq!(delete.uid.as_deref(), Some("p"));
}

#[test]
fn patience_counts_from_the_taint() {
    let (pod, taints) = (pod(&patience(Some(5))), [taint("k", Some("2026-01-01T00:01:00Z"))]);
    let early = plan(&pod, &taints, at("2026-01-01T00:01:02Z"), at("2026-01-01T00:01:02Z"));
    assert_eq!(early, Plan { actions: Vec::new(), look_again: Some(Duration::from_secs(3)) });
    assert_eq!(plan(&pod, &taints, at("2026-01-01T00:01:02Z"), at("2026-01-01T00:01:05Z")).actions.len(), 3);
}

#[test]
fn endless_patience_and_one_taint_too_many() {
    let (now, patient) = (at("2026-01-01T00:01:00Z"), pod(&patience(None)));
    assert_eq!(plan(&patient, &[taint("k", None)], now, now), Plan::nothing());
    assert_eq!(plan(&patient, &[taint("k", None), taint("other", None)], now, now).actions.len(), 3);
}
