use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::node::NodeInfo;

fn node(name: &str, cpu: &str, extra: &Value) -> NodeInfo {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
    });
    for (pointer, value) in extra.as_object().into_iter().flatten() {
        match pointer.as_str() {
            "zone" => node["metadata"]["labels"]["topology.kubernetes.io/zone"] = value.clone(),
            "label" => node["metadata"]["labels"]["disk"] = value.clone(),
            field => node["spec"][field] = value.clone(),
        }
    }
    NodeInfo::from_json(&node).unwrap()
}

fn pod(name: &str, cpu: &str, spec: &Value) -> PodInfo {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "a"}},
        "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    PodInfo::from_json(&pod).unwrap()
}

fn view(nodes: Vec<NodeInfo>) -> View {
    let mut view = View::default();
    for node in nodes {
        view.put_node(node);
    }
    view
}

fn place(view: &mut View, pod: PodInfo, node: &str) {
    view.put_pod(PodInfo { node_name: node.to_owned(), ..pod });
}

fn choice(view: &View, pod: &PodInfo) -> String {
    match schedule(view, pod, 0) {
        Decision::Bind { node } => node,
        Decision::Unschedulable(diagnosis) => diagnosis.to_string(),
    }
}

#[test]
fn every_objection_is_told_in_upstreams_words() {
    let taint = json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
    let nodes = view(vec![
        node("cordoned", "4", &json!({"unschedulable": true})),
        node("small", "1", &json!({})),
        node("tainted", "4", &taint),
        node("tiny", "1", &json!({})),
    ]);
    assert_eq!(
        choice(&nodes, &pod("p", "2", &json!({}))),
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu."
    );
    assert_eq!(choice(&view(vec![]), &pod("p", "1", &json!({}))), "no nodes available to schedule pods");
}

#[test]
fn selectors_ports_and_spread_object() {
    let mut nodes = view(vec![node("n", "4", &json!({"zone": "z"}))]);
    let port = json!({"containers": [{"ports": [{"hostPort": 80, "containerPort": 80}]}]});
    place(&mut nodes, pod("first", "1", &port), "n");
    let cases = [
        (json!({"nodeSelector": {"disk": "ssd"}}), "1 node(s) didn't match Pod's node affinity/selector"),
        (port, "1 node(s) didn't have free ports for the requested pod ports"),
        (
            json!({"topologySpreadConstraints": [{"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}),
            "1 node(s) didn't match pod topology spread constraints (missing required label)",
        ),
        (
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}]}}}),
            "1 node(s) didn't match pod anti-affinity rules",
        ),
        (
            json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "b"}}}]}}}),
            "1 node(s) didn't match pod affinity rules",
        ),
    ];
    for (spec, reason) in cases {
        assert_eq!(choice(&nodes, &pod("p", "1", &spec)), format!("0/1 nodes are available: {reason}."));
    }
}

#[test]
fn tolerated_cordons_and_taints_do_not_object() {
    let cordoned = node("n", "4", &json!({"unschedulable": true, "taints": [{"key": "k", "effect": "NoExecute"}]}));
    let tolerant = pod("p", "1", &json!({"tolerations": [{"operator": "Exists"}]}));
    assert_eq!(choice(&view(vec![cordoned]), &tolerant), "n");
}

#[test]
fn a_controllers_pods_spread_over_zones() {
    let mut nodes = view(vec![
        node("a1", "8", &json!({"zone": "a"})),
        node("a2", "8", &json!({"zone": "a"})),
        node("b1", "8", &json!({"zone": "b"})),
    ]);
    let owned =
        |name: &str| PodInfo { controller: Some(("ReplicaSet".into(), "u".into())), ..pod(name, "100m", &json!({})) };
    let mut zones = Vec::new();
    for name in ["p1", "p2", "p3", "p4"] {
        let Decision::Bind { node } = schedule(&nodes, &owned(name), 0) else { panic!("{name} fits") };
        zones.push(node[..1].to_owned());
        place(&mut nodes, owned(name), &node);
    }
    zones.sort();
    assert_eq!(zones, ["a", "a", "b", "b"]);
}

#[test]
fn empty_and_preferred_nodes_win() {
    let mut nodes = view(vec![node("busy", "4", &json!({})), node("idle", "4", &json!({}))]);
    place(&mut nodes, pod("load", "3", &json!({})), "busy");
    assert_eq!(choice(&nodes, &pod("p", "1", &json!({}))), "idle");
    let preference = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["busy"]}]}}]}}});
    assert_eq!(choice(&nodes, &pod("p", "1", &preference)), "busy");
}

proptest! {
    #[test]
    fn a_chosen_node_passes_every_filter(cpus in prop::collection::vec(0_u8..6, 1..8), wanted in 0_u8..6, sequence: u64) {
        let nodes = view(cpus.iter().enumerate().map(|(i, cpu)| node(&format!("n{i}"), &cpu.to_string(), &json!({}))).collect());
        let pod = pod("p", &wanted.to_string(), &json!({}));
        match schedule(&nodes, &pod, sequence) {
            Decision::Bind { node } => prop_assert!(objections(&nodes, &pod, nodes.node(&node).unwrap()).is_empty()),
            Decision::Unschedulable(diagnosis) => prop_assert_eq!(diagnosis.reasons.values().sum::<usize>(), cpus.len()),
        }
    }

    #[test]
    fn same_input_same_decision(sequence: u64) {
        let nodes = view((0..5).map(|i| node(&format!("n{i}"), "4", &json!({}))).collect());
        let pod = pod("p", "1", &json!({}));
        prop_assert_eq!(schedule(&nodes, &pod, sequence), schedule(&nodes, &pod, sequence));
    }
}
