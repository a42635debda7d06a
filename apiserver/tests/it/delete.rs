//! Deleting: at once, held by finalizers, in collections.

use http::Method;
use serde_json::{Value, json};

use crate::world::{CONFIG_MAPS, World};

#[tokio::test(start_paused = true)]
async fn a_plain_delete_answers_a_status() {
    let world = World::new().await;
    world.config_map("c", &json!({})).await.expect(201);
    let path = format!("{CONFIG_MAPS}/c");
    insta::assert_snapshot!("deleted", world.delete(&path, &Value::Null).await.golden());
    world.delete(&path, &Value::Null).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn preconditions_hold() {
    let world = World::new().await;
    let created = world.config_map("c", &json!({})).await;
    let path = format!("{CONFIG_MAPS}/c");
    let wrong = world.delete(&path, &json!({"preconditions": {"uid": "other"}})).await.expect(409);
    assert!(wrong.message().contains("the UID in the precondition (other)"), "{}", wrong.message());
    world.delete(&path, &json!({"preconditions": {"resourceVersion": "1"}})).await.expect(409);
    let right = json!({"preconditions": {"uid": created.field("/metadata/uid"), "resourceVersion": created.version()}});
    world.delete(&path, &right).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let world = World::new().await;
    let object = json!({"metadata": {"name": "c", "finalizers": ["example.com/a", "example.com/b"]}});
    world.post(CONFIG_MAPS, &object).await.expect(201);
    let path = format!("{CONFIG_MAPS}/c");
    let marked = world.delete(&path, &Value::Null).await.expect(200);
    assert_eq!(marked.field("/metadata/deletionTimestamp"), "2026-01-01T00:00:00Z");
    assert_eq!(marked.field("/metadata/deletionGracePeriodSeconds"), 0);
    let version = world.get(&path).await.version();
    let again = world.delete(&path, &Value::Null).await.expect(200);
    assert_eq!((again.field("/kind"), again.field("/metadata/name")), (json!("ConfigMap"), json!("c")));
    assert_eq!(world.get(&path).await.version(), version, "a second delete changes nothing");
    world.delete(&path, &json!({"orphanDependents": false})).await.expect(202);
    let more = world
        .merge(&path, &json!({"metadata": {"finalizers": ["example.com/a", "example.com/b", "example.com/c"]}}))
        .await;
    assert_eq!(more.code, 422, "{}", more.message());
    world.merge(&path, &json!({"metadata": {"finalizers": ["example.com/b"]}})).await.expect(200);
    let last = world.merge(&path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(last.field("/metadata/finalizers"), Value::Null);
    world.get(&path).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn propagation_is_a_finalizer() {
    let world = World::new().await;
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        world.config_map("c", &json!({})).await.expect(201);
        let path = format!("{CONFIG_MAPS}/c");
        let marked = world.delete(&path, &json!({"propagationPolicy": policy})).await.expect(200);
        assert_eq!(marked.field("/metadata/finalizers"), json!([finalizer]), "{policy}");
        world.merge(&path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    }
    world.config_map("c", &json!({})).await.expect(201);
    world.delete(&format!("{CONFIG_MAPS}/c"), &json!({"propagationPolicy": "Background"})).await.expect(200);
    world.get(&format!("{CONFIG_MAPS}/c")).await.expect(404);
    world.delete(&format!("{CONFIG_MAPS}/c?propagationPolicy=Sideways"), &Value::Null).await.expect(422);
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_by_selector() {
    let world = World::new().await;
    for (name, colour) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let object = json!({"metadata": {"name": name, "labels": {"colour": colour}}});
        world.post(CONFIG_MAPS, &object).await.expect(201);
    }
    let deleted =
        world.call(Method::DELETE, &format!("{CONFIG_MAPS}?labelSelector=colour%3Dred"), &[], "").await.expect(200);
    assert_eq!(deleted.field("/kind"), "ConfigMapList");
    assert_eq!(deleted.field("/items").as_array().unwrap().len(), 2);
    let left = world.get(CONFIG_MAPS).await;
    assert_eq!(left.field("/items").as_array().unwrap().len(), 1);
    world.call(Method::DELETE, CONFIG_MAPS, &[], "").await.expect(200);
    assert_eq!(world.get(CONFIG_MAPS).await.field("/items"), json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_limit_holds_for_deletes_too() {
    let world = World::new().await;
    for name in ["a", "b", "c", "d", "e"] {
        let object = json!({"metadata": {"name": name, "labels": {"odd": (name != "b").to_string()}}});
        world.post(CONFIG_MAPS, &object).await.expect(201);
    }
    let names = |answer: &crate::world::Answer| -> Vec<String> {
        let items = answer.field("/items");
        items.as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let path = format!("{CONFIG_MAPS}?labelSelector=odd%3Dtrue&limit=2");
    let first = world.call(Method::DELETE, &path, &[], "").await.expect(200);
    assert_eq!(names(&first), ["a", "c"]);
    assert_eq!(names(&world.get(CONFIG_MAPS).await), ["b", "d", "e"]);
    let token = first.field("/metadata/continue").as_str().unwrap().to_owned();
    let second = world.call(Method::DELETE, &format!("{path}&continue={token}"), &[], "").await.expect(200);
    assert_eq!((names(&second), second.field("/metadata/continue")), (vec!["d".into(), "e".into()], Value::Null));
    assert_eq!(names(&world.get(CONFIG_MAPS).await), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn one_refusal_does_not_cut_the_deletes_beside_it() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        world.config_map(name, &json!({})).await.expect(201);
    }
    let uid = world.get(&format!("{CONFIG_MAPS}/b")).await.field("/metadata/uid");
    let refused = world.delete(CONFIG_MAPS, &json!({"preconditions": {"uid": uid}})).await.expect(409);
    assert!(refused.message().contains("does not match the UID in record"), "{}", refused.message());
    world.get(&format!("{CONFIG_MAPS}/b")).await.expect(404);
}

/// What becomes of dependents when nobody says is the kind's and its version's to say.
#[tokio::test(start_paused = true)]
async fn the_first_versions_orphan() {
    let world = World::new().await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selected = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let job = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    let cases = [
        ("/api/v1/namespaces/a/replicationcontrollers", json!({"template": template}), true),
        ("/apis/batch/v1/namespaces/a/jobs", job, true),
        ("/apis/apps/v1/namespaces/a/replicasets", selected.clone(), false),
        ("/apis/extensions/v1beta1/namespaces/a/deployments", selected, true),
    ];
    for (path, spec, orphans) in cases {
        world.post(path, &json!({"metadata": {"name": "x"}, "spec": spec})).await.expect(201);
        let answer = world.delete(&format!("{path}/x"), &Value::Null).await.expect(200);
        let expected = if orphans { json!(["orphan"]) } else { Value::Null };
        assert_eq!(answer.field("/metadata/finalizers"), expected, "{path}");
    }
    let events = "/api/v1/namespaces/a/events";
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "a"}, "type": "Normal"});
    world.post(events, &event).await.expect(201);
    world.delete(&format!("{events}/e"), &json!({"propagationPolicy": "Foreground"})).await.expect(200);
    world.get(&format!("{events}/e")).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn an_option_that_is_null_is_not_given() {
    let world = World::new().await;
    world.config_map("c", &json!({})).await.expect(201);
    let nulls =
        json!({"dryRun": null, "gracePeriodSeconds": null, "preconditions": {"uid": null}, "propagationPolicy": null});
    world.delete(&format!("{CONFIG_MAPS}/c"), &nulls).await.expect(200);
    world.get(&format!("{CONFIG_MAPS}/c")).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_given_no_grace() {
    let world = World::new().await;
    let going = world.delete("/api/v1/namespaces/a", &Value::Null).await.expect(200);
    assert_eq!(going.field("/status/phase"), "Terminating");
    assert_ne!(going.field("/metadata/deletionTimestamp"), Value::Null);
    assert_eq!(going.field("/metadata/deletionGracePeriodSeconds"), Value::Null);
    let again = world.delete("/api/v1/namespaces/a", &Value::Null).await.expect(200);
    assert_eq!(again.field("/kind"), "Namespace");
}
