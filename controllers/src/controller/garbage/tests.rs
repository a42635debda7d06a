use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::action::{Action, Propagation};
use crate::resource::Kind;
use crate::testing::{Address, World};

fn item(uid: &str, owners: &[(&str, bool)], finalizers: &[&str], deleting: bool) -> Item {
    let owners: Vec<serde_json::Value> = owners
        .iter()
        .map(|(uid, blocks)| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "blockOwnerDeletion": blocks})
        })
        .collect();
    let mut metadata = json!({
        "name": uid, "namespace": "a", "uid": uid, "resourceVersion": "7",
        "ownerReferences": owners, "finalizers": finalizers,
    });
    if deleting {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
    Item::of(&Arc::new(Kind::ConfigMap.resource()), metadata).unwrap()
}

fn deletion(plan: &Plan) -> Option<Propagation> {
    plan.actions.iter().find_map(|action| match action {
        Action::Delete(delete) => delete.propagation,
        _ => None,
    })
}

#[test]
fn without_a_living_owner_it_goes() {
    let own = item("x", &[("gone", false)], &[], false);
    let planned = plan(&own, &[Owner::Gone], &[]);
    let [Action::Delete(delete)] = &planned.actions[..] else { panic!("{planned:?}") };
    assert_eq!((delete.uid.as_deref(), delete.resource_version.as_deref()), (Some("x"), Some("7")));
    assert_eq!(delete.propagation, Some(Propagation::Background));
}

#[test]
fn with_one_living_owner_it_stays_and_drops_the_others() {
    let own = item("x", &[("gone", false), ("here", false)], &[], false);
    assert_eq!(plan(&own, &[Owner::Lives, Owner::Lives], &[]), Plan::nothing());
    let planned = plan(&own, &[Owner::Gone, Owner::Lives], &[]);
    let [Action::Patch(patch)] = &planned.actions[..] else { panic!("{planned:?}") };
    let kept = patch.body["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!((kept.len(), &kept[0]["uid"]), (1, &json!("here")));
    assert_eq!(patch.body["metadata"]["resourceVersion"], "7");
}

#[test]
fn nobody_who_owns_nothing_is_touched() {
    assert_eq!(plan(&item("x", &[], &[], false), &[], &[]), Plan::nothing());
    assert_eq!(plan(&item("x", &[("o", false)], &[], true), &[Owner::Gone], &[]), Plan::nothing());
}

#[test]
fn foreground_waits_for_those_that_block() {
    let owner = item("o", &[], &["foregroundDeletion", "other"], true);
    assert_eq!(plan(&owner, &[], &[item("d", &[("o", true)], &[], false)]), Plan::nothing());
    let planned = plan(&owner, &[], &[item("d", &[("o", false)], &[], false)]);
    let [Action::Patch(patch)] = &planned.actions[..] else { panic!("{planned:?}") };
    assert_eq!(patch.body["metadata"]["finalizers"], json!(["other"]));
}

#[test]
fn a_dependent_of_a_waiting_owner_goes_with_its_own() {
    let own = item("x", &[("o", true)], &[], false);
    assert_eq!(deletion(&plan(&own, &[Owner::Waiting], &[])), Some(Propagation::Background));
    let below = item("y", &[("x", true)], &[], false);
    assert_eq!(deletion(&plan(&own, &[Owner::Waiting], &[below])), Some(Propagation::Foreground));
}

#[test]
fn a_cycle_is_cut() {
    let own = item("x", &[("y", true)], &[], false);
    let other = item("y", &[("x", true)], &["foregroundDeletion"], true);
    let planned = plan(&own, &[Owner::Waiting], &[other]);
    let [Action::Patch(patch), Action::Delete(_)] = &planned.actions[..] else { panic!("{planned:?}") };
    assert_eq!(patch.body["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], json!(false));
}

#[test]
fn an_owner_in_another_namespace_is_nobody() {
    let own = item("x", &[("o", false)], &[], false);
    let mut far = item("o", &[], &[], false);
    assert!(far.is_meant_by(&own, &own.owners[0]));
    far.key.namespace = Some("b".to_owned());
    assert!(!far.is_meant_by(&own, &own.owners[0]));
}

/// The graph and the plan against a world, without watches: every change is told at once.
struct Scene {
    world: World,
    graph: Graph,
    seen: usize,
    woken: BTreeSet<String>,
}

impl Scene {
    fn absorb(&mut self) {
        let resource = Arc::new(Kind::ConfigMap.resource());
        for record in &self.world.log[self.seen..] {
            let metadata: ObjectMeta = serde_json::from_value(record.object["metadata"].clone()).unwrap();
            let uid = metadata.uid.clone().unwrap();
            let woken = if record.kind == "DELETED" {
                self.graph.remove(&uid)
            } else {
                self.graph.put(Item::of(&resource, metadata).unwrap())
            };
            self.woken.extend(woken);
        }
        self.seen = self.world.log.len();
    }

    fn settle(&mut self) {
        for _ in 0..2000 {
            self.absorb();
            let Some(uid) = self.woken.pop_first() else { return };
            let Some(item) = self.graph.get(&uid).cloned() else { continue };
            let state = |own: &OwnerReference| match self.graph.get(&own.uid) {
                None => Owner::Gone,
                Some(owner) if owner.awaits_dependents() => Owner::Waiting,
                Some(_) => Owner::Lives,
            };
            let owners: Vec<Owner> = item.owners.iter().map(state).collect();
            for action in plan(&item, &owners, &self.graph.dependents(&uid)).actions {
                if self.world.perform(&action).is_err() {
                    self.woken.insert(uid.clone());
                    break;
                }
            }
        }
        panic!("the collector never rests");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_lives_is_what_a_living_root_reaches(
        edges in proptest::collection::vec((0..10_usize, 0..10_usize, any::<bool>()), 0..25),
        foreground in any::<bool>(),
    ) {
        let mut world = World::default();
        let uid = |index: usize| format!("uid-{}", index + 1);
        for index in 0..10 {
            // Only references to earlier objects: no cycle keeps itself alive.
            let owners: Vec<serde_json::Value> = edges
                .iter()
                .filter(|(own, owner, _)| *own == index && *owner < index)
                .map(|(_, owner, blocks)| json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "name": format!("o{owner}"), "uid": uid(*owner),
                    "blockOwnerDeletion": blocks,
                }))
                .collect();
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("o{index}"), "ownerReferences": owners},
            });
            world.create(Address::new("", "configmaps", "a", ""), object).unwrap();
        }
        let mut scene = Scene { world, graph: Graph::default(), seen: 0, woken: BTreeSet::new() };
        scene.settle();
        prop_assert_eq!(scene.world.objects.len(), 10, "nothing goes while all owners live");
        let policy = if foreground { json!({"propagationPolicy": "Foreground"}) } else { json!({}) };
        scene.world.delete(&Address::new("", "configmaps", "a", "o0"), &policy).unwrap();
        scene.settle();
        // An object lives if it had no owner, or if any of its owners lives.
        let mut lives = [false; 10];
        for index in 1..10 {
            let mut owners = edges.iter().filter(|(own, owner, _)| *own == index && *owner < index).peekable();
            lives[index] = owners.peek().is_none() || owners.any(|(_, owner, _)| lives[*owner]);
        }
        let expected: BTreeSet<String> = (0..10).filter(|index| lives[*index]).map(|index| format!("o{index}")).collect();
        let left: BTreeSet<String> = scene.world.objects.keys().map(|own| own.name.clone()).collect();
        prop_assert_eq!(left, expected);
    }
}
