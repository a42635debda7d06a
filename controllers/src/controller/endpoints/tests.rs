use serde_json::json;

use super::*;

fn decode<K: serde::de::DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn service() -> Arc<Service> {
    decode(json!({
        "metadata": {"name": "web", "namespace": "a", "uid": "s"},
        "spec": {"selector": {"app": "web"}, "clusterIP": "10.96.0.9", "ports": [
            {"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"},
            {"name": "admin", "port": 81, "targetPort": 8081, "protocol": "TCP"},
        ]},
    }))
}

fn pod(name: &str, ip: &str, ready: bool, named_port: i32) -> Arc<Pod> {
    decode(json!({
        "metadata": {"name": name, "namespace": "a", "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "web", "containerPort": named_port}]}]},
        "status": {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    }))
}

fn observed(endpoints: Option<Arc<Endpoints>>, pods: Vec<Arc<Pod>>) -> Observed {
    Observed { key: ObjectKey::namespaced("a", "web"), service: Some(service()), endpoints, pods }
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

#[test]
fn addresses_with_the_same_ports_share_a_subset() {
    let pods =
        vec![pod("p1", "10.0.0.1", true, 8080), pod("p2", "10.0.0.2", false, 8080), pod("p3", "10.0.0.3", true, 9090)];
    let plan = plan(&observed(None, pods.clone()), now());
    let [Action::Create(create)] = &plan.actions[..] else { panic!("{plan:?}") };
    let address = |name: &str, ip: &str| {
        json!({
            "ip": ip, "nodeName": "n1", "targetRef": {"kind": "Pod", "namespace": "a", "name": name, "uid": name},
        })
    };
    let port = |name: &str, number: i32| json!({"name": name, "port": number, "protocol": "TCP"});
    let mut subsets = create.body["subsets"].as_array().unwrap().clone();
    subsets.sort_by_key(Value::to_string);
    let mut wanted = vec![
        json!({"addresses": [address("p1", "10.0.0.1"), address("p3", "10.0.0.3")],
            "notReadyAddresses": [address("p2", "10.0.0.2")], "ports": [port("admin", 8081)]}),
        json!({"addresses": [address("p1", "10.0.0.1")], "notReadyAddresses": [address("p2", "10.0.0.2")],
            "ports": [port("http", 8080)]}),
        json!({"addresses": [address("p3", "10.0.0.3")], "ports": [port("http", 9090)]}),
    ];
    wanted.sort_by_key(Value::to_string);
    assert_eq!(subsets, wanted);
    let stored: Arc<Endpoints> = decode(create.body.clone());
    assert_eq!(super::plan(&observed(Some(stored), pods), now()), Plan::nothing());
}

#[test]
fn a_change_writes_the_subsets_and_its_time() {
    let stored: Arc<Endpoints> = {
        let made = plan(&observed(None, Vec::new()), now());
        let [Action::Create(create)] = &made.actions[..] else { panic!("{made:?}") };
        decode(create.body.clone())
    };
    let made = plan(&observed(Some(stored), vec![pod("p1", "10.0.0.1", true, 80)]), now());
    let [Action::Patch(patch)] = &made.actions[..] else { panic!("{made:?}") };
    assert_eq!(patch.body["metadata"]["annotations"][LAST_CHANGE], json!("2026-01-01T00:00:00Z"));
    assert_eq!(patch.body["subsets"].as_array().unwrap().len(), 1);
}

#[test]
fn endpoints_leave_with_their_service_unless_somebody_owns_them() {
    let stored = |owners: Value| -> Option<Arc<Endpoints>> {
        Some(decode(json!({"metadata": {"name": "web", "namespace": "a", "uid": "e", "ownerReferences": owners}})))
    };
    let gone = Observed { service: None, ..observed(stored(json!([])), Vec::new()) };
    assert!(matches!(&plan(&gone, now()).actions[..], [Action::ConfirmAbsent { .. }, Action::Delete(_)]));
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}]);
    let owned = Observed { service: None, ..observed(stored(owner), Vec::new()) };
    assert_eq!(plan(&owned, now()), Plan::nothing());
}
