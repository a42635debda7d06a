use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::node::NodeInfo;
use crate::pod::Owner;
use crate::view::{Claim, OwnerKind};

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
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu. \
         preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
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
        let told = choice(&nodes, &pod("p", "1", &spec));
        assert!(told.starts_with(&format!("0/1 nodes are available: {reason}. preemption: 0/1 nodes are")), "{told}");
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
    let selector = json!({"matchLabels": {"app": "a"}});
    nodes.put_owner(OwnerKind::StatefulSet, ("default".to_owned(), "set".to_owned()), Some(&selector));
    // Each pod has a label of its own, as those of a StatefulSet do.
    let owned = |name: &str| {
        let owner = Owner { api_version: "apps/v1".into(), kind: "StatefulSet".into(), name: "set".into() };
        let labels = [("app", "a"), ("statefulset.kubernetes.io/pod-name", name)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        PodInfo { controller: Some(owner), labels, ..pod(name, "100m", &json!({})) }
    };
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

#[test]
fn services_spread_pods_without_an_owner() {
    let mut nodes = view(vec![node("a", "8", &json!({"zone": "a"})), node("b", "8", &json!({"zone": "b"}))]);
    place(&mut nodes, pod("first", "100m", &json!({})), "a");
    place(&mut nodes, PodInfo { labels: BTreeMap::new(), ..pod("other", "2", &json!({})) }, "b");
    assert_eq!(choice(&nodes, &pod("second", "100m", &json!({}))), "a", "the emptier node");
    let selector = json!({"app": "a"});
    nodes.put_service(("default".to_owned(), "web".to_owned()), Some(&selector));
    assert_eq!(choice(&nodes, &pod("second", "100m", &json!({}))), "b");
}

fn near(kind: &str, term: &Value) -> Value {
    let mut term = term.clone();
    term["topologyKey"] = json!("kubernetes.io/hostname");
    term["labelSelector"] = json!({"matchLabels": {"app": "a"}});
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

#[test]
fn terms_reach_the_namespaces_they_select() {
    let mut nodes = view(vec![node("n", "4", &json!({}))]);
    let elsewhere = PodInfo { key: ("shop".to_owned(), "x".to_owned()), ..pod("x", "1", &json!({})) };
    place(&mut nodes, elsewhere, "n");
    let labels = |team: &str| BTreeMap::from([("team".to_owned(), team.to_owned())]);
    assert!(nodes.put_namespace("shop", labels("red")) && !nodes.put_namespace("shop", labels("red")));
    nodes.put_namespace("default", labels("blue"));
    for (term, found) in [
        (json!({}), false),
        (json!({"namespaces": ["shop"]}), true),
        (json!({"namespaceSelector": {}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "red"}}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}}), false),
        (json!({"namespaces": ["other"], "namespaceSelector": {"matchLabels": {"team": "red"}}}), true),
    ] {
        // A pod that its own term does not select cannot be the first of its group.
        let seeker = PodInfo { labels: BTreeMap::new(), ..pod("p", "1", &near("podAffinity", &term)) };
        assert_eq!(choice(&nodes, &seeker) == "n", found, "{term}");
        let shunner = pod("p", "1", &near("podAntiAffinity", &term));
        assert_eq!(choice(&nodes, &shunner) == "n", !found, "{term}");
    }
}

#[test]
fn a_match_of_affinity_matches_every_term() {
    let mut nodes = view(vec![node("n", "4", &json!({}))]);
    for (name, label) in [("x", "a"), ("y", "b")] {
        let labels = BTreeMap::from([(label.to_owned(), String::new())]);
        place(&mut nodes, PodInfo { labels, ..pod(name, "1", &json!({})) }, "n");
    }
    let term =
        |label: &str| json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {label: ""}}});
    let terms =
        |all: &[Value]| json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": all}}});
    assert_eq!(choice(&nodes, &pod("p", "1", &terms(&[term("a")]))), "n");
    let refused = choice(&nodes, &pod("p", "1", &terms(&[term("a"), term("b")])));
    assert!(refused.contains("1 node(s) didn't match pod affinity rules"), "no single pod has both: {refused}");
}

#[test]
fn inclusion_policies_say_which_nodes_count() {
    let taint = json!({"zone": "b", "taints": [{"key": "k", "effect": "NoSchedule"}]});
    let mut nodes = view(vec![node("a", "8", &json!({"zone": "a", "label": "ssd"})), node("b", "8", &taint)]);
    place(&mut nodes, pod("first", "100m", &json!({})), "a");
    let spread = |extra: &Value| {
        let mut constraint = json!({
            "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        });
        constraint.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"topologySpreadConstraints": [constraint], "nodeSelector": {"disk": "ssd"}})
    };
    // Zone b is out of the pod's reach by its selector; counted nevertheless, it holds the pod up.
    assert_eq!(choice(&nodes, &pod("p", "1", &spread(&json!({})))), "a");
    let ignoring = json!({"nodeAffinityPolicy": "Ignore"});
    assert!(choice(&nodes, &pod("p", "1", &spread(&ignoring))).contains("topology spread constraints"));
    let honoring = json!({"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"});
    assert_eq!(choice(&nodes, &pod("p", "1", &spread(&honoring))), "a");
    // Only pods of the same version count.
    let versioned = PodInfo {
        labels: BTreeMap::from([("app".into(), "a".into()), ("v".into(), "2".into())]),
        ..pod("p", "1", &json!({}))
    };
    let keyed = json!({"nodeAffinityPolicy": "Ignore", "matchLabelKeys": ["v"]});
    let spec = spread(&keyed);
    let spread = crate::constraint::Spread::all(spec.as_object().unwrap(), &versioned.labels);
    assert_eq!(choice(&nodes, &PodInfo { spread, spec: pod("p", "1", &spec).spec, ..versioned }), "a");
}

