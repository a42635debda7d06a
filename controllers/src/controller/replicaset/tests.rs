use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{Address, Place, World};

fn set(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
        },
    })
}

fn pod(name: &str, owner: Option<&str>, label: &str) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": label}},
        "spec": {"nodeName": "n1"}, "status": {"phase": "Running"},
    });
    if let Some(uid) = owner {
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": true}]);
    }
    pod
}

struct Scene(World);

impl Scene {
    fn new(replicas: i32) -> Self {
        let mut world = World::default();
        world.create(Address::new("apps", "replicasets", "a", ""), set(replicas)).unwrap();
        Self(world)
    }

    fn add(&mut self, pod: Value) {
        self.0.create(Address::new("", "pods", "a", ""), pod).unwrap();
    }

    fn observed(&self) -> Observed {
        let owner = from_replica_set(&self.0.read::<ReplicaSet>("replicasets")[0]);
        let pods = self.0.read("pods");
        Observed { owner, pods, neighbours: BTreeMap::new(), last_failure: None }
    }

    fn plan(&self) -> Plan {
        plan(&self.observed(), self.0.now)
    }

    fn pass(&mut self) {
        for action in self.plan().actions {
            self.0.perform(&action).unwrap();
        }
    }
}

#[test]
fn missing_pods_are_created_from_the_template() {
    let plan = Scene::new(2).plan();
    let [Action::CreatePods { pods, announce }, Action::Patch(status)] = &plan.actions[..] else { panic!("{plan:?}") };
    assert_eq!((pods.len(), announce.about.name.as_deref()), (2, Some("web")));
    assert_eq!(
        pods[0].body,
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "generateName": "web-", "labels": {"app": "web"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {"containers": []},
        })
    );
    assert_eq!(
        status.body,
        json!({"metadata": {"uid": "uid-1"}, "status": {
            "replicas": 0, "fullyLabeledReplicas": 0, "readyReplicas": 0, "availableReplicas": 0, "observedGeneration": 1,
        }})
    );
}

#[test]
fn a_burst_is_bounded() {
    let plan = Scene::new(2000).plan();
    assert!(matches!(&plan.actions[0], Action::CreatePods { pods, .. } if pods.len() == BURST));
}

#[test]
fn orphans_are_adopted_and_strangers_released() {
    let mut scene = Scene::new(1);
    scene.add(pod("orphan", None, "web"));
    scene.add(pod("stranger", Some("uid-1"), "db"));
    scene.add(pod("foreign", Some("uid-9"), "web"));
    let plan = scene.plan();
    let [Action::Patch(release), Action::ConfirmOwner { uid, .. }, Action::Patch(adopt), Action::Patch(_)] =
        &plan.actions[..]
    else {
        panic!("{plan:?}")
    };
    assert_eq!(uid, "uid-1");
    assert_eq!((release.target.name.as_str(), adopt.target.name.as_str()), ("stranger", "orphan"));
    assert_eq!(release.body["metadata"]["ownerReferences"], json!([{"$patch": "delete", "uid": "uid-1"}]));
    scene.pass();
    let owner = |name: &str| {
        let pods = scene.0.read::<Pod>("pods");
        pods.iter().find(|pod| pod.name() == name).unwrap().controller().map(|own| own.uid.clone())
    };
    assert_eq!((owner("orphan").as_deref(), owner("stranger")), (Some("uid-1"), None));
}

#[test]
fn an_owner_on_its_way_out_does_nothing_to_pods() {
    let mut scene = Scene::new(3);
    scene.add(pod("orphan", None, "web"));
    scene
        .0
        .delete(&Address::new("apps", "replicasets", "a", "web"), &json!({"propagationPolicy": "Foreground"}))
        .unwrap();
    assert!(matches!(&scene.plan().actions[..], [Action::Patch(status)] if status.subresource == Some("status")));
}

