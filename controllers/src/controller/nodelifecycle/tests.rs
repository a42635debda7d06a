use serde_json::{Value, json};

use super::*;
use crate::action::Action;

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

fn node(conditions: &Value, taints: &Value, unschedulable: bool) -> Arc<Node> {
    let node = json!({
        "metadata": {"name": "n", "uid": "n", "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"taints": taints, "unschedulable": unschedulable}, "status": {"conditions": conditions},
    });
    Arc::new(serde_json::from_value(node).unwrap())
}

fn ready(status: &str) -> Value {
    json!([{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:05:00Z"}])
}

/// All that a silent node no longer vouches for.
fn unknown() -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "Unknown", "lastTransitionTime": "2026-01-01T00:05:00Z"});
    json!(["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"].map(condition))
}

fn observed(node: Arc<Node>, grace_left: Option<u64>) -> Observed {
    Observed { node, pods: Vec::new(), grace_left: grace_left.map(Duration::from_secs), evict: true, evict_after: None }
}

fn taints(plan: &Plan) -> Option<Vec<(String, String)>> {
    let patch = plan.actions.iter().find_map(|action| match action {
        Action::Patch(patch) if patch.body.get("spec").is_some() => Some(&patch.body["spec"]["taints"]),
        _ => None,
    })?;
    let text = |taint: &Value, field: &str| taint[field].as_str().unwrap().to_owned();
    Some(patch.as_array().into_iter().flatten().map(|taint| (text(taint, "key"), text(taint, "effect"))).collect())
}

#[test]
fn a_healthy_node_is_only_looked_at_again() {
    let planned = plan(&observed(node(&ready("True"), &json!([]), false), Some(30)), now());
    assert_eq!(planned, Plan { actions: Vec::new(), look_again: Some(Duration::from_millis(30_001)) });
}

#[test]
fn silence_makes_conditions_unknown_and_then_taints_the_node() {
    let planned = plan(&observed(node(&ready("True"), &json!([]), false), None), now());
    let Action::Patch(status) = &planned.actions[0] else { panic!("{planned:?}") };
    let conditions = status.body["status"]["conditions"].as_array().unwrap();
    let told: Vec<(&str, &str)> =
        conditions.iter().map(|own| (own["type"].as_str().unwrap(), own["reason"].as_str().unwrap())).collect();
    assert_eq!(
        told,
        [
            ("Ready", "NodeStatusUnknown"),
            ("MemoryPressure", "NodeStatusNeverUpdated"),
            ("DiskPressure", "NodeStatusNeverUpdated"),
            ("PIDPressure", "NodeStatusNeverUpdated"),
        ]
    );
    assert_eq!(taints(&planned), None, "they would overwrite what somebody else has set meanwhile");
    let told = node(&unknown(), &json!([{"key": "mine", "effect": "NoSchedule"}]), false);
    let next = plan(&observed(told, None), now());
    let taint = |key: &str, effect: &str| (key.to_owned(), effect.to_owned());
    let unreachable = |effect: &str| taint("node.kubernetes.io/unreachable", effect);
    let [Action::Patch(spec)] = &next.actions[..] else { panic!("{next:?}") };
    assert_eq!(spec.body["metadata"]["resourceVersion"], "5");
    assert_eq!(
        taints(&next),
        Some(vec![taint("mine", "NoSchedule"), unreachable("NoSchedule"), unreachable("NoExecute")])
    );
    assert!(planned.actions.iter().any(|action| matches!(action, Action::Note(note) if note.reason == "NodeNotReady")));
}

#[test]
fn without_leave_nothing_is_evicted() {
    let mut all = observed(node(&unknown(), &json!([]), false), None);
    all.evict = false;
    all.evict_after = Some(Duration::from_secs(3));
    assert_eq!(plan(&all, now()).look_again, Some(Duration::from_secs(3)));
    let unreachable = ("node.kubernetes.io/unreachable".to_owned(), "NoSchedule".to_owned());
    assert_eq!(taints(&plan(&all, now())), Some(vec![unreachable]));
}

#[test]
fn a_node_that_recovers_loses_our_taints_and_keeps_others() {
    let all = json!([
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "mine", "effect": "NoSchedule"},
    ]);
    let planned = plan(&observed(node(&ready("True"), &all, false), Some(30)), now());
    assert_eq!(taints(&planned), Some(vec![("mine".to_owned(), "NoSchedule".to_owned())]));
}

#[test]
fn conditions_and_cordon_become_taints() {
    let mut conditions = ready("True");
    conditions.as_array_mut().unwrap().push(json!({"type": "DiskPressure", "status": "True"}));
    let planned = plan(&observed(node(&conditions, &json!([]), true), Some(30)), now());
    let expected = ["node.kubernetes.io/disk-pressure", "node.kubernetes.io/unschedulable"];
    assert_eq!(taints(&planned), Some(expected.map(|key| (key.to_owned(), "NoSchedule".to_owned())).to_vec()));
}

#[test]
fn pods_of_a_silent_node_are_no_longer_ready() {
    let mut silent = observed(node(&ready("Unknown"), &json!([]), false), None);
    let pod = |name: &str, since: &str| {
        let pod = json!({
            "metadata": {"name": name, "namespace": "a", "uid": name},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    silent.pods = vec![pod("before", "2026-01-01T00:01:00Z"), pod("after", "2026-01-01T00:06:00Z")];
    let planned = plan(&silent, now());
    let patched: Vec<&str> = planned
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Patch(patch) if patch.target.resource.plural == "pods" => Some(patch.target.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(patched, ["before"]);
}

#[tokio::test(start_paused = true)]
async fn only_a_change_is_a_sign_of_life() {
    let env = Env::simulated(now(), 1);
    let lifecycle = NodeLifecycle::new(Duration::from_secs(40), env.clone());
    let node = node(&ready("True"), &json!([]), false);
    let lease = |micros: &str| -> Lease {
        serde_json::from_value(json!({"spec": {"renewTime": format!("1999-01-01T00:00:00.{micros}Z")}})).unwrap()
    };
    assert_eq!(lifecycle.grace_left(&node, Some(&lease("000001"))), Some(Duration::from_secs(40)));
    env.clock.sleep(Duration::from_secs(30)).await;
    assert_eq!(lifecycle.grace_left(&node, Some(&lease("000001"))), Some(Duration::from_secs(10)));
    assert_eq!(lifecycle.grace_left(&node, Some(&lease("000002"))), Some(Duration::from_secs(40)));
    env.clock.sleep(Duration::from_secs(40)).await;
    assert_eq!(lifecycle.grace_left(&node, Some(&lease("000002"))), None);
}
