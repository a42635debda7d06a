use serde_json::json;

use super::*;
use crate::action::PatchKind;
use crate::testing::{Address, Place, World};

fn daemon(strategy: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}}, "updateStrategy": strategy,
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "i:0"}]}},
        },
    })
}

/// The world, and the nodes whose failures wait.
struct Scene(World, BTreeMap<String, Duration>);

impl Scene {
    fn new(strategy: &Value, nodes: usize) -> Self {
        let mut scene = Self(World::default(), BTreeMap::new());
        scene.0.create(Address::new("apps", "daemonsets", "a", ""), daemon(strategy)).unwrap();
        for index in 0..nodes {
            scene.add_node(&format!("n{index}"), "ssd", &json!([]));
        }
        scene
    }

    fn add_node(&mut self, name: &str, disk: &str, taints: &Value) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"disk": disk}}, "spec": {"taints": taints},
        });
        self.0.create(Address::new("", "nodes", "", ""), node).unwrap();
    }

    fn plan(&self) -> Plan {
        let set: Arc<DaemonSet> = self.0.read("daemonsets").remove(0);
        let (nodes, pods, revisions) = (self.0.read("nodes"), self.0.read("pods"), self.0.read("controllerrevisions"));
        plan(&Observed { set, nodes, pods, revisions, waits: self.1.clone() }, self.0.now)
    }

    fn pass(&mut self) {
        for action in self.plan().actions {
            self.0.perform(&action).unwrap();
        }
    }

    /// Scheduler and node: every pod gets to its node and becomes ready; what is being deleted goes.
    fn run_pods(&mut self) {
        for pod in self.0.read::<Pod>("pods") {
            let address = Address::new("", "pods", "a", pod.name());
            if pod.is_deleting() {
                self.0.delete(&address, &json!({"gracePeriodSeconds": 0})).unwrap();
                continue;
            }
            let place = |subresource: &str| Place { address: address.clone(), subresource: subresource.to_owned() };
            let bind = json!({"spec": {"nodeName": place::node_of(&pod)}});
            self.0.patch(&place(""), PatchKind::Merge, &bind).unwrap();
            let ready = json!({"status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]}});
            self.0.patch(&place("status"), PatchKind::Merge, &ready).unwrap();
        }
    }

    fn settle(&mut self) -> usize {
        let mut fewest = usize::MAX;
        for _ in 0..60 {
            let before = self.0.revision;
            self.pass();
            let ready = |pod: &&Arc<Pod>| pod.is_ready() && !pod.is_deleting();
            fewest = fewest.min(self.0.read::<Pod>("pods").iter().filter(ready).count());
            self.run_pods();
            if self.0.revision == before {
                return fewest;
            }
        }
        panic!("never settles: {:?}", self.plan());
    }

    fn change(&mut self, patch: &Value) {
        let place = Place { address: Address::new("apps", "daemonsets", "a", "d"), subresource: String::new() };
        self.0.patch(&place, PatchKind::Merge, patch).unwrap();
    }

    fn nodes_of_pods(&self) -> Vec<String> {
        let mut nodes: Vec<String> = self.0.read::<Pod>("pods").iter().map(|pod| place::node_of(pod)).collect();
        nodes.sort();
        nodes
    }

    fn images(&self) -> BTreeMap<String, usize> {
        let mut images = BTreeMap::new();
        for pod in self.0.list("pods") {
            *images.entry(pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        images
    }
}

fn rolling(surge: i32, unavailable: i32) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn image(tag: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": format!("i:{tag}")}]}}}})
}

#[test]
fn each_chosen_node_gets_one_pod_bound_by_affinity() {
    let mut scene = Scene::new(&rolling(0, 1), 2);
    scene.add_node("other", "hdd", &json!([]));
    scene.add_node("tainted", "ssd", &json!([{"key": "x", "effect": "NoSchedule"}]));
    scene.add_node("cordoned", "ssd", &json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]));
    scene.settle();
    assert_eq!(scene.nodes_of_pods(), ["cordoned", "n0", "n1"]);
    let status = &scene.0.list("daemonsets")[0]["status"];
    assert_eq!(
        (&status["desiredNumberScheduled"], &status["numberAvailable"], &status["updatedNumberScheduled"]),
        (&json!(3), &json!(3), &json!(3))
    );
    let pod = scene.0.list("pods")[0];
    assert_eq!(
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            [0]["matchFields"][0]["key"],
        "metadata.name"
    );
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 6);
}

#[test]
fn a_new_node_gets_a_pod_and_one_that_repels_it_loses_it() {
    let mut scene = Scene::new(&rolling(0, 1), 1);
    scene.settle();
    scene.add_node("late", "ssd", &json!([]));
    scene.settle();
    assert_eq!(scene.nodes_of_pods(), ["late", "n0"]);
    let place = Place { address: Address::new("", "nodes", "", "n0"), subresource: String::new() };
    scene
        .0
        .patch(&place, PatchKind::Merge, &json!({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}))
        .unwrap();
    scene.settle();
    assert_eq!(scene.nodes_of_pods(), ["late"]);
}

#[test]
fn a_roll_keeps_to_its_bounds() {
    for (surge, unavailable, fewest) in [(0, 1, 3), (0, 2, 2), (1, 0, 4)] {
        let mut scene = Scene::new(&rolling(surge, unavailable), 4);
        scene.settle();
        scene.change(&image("1"));
        assert_eq!(scene.settle(), fewest, "surge {surge}, unavailable {unavailable}");
        assert_eq!(scene.images(), BTreeMap::from([("i:1".to_owned(), 4)]));
        assert_eq!(scene.0.list("controllerrevisions").len(), 2);
    }
}

#[test]
fn on_delete_waits_for_somebody_to_delete() {
    let mut scene = Scene::new(&json!({"type": "OnDelete"}), 2);
    scene.settle();
    scene.change(&image("1"));
    scene.settle();
    assert_eq!(scene.images(), BTreeMap::from([("i:0".to_owned(), 2)]));
    let first = scene.0.read::<Pod>("pods")[0].name().to_owned();
    scene.0.delete(&Address::new("", "pods", "a", &first), &json!({})).unwrap();
    scene.settle();
    assert_eq!(scene.images().get("i:1"), Some(&1));
}

#[test]
fn going_back_reuses_the_revision() {
    let mut scene = Scene::new(&rolling(0, 1), 1);
    for tag in ["0", "1", "0"] {
        scene.change(&image(tag));
        scene.settle();
    }
    let mut numbers: Vec<i64> =
        scene.0.list("controllerrevisions").iter().map(|own| own["revision"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
}

#[test]
fn a_failed_daemon_waits_for_its_turn() {
    let mut scene = Scene::new(&rolling(0, 1), 1);
    scene.settle();
    let name = scene.0.read::<Pod>("pods")[0].name().to_owned();
    let place = Place { address: Address::new("", "pods", "a", &name), subresource: "status".to_owned() };
    scene.0.patch(&place, PatchKind::Merge, &json!({"status": {"phase": "Failed"}})).unwrap();
    let deletes = |plan: &Plan| plan.actions.iter().any(|action| matches!(action, Action::DeletePods { .. }));
    scene.1.insert("n0".to_owned(), Duration::from_secs(4));
    let waiting = scene.plan();
    assert!(!deletes(&waiting), "{waiting:?}");
    assert_eq!(waiting.look_again, Some(Duration::from_secs(4)));
    scene.1.clear();
    assert!(deletes(&scene.plan()));
}