#[test]
fn the_pod_missed_least_goes_first() {
    let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    let make = |name: &str, node: &str, phase: &str, ready: Option<&str>, cost: Option<&str>| {
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": node}, "status": {"phase": phase},
        });
        if let Some(since) = ready {
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
        }
        if let Some(cost) = cost {
            pod["metadata"]["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": cost});
        }
        Arc::new(serde_json::from_value::<Pod>(pod).unwrap())
    };
    let (old, new) = (Some("2026-01-01T00:00:10Z"), Some("2026-01-01T23:59:00Z"));
    let pods = [
        make("long-ready", "n1", "Running", old, None),
        make("newly-ready", "n1", "Running", new, None),
        make("crowded", "n2", "Running", old, None),
        make("cheap", "n1", "Running", old, Some("-5")),
        make("unready", "n1", "Running", None, None),
        make("pending", "n1", "Pending", None, None),
        make("unplaced", "", "Pending", None, None),
    ];
    let neighbours = BTreeMap::from([("n1".to_owned(), 1), ("n2".to_owned(), 4)]);
    let order: Vec<String> =
        rank::first_to_go(&pods, &neighbours, now).iter().map(|pod| pod.name().to_owned()).collect();
    assert_eq!(order, ["unplaced", "pending", "unready", "cheap", "crowded", "newly-ready", "long-ready"]);
}

#[test]
fn readiness_must_last_before_it_counts() {
    let mut scene = Scene::new(1);
    let mut young = pod("young", Some("uid-1"), "web");
    young["status"]["conditions"] =
        json!([{"type": "Ready", "status": "True", "lastTransitionTime": scene.0.now.to_string()}]);
    scene.add(young);
    let mut observed = scene.observed();
    observed.owner.min_ready_seconds = 10;
    let first = plan(&observed, scene.0.now);
    let Action::Patch(status) = &first.actions[0] else { panic!("{first:?}") };
    assert_eq!(
        (&status.body["status"]["readyReplicas"], &status.body["status"]["availableReplicas"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(first.look_again, Some(Duration::from_secs(10)));
    let later = scene.0.now.saturating_add(jiff::SignedDuration::from_secs(10)).unwrap();
    let Action::Patch(status) = &plan(&observed, later).actions[0] else { panic!("no status") };
    assert_eq!(status.body["status"]["availableReplicas"], json!(1));
}

#[test]
fn a_failure_shows_until_it_is_over() {
    let scene = Scene::new(1);
    let mut observed = scene.observed();
    observed.last_failure = Some(PodFailure { reason: "FailedCreate", message: "no".to_owned() });
    let planned = plan(&observed, scene.0.now);
    let [_, Action::Patch(status)] = &planned.actions[..] else { panic!("{planned:?}") };
    assert_eq!(
        status.body["status"]["conditions"],
        json!([{
            "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_start_converges(
        replicas in 0..8_i32,
        pods in proptest::collection::vec((any::<bool>(), any::<bool>(), 0..3_u8), 0..12),
    ) {
        let mut scene = Scene::new(replicas);
        for (index, (owned, matching, state)) in pods.iter().enumerate() {
            let mut pod = pod(&format!("p{index}"), owned.then_some("uid-1"), if *matching { "web" } else { "db" });
            match state {
                0 => pod["status"]["phase"] = json!("Failed"),
                1 => pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
                _ => {}
            }
            scene.add(pod);
        }
        for _ in 0..6 {
            scene.pass();
        }
        let pods = scene.0.read::<Pod>("pods");
        let mine = pods.iter().filter(|pod| pod.is_active() && pod.is_controlled_by("uid-1")).count();
        prop_assert_eq!(mine, usize::try_from(replicas).unwrap());
        let quiet = scene.plan();
        prop_assert!(quiet.actions.is_empty(), "{:?}", quiet);
        let place = Place { address: Address::new("apps", "replicasets", "a", "web"), subresource: String::new() };
        prop_assert_eq!(&scene.0.objects[&place.address]["status"]["replicas"], &json!(replicas));
    }
}
