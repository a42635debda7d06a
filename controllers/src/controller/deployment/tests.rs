use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::action::{Patch, PatchKind};
use crate::testing::{Address, Place, World};

fn template(image: u64) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": format!("i:{image}")}]}})
}

fn deployment(replicas: i32, surge: Value, unavailable: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(0),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "revisionHistoryLimit": 2, "progressDeadlineSeconds": 600,
        },
    })
}

/// One deployment, its sets, and the pods of each: how many are available and how many are not yet.
struct Scene {
    world: World,
    pods: BTreeMap<String, (i32, i32)>,
}

impl Scene {
    fn new(deployment: Value) -> Self {
        let mut world = World::default();
        world.create(Address::new("apps", "deployments", "a", ""), deployment).unwrap();
        Self { world, pods: BTreeMap::new() }
    }

    fn deployment(&self) -> Arc<Deployment> {
        self.world.read("deployments").remove(0)
    }

    fn sets(&self) -> Vec<Arc<ReplicaSet>> {
        self.world.read("replicasets")
    }

    fn plan(&self) -> Plan {
        let sets = self.sets();
        let names = sets.iter().map(|set| set.name().to_owned()).collect();
        let running = |set: &&Arc<ReplicaSet>| self.pods.get(set.name()).is_some_and(|(a, b)| a + b > 0);
        let with_pods: BTreeSet<String> = sets.iter().filter(running).map(|set| set.uid().to_owned()).collect();
        plan(&Observed { deployment: self.deployment(), sets, names, with_pods }, self.world.now)
    }

    fn pass(&mut self) {
        for action in self.plan().actions {
            self.world.perform(&action).unwrap();
        }
    }

    fn change(&mut self, patch: &Value) {
        let place = Place { address: Address::new("apps", "deployments", "a", "web"), subresource: String::new() };
        self.world.patch(&place, PatchKind::Merge, patch).unwrap();
    }

    fn size_pods(&mut self, set: &ReplicaSet) {
        let (ready, waiting) = self.pods.entry(set.name().to_owned()).or_default();
        let missing = set.replicas() - *ready - *waiting;
        if missing >= 0 {
            *waiting += missing;
        } else {
            let from_waiting = (-missing).min(*waiting);
            *waiting -= from_waiting;
            *ready -= -missing - from_waiting;
        }
    }

    fn ready_one(&mut self, set: &ReplicaSet) {
        let (ready, waiting) = self.pods.entry(set.name().to_owned()).or_default();
        let one = (*waiting).min(1);
        *waiting -= one;
        *ready += one;
    }

    fn publish(&mut self, set: &ReplicaSet) {
        let (ready, waiting) = self.pods.get(set.name()).copied().unwrap_or_default();
        let address = Address::new("apps", "replicasets", "a", set.name());
        let place = Place { address, subresource: "status".to_owned() };
        let status = json!({"status": {
            "replicas": ready + waiting, "readyReplicas": ready, "availableReplicas": ready,
            "observedGeneration": set.generation(),
        }});
        self.world.patch(&place, PatchKind::Merge, &status).unwrap();
    }

    /// Everybody does their part until nothing changes.
    fn settle(&mut self) {
        for _ in 0..200 {
            let before = self.world.revision;
            self.pass();
            for set in self.sets() {
                self.size_pods(&set);
                for _ in 0..set.replicas() {
                    self.ready_one(&set);
                }
                self.publish(&set);
            }
            if self.world.revision == before {
                return;
            }
        }
        panic!("never settles: {:?}", self.plan());
    }

    fn reason(&self, kind: &str) -> String {
        let deployment = self.deployment();
        crate::projection::condition(&deployment.status.conditions, kind)
            .map(|own| own.reason.clone())
            .unwrap_or_default()
    }

    fn sizes(&self) -> Vec<i32> {
        let mut sets = self.sets();
        sets.sort_by_key(|set| set.uid().trim_start_matches("uid-").parse::<u32>().unwrap());
        sets.iter().map(|set| set.replicas()).collect()
    }
}

