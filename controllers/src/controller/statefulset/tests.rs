use serde_json::json;

use super::*;
use crate::action::PatchKind;
use crate::testing::{Address, Place, World};

fn set(replicas: i32, policy: &str, partition: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas, "serviceName": "db", "podManagementPolicy": policy,
            "selector": {"matchLabels": {"app": "db"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "i:0"}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
        },
    })
}

struct Scene(World);

impl Scene {
    fn new(replicas: i32, policy: &str, partition: i32) -> Self {
        let mut world = World::default();
        world.create(Address::new("apps", "statefulsets", "a", ""), set(replicas, policy, partition)).unwrap();
        Self(world)
    }

    fn plan(&self) -> Plan {
        let set: Arc<StatefulSet> = self.0.read("statefulsets").remove(0);
        let claims = self.0.list("persistentvolumeclaims");
        let claims = claims.iter().map(|own| own["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        let (pods, revisions) = (self.0.read("pods"), self.0.read("controllerrevisions"));
        plan(&Observed { set, pods, revisions, claims }, self.0.now)
    }

    fn pass(&mut self) {
        for action in self.plan().actions {
            self.0.perform(&action).unwrap();
        }
    }

    /// Scheduler and node: one pod gets ready, or goes.
    fn run_pod(&mut self, pod: &Pod) {
        let address = Address::new("", "pods", "a", pod.name());
        if pod.is_deleting() {
            self.0.delete(&address, &json!({"gracePeriodSeconds": 0})).unwrap();
            return;
        }
        let place = |subresource: &str| Place { address: address.clone(), subresource: subresource.to_owned() };
        self.0.patch(&place(""), PatchKind::Merge, &json!({"spec": {"nodeName": "n"}})).unwrap();
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        self.0.patch(&place("status"), PatchKind::Merge, &ready).unwrap();
    }

    fn settle(&mut self) {
        for _ in 0..80 {
            let before = self.0.revision;
            self.pass();
            for pod in self.0.read::<Pod>("pods") {
                self.run_pod(&pod);
            }
            if self.0.revision == before {
                return;
            }
        }
        panic!("never settles: {:?}", self.plan());
    }

    fn change(&mut self, patch: &Value) {
        let place = Place { address: Address::new("apps", "statefulsets", "a", "db"), subresource: String::new() };
        self.0.patch(&place, PatchKind::Merge, patch).unwrap();
    }

    fn pods(&self) -> Vec<(String, String)> {
        let text = |pod: &&Value, pointer: &str| pod.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let pods = self.0.list("pods");
        pods.iter().map(|pod| (text(pod, "/metadata/name"), text(pod, "/spec/containers/0/image"))).collect()
    }

    fn told(&self, kind: &str) -> Vec<String> {
        let records = self.0.log.iter().filter(|own| own.address.plural == "pods" && own.kind == kind);
        records.map(|own| own.address.name.clone()).collect()
    }
}

fn named(pods: &[(&str, &str)]) -> Vec<(String, String)> {
    pods.iter().map(|(name, image)| ((*name).to_owned(), (*image).to_owned())).collect()
}

#[test]
fn pods_come_one_after_the_other_with_their_volumes() {
    let mut scene = Scene::new(3, "OrderedReady", 0);
    scene.pass();
    scene.pass();
    assert_eq!(scene.pods(), named(&[("db-0", "i:0")]), "the second waits for the first");
    scene.settle();
    assert_eq!(scene.told("ADDED"), ["db-0", "db-1", "db-2"]);
    let pod = scene.0.list("pods")[1];
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("db-1"), &json!("db")));
    assert_eq!(pod["spec"]["volumes"], json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]));
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "1");
    assert_eq!(scene.0.list("persistentvolumeclaims").len(), 3);
    let status = &scene.0.list("statefulsets")[0]["status"];
    assert_eq!((&status["readyReplicas"], &status["currentRevision"]), (&json!(3), &status["updateRevision"]));
}

#[test]
fn in_parallel_they_come_at_once() {
    let mut scene = Scene::new(3, "Parallel", 0);
    scene.pass();
    assert_eq!(scene.pods().len(), 3);
}

#[test]
fn the_highest_goes_first_and_its_volume_stays() {
    let mut scene = Scene::new(3, "OrderedReady", 0);
    scene.settle();
    scene.change(&json!({"spec": {"replicas": 1}}));
    scene.settle();
    assert_eq!(scene.told("DELETED"), ["db-2", "db-1"]);
    assert_eq!(scene.0.list("persistentvolumeclaims").len(), 3);
    scene.change(&json!({"spec": {"replicas": 2}}));
    scene.settle();
    assert_eq!(scene.pods(), named(&[("db-0", "i:0"), ("db-1", "i:0")]));
}

#[test]
fn an_update_goes_down_to_the_partition() {
    let mut scene = Scene::new(3, "OrderedReady", 2);
    scene.settle();
    scene.change(&json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}}}));
    scene.settle();
    assert_eq!(scene.pods(), named(&[("db-0", "i:0"), ("db-1", "i:0"), ("db-2", "i:1")]));
    // A pod below the partition comes back as it was.
    scene.0.delete(&Address::new("", "pods", "a", "db-0"), &json!({})).unwrap();
    scene.settle();
    assert_eq!(scene.pods()[0].1, "i:0");
    scene.change(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}));
    scene.settle();
    assert!(scene.pods().iter().all(|(_, image)| image == "i:1"));
    assert_eq!(scene.told("DELETED"), ["db-2", "db-0", "db-1", "db-0"]);
    let status = &scene.0.list("statefulsets")[0]["status"];
    assert_eq!((&status["currentRevision"], &status["currentReplicas"]), (&status["updateRevision"], &json!(3)));
}

#[test]
fn a_failed_pod_is_made_anew_under_its_name() {
    let mut scene = Scene::new(1, "OrderedReady", 0);
    scene.settle();
    let place = Place { address: Address::new("", "pods", "a", "db-0"), subresource: "status".to_owned() };
    scene.0.patch(&place, PatchKind::Merge, &json!({"status": {"phase": "Failed"}})).unwrap();
    scene.pass();
    scene.0.delete(&Address::new("", "pods", "a", "db-0"), &json!({"gracePeriodSeconds": 0})).unwrap();
    scene.settle();
    assert_eq!(scene.told("ADDED"), ["db-0", "db-0"]);
}

#[test]
fn names_of_others_are_no_ordinals() {
    let set: StatefulSet = serde_json::from_value(set(1, "OrderedReady", 0)).unwrap();
    let ordinal =
        |name: &str| identity::ordinal(&set, &serde_json::from_value(json!({"metadata": {"name": name}})).unwrap());
    assert_eq!((ordinal("db-7"), ordinal("db-07"), ordinal("db-x"), ordinal("other-1")), (Some(7), None, None, None));
}
