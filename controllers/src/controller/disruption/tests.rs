use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

fn budget(spec: &Value, disrupted: &Value) -> Arc<PodDisruptionBudget> {
    let budget = json!({
        "metadata": {"name": "b", "namespace": "a", "uid": "b", "generation": 2, "resourceVersion": "9"},
        "spec": spec, "status": {"disruptedPods": disrupted},
    });
    Arc::new(serde_json::from_value(budget).unwrap())
}

fn pods(ready: usize, unready: usize) -> Vec<Arc<Pod>> {
    let make = |index: usize| {
        let status = if index < ready { "True" } else { "False" };
        let pod = json!({
            "metadata": {"name": format!("p{index}"), "namespace": "a"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    (0..ready + unready).map(make).collect()
}

fn status_of(spec: &Value, disrupted: &Value, ready: usize, unready: usize, expected: i32) -> Value {
    let observed = Observed { budget: budget(spec, disrupted), pods: pods(ready, unready), expected: Ok(expected) };
    let plan = plan(&observed, now());
    let Some(Action::Patch(patch)) = plan.actions.last() else { panic!("{plan:?}") };
    patch.body["status"].clone()
}

fn figures(status: &Value) -> [i64; 4] {
    ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"]
        .map(|field| status[field].as_i64().unwrap())
}

#[test]
fn three_of_five_are_needed_and_four_are_healthy() {
    let status = status_of(&json!({"minAvailable": 3}), &json!({}), 4, 1, 5);
    assert_eq!(figures(&status), [4, 3, 5, 1]);
    assert_eq!(status["conditions"][0]["reason"], "SufficientPods");
    assert_eq!(status["observedGeneration"], 2);
}

#[test]
fn shares_are_of_what_the_managers_want_and_round_up() {
    assert_eq!(figures(&status_of(&json!({"minAvailable": "50%"}), &json!({}), 5, 0, 7)), [5, 4, 7, 1]);
    assert_eq!(figures(&status_of(&json!({"maxUnavailable": "30%"}), &json!({}), 7, 0, 7)), [7, 4, 7, 3]);
    assert_eq!(figures(&status_of(&json!({"maxUnavailable": 1}), &json!({}), 2, 1, 3)), [2, 2, 3, 0]);
}

#[test]
fn a_granted_eviction_counts_until_it_shows_or_times_out() {
    let recent = json!({"p0": "2026-01-01T00:09:00Z"});
    let status = status_of(&json!({"minAvailable": 1}), &recent, 3, 0, 3);
    assert_eq!(figures(&status), [2, 1, 3, 1]);
    assert_eq!(status["disruptedPods"], recent);
    let stale = json!({"p0": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:09:59Z"});
    let status = status_of(&json!({"minAvailable": 1}), &stale, 3, 0, 3);
    assert_eq!(figures(&status), [3, 1, 3, 2]);
    assert_eq!(status["disruptedPods"], json!({"p0": null, "gone": null}));
}

#[test]
fn an_unknown_manager_closes_the_budget() {
    let observed = Observed {
        budget: budget(&json!({"maxUnavailable": 1}), &json!({})),
        pods: pods(3, 0),
        expected: Err("found no controllers for pod \"p0\"".to_owned()),
    };
    let plan = plan(&observed, now());
    let [Action::Patch(patch)] = &plan.actions[..] else { panic!("{plan:?}") };
    assert_eq!(patch.body["status"]["disruptionsAllowed"], 0);
    assert_eq!(patch.body["status"]["conditions"][0]["reason"], "SyncFailed");
    assert_eq!(patch.body["metadata"]["resourceVersion"], "9");
}