fn amount() -> impl Strategy<Value = Value> {
    prop_oneof![(0..4_i32).prop_map(|count| json!(count)), (0..=100_i32).prop_map(|share| json!(format!("{share}%")))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_roll_stays_within_its_bounds_and_ends(
        replicas in 0..12_i32,
        surge in amount(),
        unavailable in amount(),
        steps in proptest::collection::vec((0..16_u8, any::<proptest::sample::Index>()), 0..150),
    ) {
        let mut scene = Scene::new(deployment(replicas, surge, unavailable));
        scene.settle();
        let bounds = bounds::of(&scene.deployment());
        let mut image = 0;
        for (step, which) in steps {
            let sets = scene.sets();
            let set = which.get(&sets).clone();
            match step {
                0..4 => scene.pass(),
                4..8 => scene.size_pods(&set),
                8..11 => scene.ready_one(&set),
                11..15 => scene.publish(&set),
                _ => {
                    // Forward to a new template, or back to an old one.
                    image = (image + 1) % 3;
                    scene.change(&json!({"spec": {"template": template(image)}}));
                }
            }
            let asked: i32 = scene.sets().iter().map(|set| set.replicas()).sum();
            let available: i32 = scene.pods.values().map(|(ready, _)| ready).sum();
            prop_assert!(asked <= replicas + bounds.surge, "{asked} pods asked for");
            prop_assert!(available >= replicas - bounds.unavailable, "{available} pods available");
        }
        scene.settle();
        prop_assert_eq!(scene.sizes().iter().sum::<i32>(), replicas);
        prop_assert_eq!(scene.reason("Progressing"), "NewReplicaSetAvailable");
        let current = scene.sets().into_iter().find(|set| set.replicas() > 0);
        if let Some(current) = current {
            prop_assert!(template::same(&current.spec.template, &template(image)));
        }
        // The history limit holds, beside the current set.
        prop_assert!(scene.sets().len() <= 3);
    }

    #[test]
    fn scaling_at_any_moment_ends_at_the_wanted_size(
        sizes in proptest::collection::vec(0..10_i32, 1..6),
        steps in proptest::collection::vec((0..4_u8, any::<proptest::sample::Index>()), 0..60),
    ) {
        let mut scene = Scene::new(deployment(4, json!("25%"), json!("25%")));
        scene.settle();
        scene.change(&json!({"spec": {"template": template(1)}}));
        let mut sizes = sizes.into_iter();
        let mut wanted = 4;
        for (count, (step, which)) in steps.into_iter().enumerate() {
            let sets = scene.sets();
            let set = which.get(&sets).clone();
            match step {
                0 => scene.pass(),
                1 => scene.size_pods(&set),
                2 => scene.ready_one(&set),
                _ => scene.publish(&set),
            }
            if count % 10 == 5 && let Some(size) = sizes.next() {
                wanted = size;
                scene.change(&json!({"spec": {"replicas": size}}));
            }
        }
        scene.settle();
        prop_assert_eq!(scene.sizes().iter().sum::<i32>(), wanted);
    }
}

#[test]
fn the_first_pass_creates_the_set() {
    let scene = Scene::new(deployment(3, json!("25%"), json!("25%")));
    let plan = scene.plan();
    let [Action::Create(create), Action::Patch(revision), Action::Note(note), Action::Patch(status)] =
        &plan.actions[..]
    else {
        panic!("{plan:?}")
    };
    let hash = template::hash(&scene.deployment().spec.template, None);
    assert_eq!(
        create.body,
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": format!("web-{hash}"), "namespace": "a",
                "labels": {"app": "web", "pod-template-hash": hash},
                "annotations": {
                    "deployment.kubernetes.io/revision": "1",
                    "deployment.kubernetes.io/desired-replicas": "3",
                    "deployment.kubernetes.io/max-replicas": "4",
                },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web", "pod-template-hash": hash}},
                "template": {
                    "metadata": {"labels": {"app": "web", "pod-template-hash": hash}},
                    "spec": {"containers": [{"name": "c", "image": "i:0"}]},
                },
            },
        })
    );
    assert_eq!(revision.body["metadata"]["annotations"], json!({"deployment.kubernetes.io/revision": "1"}));
    assert_eq!(note.text, format!("Scaled up replica set web-{hash} from 0 to 3"));
    assert_eq!(status.subresource, Some("status"));
    let conditions = status.body["status"]["conditions"].as_array().unwrap();
    let told: Vec<(&str, &str)> =
        conditions.iter().map(|own| (own["type"].as_str().unwrap(), own["reason"].as_str().unwrap())).collect();
    assert_eq!(told, [("Available", "MinimumReplicasUnavailable"), ("Progressing", "NewReplicaSetCreated")]);
    assert_eq!(conditions[1]["message"], json!(format!("Created new replica set \"web-{hash}\"")));
}

#[test]
fn a_settled_deployment_needs_nothing() {
    let mut scene = Scene::new(deployment(3, json!("25%"), json!("25%")));
    scene.settle();
    assert_eq!(scene.plan(), Plan::nothing());
    assert_eq!(scene.reason("Available"), "MinimumReplicasAvailable");
}

