use serde_json::{Value, json};

use super::*;
use crate::action::Action;

fn decode<K: serde::de::DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn observed(selector: &Value, labels: &Value) -> Observed {
    Observed {
        service: Some(decode(json!({"metadata": {"name": "db", "namespace": "a"}, "spec": {"selector": selector}}))),
        endpoints: Some(decode(json!({
            "metadata": {"name": "db", "namespace": "a", "uid": "e", "labels": labels},
            "subsets": [{
                "addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}], "notReadyAddresses": [{"ip": "192.0.2.2"}],
                "ports": [{"port": 5432, "protocol": "TCP"}],
            }],
        }))),
        slices: Vec::new(),
    }
}

fn run(observed: &Observed) -> Vec<Action> {
    plan(observed, jiff::Timestamp::UNIX_EPOCH).actions
}

#[test]
fn each_family_gets_its_slice() {
    let actions = run(&observed(&json!({}), &json!({"a": "b"})));
    let bodies: Vec<&Value> = actions
        .iter()
        .map(|action| match action {
            Action::Create(create) => &create.body,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(
        bodies[0]["endpoints"],
        json!([
            {"addresses": ["192.0.2.1"], "conditions": {"ready": true}},
            {"addresses": ["192.0.2.2"], "conditions": {"ready": false}},
        ])
    );
    assert_eq!(bodies[1]["addressType"], "IPv6");
    assert_eq!(bodies[0]["metadata"]["ownerReferences"][0]["kind"], "Endpoints");
    assert_eq!(bodies[0]["ports"], json!([{"name": "", "port": 5432, "protocol": "TCP"}]));
}

#[test]
fn what_is_selected_or_opted_out_is_not_mirrored() {
    assert!(run(&observed(&json!({"app": "db"}), &json!({}))).is_empty());
    assert!(run(&observed(&json!({}), &json!({"endpointslice.kubernetes.io/skip-mirror": "true"}))).is_empty());
    let gone = Observed { service: None, ..observed(&json!({}), &json!({})) };
    assert!(run(&gone).is_empty());
}