#[test]
fn preferred_neighbours_pull_and_push() {
    let mut nodes = view(vec![node("a", "8", &json!({})), node("b", "8", &json!({}))]);
    place(&mut nodes, pod("first", "100m", &json!({})), "a");
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}});
    let preferring = |kind: &str| json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}}});
    assert_eq!(choice(&nodes, &pod("p", "100m", &json!({}))), "b", "the emptier node");
    assert_eq!(choice(&nodes, &pod("p", "100m", &preferring("podAffinity"))), "a");
    assert_eq!(choice(&nodes, &pod("p", "100m", &preferring("podAntiAffinity"))), "b");
    // A pod that stands and wants company is as good as one that asks for it.
    place(&mut nodes, pod("lonely", "100m", &preferring("podAffinity")), "a");
    assert_eq!(choice(&nodes, &pod("p", "100m", &json!({}))), "a");
}

#[test]
fn preemption_is_told_in_upstreams_words() {
    let mut nodes = view(vec![node("n", "4", &json!({})), node("tiny", "1", &json!({}))]);
    place(&mut nodes, pod("low", "3", &json!({"priority": 5})), "n");
    let told = |spec: &Value| choice(&nodes, &pod("p", "2", spec));
    assert_eq!(
        told(&json!({"priority": 5})),
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 1 No preemption victims found \
         for incoming pod, 1 Preemption is not helpful for scheduling."
    );
    assert_eq!(
        told(&json!({"preemptionPolicy": "Never", "priority": 9})),
        "0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    );
    // Where it would help, upstream says nothing more either.
    assert_eq!(told(&json!({"priority": 9})), "0/2 nodes are available: 2 Insufficient cpu.");
}

#[test]
fn claims_must_be_bound() {
    let mut nodes = view(vec![node("n", "4", &json!({}))]);
    let volume = |kind: &str, source: &Value| json!({"volumes": [{"name": "data", kind: source}]});
    let by_name = volume("persistentVolumeClaim", &json!({"claimName": "c"}));
    let own = volume("ephemeral", &json!({"volumeClaimTemplate": {}}));
    let put = |nodes: &mut View, claim: &Value| {
        nodes.put_claim(("default".to_owned(), "c".to_owned()), Claim::from_json(claim));
    };
    let told = |nodes: &View, spec: &Value| choice(nodes, &pod("p", "1", spec));
    let tail = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    let refused = |text: &str| format!("0/1 nodes are available: {text}. {tail}");
    assert_eq!(told(&nodes, &by_name), refused("persistentvolumeclaim \"c\" not found"));
    let awaited = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-data\"";
    assert_eq!(told(&nodes, &own), refused(awaited));
    for (claim, text) in [
        (json!({}), "pod has unbound immediate PersistentVolumeClaims"),
        (json!({"spec": {"volumeName": "v"}}), "pod has unbound immediate PersistentVolumeClaims"),
        (
            json!({"spec": {"volumeName": "v"}, "status": {"phase": "Lost"}}),
            "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\"",
        ),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            "persistentvolumeclaim \"c\" is being deleted",
        ),
    ] {
        put(&mut nodes, &claim);
        assert_eq!(told(&nodes, &by_name), refused(text));
    }
    put(&mut nodes, &json!({"spec": {"storageClassName": "local"}}));
    assert!(nodes.put_class("local", true));
    let delayed = refused("1 node(s) didn't find available persistent volumes to bind");
    assert_eq!(told(&nodes, &by_name), delayed);
    put(&mut nodes, &json!({"spec": {"volumeName": "v", "storageClassName": "local"}, "status": {"phase": "Bound"}}));
    assert_eq!(told(&nodes, &by_name), "n");
}

proptest! {
    #[test]
    fn a_chosen_node_passes_every_filter(cpus in prop::collection::vec(0_u8..6, 1..8), wanted in 0_u8..6, sequence: u64) {
        let nodes = view(cpus.iter().enumerate().map(|(i, cpu)| node(&format!("n{i}"), &cpu.to_string(), &json!({}))).collect());
        let pod = pod("p", &wanted.to_string(), &json!({}));
        match schedule(&nodes, &pod, sequence) {
            Decision::Bind { node } => {
                prop_assert_eq!(Situation::of(&nodes, &pod).objection(nodes.node(&node).unwrap()), None);
            }
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