#[test]
fn the_hash_is_stable_and_ignores_itself() {
    let plain = template(1);
    let mut labelled = plain.clone();
    labelled["metadata"]["labels"][template::HASH_LABEL] = json!("x");
    assert_eq!(template::hash(&plain, None), template::hash(&labelled, None));
    assert_ne!(template::hash(&plain, None), template::hash(&plain, Some(1)));
    assert_eq!(template::hash(&plain, None), "f678b5496");
}

#[test]
fn a_taken_name_counts_as_a_collision() {
    let mut scene = Scene::new(deployment(1, json!(1), json!(0)));
    let hash = template::hash(&scene.deployment().spec.template, None);
    let other =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": format!("web-{hash}")}, "spec": {}});
    scene.world.create(Address::new("apps", "replicasets", "a", ""), other).unwrap();
    let [Action::Patch(Patch { body, .. }), ..] = &scene.plan().actions[..] else { panic!("no patch") };
    assert_eq!(*body, json!({"status": {"collisionCount": 1}}));
    scene.pass();
    scene.pass();
    assert_eq!(scene.sets().len(), 2);
}

#[test]
fn going_back_reuses_the_set_under_a_new_revision() {
    let mut scene = Scene::new(deployment(2, json!(1), json!(0)));
    for image in [0, 1, 0] {
        scene.change(&json!({"spec": {"template": template(image)}}));
        scene.settle();
    }
    assert_eq!(scene.sizes(), [2, 0]);
    let first = scene.sets().into_iter().find(|set| set.replicas() == 2).unwrap();
    assert_eq!(first.annotations()["deployment.kubernetes.io/revision"], "3");
    assert_eq!(first.annotations()["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(scene.deployment().annotations()["deployment.kubernetes.io/revision"], "3");
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut scene = Scene::new(deployment(2, json!(1), json!(0)));
    scene.settle();
    scene.change(&json!({"spec": {"paused": true, "replicas": 4, "template": template(1)}}));
    scene.settle();
    assert_eq!(scene.sizes(), [4]);
    assert_eq!(scene.reason("Progressing"), "DeploymentPaused");
    scene.change(&json!({"spec": {"paused": false}}));
    scene.settle();
    assert_eq!(scene.sizes(), [0, 4]);
    assert_eq!(scene.reason("Progressing"), "NewReplicaSetAvailable");
}

#[test]
fn scaling_in_the_middle_of_a_roll_is_proportional() {
    let mut scene = Scene::new(deployment(10, json!(3), json!(2)));
    scene.settle();
    scene.change(&json!({"spec": {"template": template(1)}}));
    // The new pods never become ready: 8 old and 5 new ones stand.
    for _ in 0..6 {
        scene.pass();
        for set in scene.sets() {
            scene.size_pods(&set);
            scene.publish(&set);
        }
    }
    assert_eq!(scene.sizes(), [8, 5]);
    scene.change(&json!({"spec": {"replicas": 30}}));
    scene.pass();
    assert_eq!(scene.sizes(), [20, 13]);
}

#[test]
fn recreate_ends_all_old_pods_first() {
    let mut spec = deployment(2, json!(1), json!(0));
    spec["spec"]["strategy"] = json!({"type": "Recreate"});
    let mut scene = Scene::new(spec);
    scene.settle();
    scene.change(&json!({"spec": {"template": template(1)}}));
    scene.pass();
    assert_eq!(scene.sizes(), [0]);
    scene.pass();
    assert_eq!(scene.sizes(), [0], "the old pods still run");
    scene.settle();
    assert_eq!(scene.sizes(), [0, 2]);
}

#[test]
fn no_progress_within_the_deadline_is_told() {
    let mut scene = Scene::new(deployment(1, json!(1), json!(0)));
    scene.pass();
    let plan = scene.plan();
    assert_eq!(plan.look_again, Some(std::time::Duration::from_secs(601)));
    scene.world.now = scene.world.now.saturating_add(jiff::SignedDuration::from_secs(601)).unwrap();
    scene.pass();
    assert_eq!(scene.reason("Progressing"), "ProgressDeadlineExceeded");
    scene.settle();
    assert_eq!(scene.reason("Progressing"), "NewReplicaSetAvailable");
}

#[test]
fn a_selector_of_everything_is_refused() {
    let mut spec = deployment(1, json!(1), json!(0));
    spec["spec"]["selector"] = json!({});
    let scene = Scene::new(spec);
    let [Action::Note(note), Action::Patch(_)] = &scene.plan().actions[..] else { panic!("not refused") };
    assert_eq!(note.reason, "SelectingAll");
}
