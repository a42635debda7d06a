use serde_json::{Value, json};

use super::*;
use crate::action::Action;
use crate::projection::Projected;

fn decode<K: serde::de::DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn service(ports: &Value) -> Arc<Service> {
    decode(json!({
        "metadata": {"name": "web", "namespace": "a", "uid": "s", "labels": {"team": "x"}},
        "spec": {"selector": {"app": "web"}, "ipFamilies": ["IPv4"], "clusterIP": "10.96.0.9", "ports": ports},
    }))
}

fn pod(index: usize, ready: bool) -> Arc<Pod> {
    decode(json!({
        "metadata": {"name": format!("p{index}"), "namespace": "a", "uid": format!("u{index}"), "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]},
        "status": {
            "phase": "Running", "podIP": format!("10.0.{}.{}", index / 250, index % 250),
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        },
    }))
}

fn observed(service: Arc<Service>, pods: Vec<Arc<Pod>>, slices: Vec<Arc<EndpointSlice>>) -> Observed {
    Observed { service, pods, slices, zones: BTreeMap::from([("n1".to_owned(), "z1".to_owned())]) }
}

fn run(observed: &Observed) -> Vec<Action> {
    plan(observed, "2026-01-01T00:00:00Z".parse().unwrap()).actions
}

fn created(actions: &[Action]) -> Vec<Arc<EndpointSlice>> {
    let bodies = actions.iter().enumerate().filter_map(|(index, action)| match action {
        Action::Create(create) => {
            let mut body = create.body.clone();
            body["metadata"]["name"] = json!(format!("web-{index}"));
            body["metadata"]["uid"] = json!(format!("slice-{index}"));
            Some(decode(body))
        }
        _ => None,
    });
    bodies.collect()
}

fn http() -> Value {
    json!([{"name": "", "port": 80, "targetPort": "http", "protocol": "TCP"}])
}

#[test]
fn a_slice_says_all_there_is_to_know() {
    let actions = run(&observed(service(&http()), vec![pod(1, true), pod(2, false)], Vec::new()));
    let [Action::Create(create)] = &actions[..] else { panic!("{actions:?}") };
    let endpoint = |index: usize, ready: bool| {
        json!({
            "addresses": [format!("10.0.0.{index}")],
            "conditions": {"ready": ready, "serving": ready, "terminating": false},
            "nodeName": "n1", "zone": "z1",
            "targetRef": {"kind": "Pod", "namespace": "a", "name": format!("p{index}"), "uid": format!("u{index}")},
        })
    };
    assert_eq!(
        create.body,
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "generateName": "web-", "namespace": "a",
                "labels": {
                    "team": "x", "kubernetes.io/service-name": "web",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                },
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": "IPv4",
            "endpoints": [endpoint(1, true), endpoint(2, false)],
            "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        })
    );
    let slices = created(&actions);
    assert!(run(&observed(service(&http()), vec![pod(1, true), pod(2, false)], slices)).is_empty());
}

#[test]
fn one_change_is_one_write_and_nobody_moves() {
    let pods: Vec<_> = (0..250).map(|index| pod(index, true)).collect();
    let slices = created(&run(&observed(service(&http()), pods.clone(), Vec::new())));
    let sizes: Vec<usize> = slices.iter().map(|slice| slice.endpoints.len()).collect();
    assert_eq!(sizes, [100, 100, 50]);
    let mut fewer = pods;
    fewer.remove(120);
    let actions = run(&observed(service(&http()), fewer.clone(), slices.clone()));
    let [Action::Patch(patch)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(patch.body["endpoints"].as_array().unwrap().len(), 99);
    fewer.extend([pod(300, true), pod(301, true)]);
    let actions = run(&observed(service(&http()), fewer, slices));
    assert_eq!(actions.len(), 2, "the gap is filled and one more slice grows");
}

#[test]
fn an_empty_service_keeps_one_empty_slice() {
    let first = run(&observed(service(&http()), Vec::new(), Vec::new()));
    let slices = created(&first);
    assert_eq!((slices.len(), slices[0].endpoints.len()), (1, 0));
    assert!(run(&observed(service(&http()), Vec::new(), slices.clone())).is_empty());
    let actions = run(&observed(service(&http()), vec![pod(1, true)], slices));
    assert!(matches!(&actions[..], [Action::Create(_), Action::Delete(_)]), "{actions:?}");
}

#[test]
fn terminating_and_unready_pods_by_the_service_s_wish() {
    let mut ending = pod(1, true).as_ref().clone();
    ending.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    let conditions = |service: &Arc<Service>| {
        let actions = run(&observed(Arc::clone(service), vec![Arc::new(ending.clone())], Vec::new()));
        let endpoint = created(&actions)[0].endpoints[0].conditions.clone();
        (endpoint.ready, endpoint.serving, endpoint.terminating)
    };
    assert_eq!(conditions(&service(&http())), (Some(false), Some(true), Some(true)));
    let mut eager = service(&http()).as_ref().clone();
    eager.spec.publish_not_ready_addresses = true;
    assert_eq!(conditions(&Arc::new(eager)), (Some(true), Some(true), Some(true)));
}

#[test]
fn a_headless_service_names_its_pods() {
    let mut headless = service(&json!([])).as_ref().clone();
    headless.spec.cluster_ip = "None".to_owned();
    let mut named = pod(1, true).as_ref().clone();
    named.spec.hostname = "db-0".to_owned();
    named.spec.subdomain = "web".to_owned();
    let slices = created(&run(&observed(Arc::new(headless), vec![Arc::new(named)], Vec::new())));
    assert_eq!(slices[0].endpoints[0].hostname.as_deref(), Some("db-0"));
    assert_eq!(slices[0].labels().get(HEADLESS_LABEL).map(String::as_str), Some(""));
}

#[test]
fn without_selector_there_is_nothing_to_do() {
    let mut own = service(&http()).as_ref().clone();
    own.spec.selector.clear();
    assert!(run(&observed(Arc::new(own), Vec::new(), Vec::new())).is_empty());
}
