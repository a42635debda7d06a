//! Create, get, update and patch, and the shapes of their refusals.

use http::Method;
use serde_json::{Value, json};

use crate::world::{CONFIG_MAPS, World};

#[tokio::test(start_paused = true)]
async fn a_created_object_comes_back_whole() {
    let world = World::new().await;
    let created = world.config_map("c", &json!({"k": "v"})).await;
    insta::assert_snapshot!("created", created.golden());
    let got = world.get(&format!("{CONFIG_MAPS}/c")).await;
    assert_eq!((got.code, got.json()), (200, created.json()));
    assert_eq!(got.headers["content-type"], "application/json");
    assert!(got.headers.contains_key("audit-id"));
}

#[tokio::test(start_paused = true)]
async fn refusals_are_statuses() {
    let world = World::new().await;
    world.config_map("c", &Value::Null).await.expect(201);
    let config_map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let mut seen = Vec::new();
    let mut note = |what: &str, answer: crate::world::Answer| seen.push(format!("# {what}\n{}", answer.golden()));
    note("not found", world.get(&format!("{CONFIG_MAPS}/absent")).await);
    note("already exists", world.post(CONFIG_MAPS, &config_map("c")).await);
    note("invalid name", world.post(CONFIG_MAPS, &config_map("Not a name")).await);
    note("no such namespace", world.post("/api/v1/namespaces/nowhere/configmaps", &config_map("x")).await);
    note("unknown resource", world.get("/api/v1/namespaces/a/wonders").await);
    note("unknown path", world.get("/nothing/here").await);
    note("wrong kind", world.post(CONFIG_MAPS, &json!({"apiVersion": "v1", "kind": "Secret"})).await);
    note("wrong version", world.post(CONFIG_MAPS, &json!({"apiVersion": "apps/v1", "kind": "ConfigMap"})).await);
    let mut elsewhere = config_map("x");
    elsewhere["metadata"]["namespace"] = "b".into();
    note("other namespace", world.post(CONFIG_MAPS, &elsewhere).await);
    note("wrong method", world.call(Method::POST, &format!("{CONFIG_MAPS}/c"), &[], "{}").await);
    note("not JSON", world.call(Method::POST, CONFIG_MAPS, &[], "{oops").await);
    note("unknown content type", world.call(Method::POST, CONFIG_MAPS, &[("content-type", "text/csv")], "a,b").await);
    note("not acceptable", world.call(Method::GET, CONFIG_MAPS, &[("accept", "text/html")], "").await);
    note("apply", world.patch(&format!("{CONFIG_MAPS}/c"), "application/apply-patch+yaml", &json!({})).await);
    note("unknown patch", world.patch(&format!("{CONFIG_MAPS}/c"), "text/plain", &json!({})).await);
    note("bad option", world.post(&format!("{CONFIG_MAPS}?dryRun=Some"), &config_map("x")).await);
    insta::assert_snapshot!("refusals", seen.join("\n\n"));
}

#[tokio::test(start_paused = true)]
async fn a_body_over_the_limit_is_413() {
    let world = World::new().await;
    let answer = world.config_map("big", &json!({"k": "x".repeat(3 << 20)})).await.expect(413);
    assert_eq!(answer.field("/reason"), "RequestEntityTooLarge");
}

#[tokio::test(start_paused = true)]
async fn updates_compare_versions_and_write_only_changes() {
    let world = World::new().await;
    let path = format!("{CONFIG_MAPS}/c");
    let first = world.config_map("c", &json!({"k": "1"})).await.json();
    let same = world.put(&path, &first).await.expect(200);
    assert_eq!(same.json(), first, "an update without change takes no revision");
    let mut changed = first.clone();
    changed["data"]["k"] = "2".into();
    let second = world.put(&path, &changed).await.expect(200);
    assert_ne!(second.version(), first["metadata"]["resourceVersion"].as_str().unwrap());
    let conflict = world.put(&path, &changed).await;
    insta::assert_snapshot!("conflict", conflict.golden());
    changed["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    changed["data"]["k"] = "3".into();
    assert_eq!(world.put(&path, &changed).await.expect(200).field("/data/k"), "3");
    changed["metadata"]["uid"] = "another".into();
    assert_eq!(world.put(&path, &changed).await.expect(409).field("/reason"), "Conflict");
    changed["metadata"]["name"] = "d".into();
    assert_eq!(
        world.put(&path, &changed).await.expect(400).message(),
        "the name of the object (d) does not match the name on the URL (c)"
    );
}

#[tokio::test(start_paused = true)]
async fn patches_in_three_languages() {
    let world = World::new().await;
    let path = format!("{CONFIG_MAPS}/c");
    world.config_map("c", &json!({"a": "1", "b": "1"})).await.expect(201);
    let merged = world.merge(&path, &json!({"data": {"a": null, "c": "2"}})).await.expect(200);
    assert_eq!(merged.field("/data"), json!({"b": "1", "c": "2"}));
    let operations = json!([
        {"op": "test", "path": "/data/b", "value": "1"},
        {"op": "replace", "path": "/data/b", "value": "3"},
    ]);
    let patched = world.patch(&path, "application/json-patch+json", &operations).await.expect(200);
    assert_eq!(patched.field("/data/b"), "3");
    let failed = world.patch(&path, "application/json-patch+json", &operations).await;
    assert_eq!(
        (failed.code, failed.message().as_str()),
        (422, "the server rejected our request due to an error in our request")
    );
    let forced =
        world.patch(&format!("{path}?force=true"), "application/json-patch+json", &json!([])).await.expect(422);
    assert!(forced.message().ends_with("force: Forbidden: may not be specified for non-apply patch"));
    let strategic = json!({"metadata": {"finalizers": ["example.com/x"]}, "data": {"d": "4"}});
    let patched = world.patch(&path, "application/strategic-merge-patch+json", &strategic).await.expect(200);
    assert_eq!(patched.field("/data"), json!({"b": "3", "c": "2", "d": "4"}));
    let stale = json!({"metadata": {"resourceVersion": merged.version()}, "data": {"e": "5"}});
    assert_eq!(world.merge(&path, &stale).await.expect(409).field("/reason"), "Conflict");
    assert_eq!(world.merge(&path, &json!({"metadata": {"name": "d"}})).await.code, 422);
}

/// kubectl patches old kinds as it patches today's.
#[tokio::test(start_paused = true)]
async fn a_kind_under_its_old_name_is_patched_by_the_new_ones_fields() {
    let world = World::new().await;
    let path = "/apis/apps/v1alpha1/namespaces/a/petsets";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let set = json!({"metadata": {"name": "p"}, "spec": {"serviceName": "s", "template": template}});
    world.post(path, &set).await.expect(201);
    let change = json!({"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "j"}]}}}});
    let patched =
        world.patch(&format!("{path}/p"), "application/strategic-merge-patch+json", &change).await.expect(200);
    assert_eq!(patched.field("/spec/template/spec/containers").as_array().unwrap().len(), 2);
    assert_eq!(patched.field("/kind"), "PetSet");
}

#[tokio::test(start_paused = true)]
async fn concurrent_patches_all_count() {
    let world = World::new().await;
    world.config_map("c", &json!({"seed": "0"})).await.expect(201);
    let path = format!("{CONFIG_MAPS}/c");
    let writers = (0..4).map(|writer| {
        let (world, path) = (&world, &path);
        async move {
            for round in 0..5 {
                let key = format!("k{writer}-{round}");
                world.merge(path, &json!({"data": {key: "x"}})).await.expect(200);
            }
        }
    });
    futures::future::join_all(writers).await;
    let data = world.get(&path).await.field("/data");
    assert_eq!(data.as_object().unwrap().len(), 21);
}

#[tokio::test(start_paused = true)]
async fn names_are_generated() {
    let world = World::new().await;
    let object = json!({"metadata": {"generateName": "run-"}});
    let first = world.post(CONFIG_MAPS, &object).await.expect(201).field("/metadata/name");
    let second = world.post(CONFIG_MAPS, &object).await.expect(201).field("/metadata/name");
    assert_ne!(first, second);
    assert!(first.as_str().unwrap().starts_with("run-") && first.as_str().unwrap().len() == 9, "{first}");
}

#[tokio::test(start_paused = true)]
async fn dry_run_writes_nothing() {
    let world = World::new().await;
    let object = json!({"metadata": {"name": "c"}, "data": {"k": "v"}});
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    let made = world.post(&dry, &object).await.expect(201);
    assert_eq!((made.field("/data/k"), made.version()), (json!("v"), String::new()));
    world.get(&format!("{CONFIG_MAPS}/c")).await.expect(404);
    world.post(CONFIG_MAPS, &object).await.expect(201);
    world.post(&dry, &object).await.expect(409);
    let patched = world.merge(&format!("{CONFIG_MAPS}/c?dryRun=All"), &json!({"data": {"k": "w"}})).await.expect(200);
    assert_eq!(patched.field("/data/k"), "w");
    let deleted = world.delete(&format!("{CONFIG_MAPS}/c?dryRun=All"), &Value::Null).await.expect(200);
    assert_eq!(deleted.field("/status"), "Success");
    assert_eq!(world.get(&format!("{CONFIG_MAPS}/c")).await.expect(200).field("/data/k"), "v");
}

#[tokio::test(start_paused = true)]
async fn status_is_another_door() {
    let world = World::new().await;
    let path = "/apis/apps/v1/namespaces/a/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template},
        "status": {"replicas": 9},
    });
    let created = world.post(path, &deployment).await.expect(201);
    assert_ne!(created.field("/status/replicas"), 9, "a create has no status");
    let door = format!("{path}/d/status");
    let change = json!({"metadata": {"annotations": {"x": "y"}}, "spec": {"replicas": 7}, "status": {"replicas": 5}});
    let after = world.merge(&door, &change).await.expect(200);
    assert_eq!((after.field("/spec/replicas"), after.field("/status/replicas")), (json!(2), json!(5)));
    assert_eq!(after.field("/metadata/annotations/x"), "y");
    let main = world
        .merge(&format!("{path}/d"), &json!({"spec": {"replicas": 3}, "status": {"replicas": 1}}))
        .await
        .expect(200);
    assert_eq!((main.field("/spec/replicas"), main.field("/status/replicas")), (json!(3), json!(5)));
    let scale = world.get(&format!("{path}/d/scale")).await.expect(200);
    insta::assert_snapshot!("scale", scale.golden());
    let scaled = world.merge(&format!("{path}/d/scale"), &json!({"spec": {"replicas": 4}})).await.expect(200);
    assert_eq!(scaled.field("/spec/replicas"), 4);
    let negative = world.merge(&format!("{path}/d/scale"), &json!({"spec": {"replicas": -1}})).await.expect(422);
    assert_eq!(negative.field("/details/causes/0/field"), "spec.replicas");
    assert_eq!(world.get(&format!("{path}/d")).await.field("/spec/replicas"), 4);
}

#[tokio::test(start_paused = true)]
async fn some_kinds_are_created_by_put() {
    let world = World::new().await;
    let cases = [
        ("endpoints", json!({"metadata": {"name": "x"}}), 201),
        ("limitranges", json!({"metadata": {"name": "x"}, "spec": {"limits": []}}), 201),
        ("services", json!({"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}}), 201),
        ("configmaps", json!({"metadata": {"name": "x"}}), 404),
    ];
    for (plural, object, code) in cases {
        world.put(&format!("/api/v1/namespaces/a/{plural}/x"), &object).await.expect(code);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_uses_a_kind_on_its_way_out_is_told() {
    let world = World::new().await;
    let old = world.get("/api/v1/namespaces/a/endpoints").await.expect(200);
    let text = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
    assert_eq!(old.headers["warning"], format!("299 - {text:?}"));
    let older = world.get("/apis/extensions/v1beta1/namespaces/a/deployments/x").await.expect(404);
    assert!(older.headers["warning"].to_str().unwrap().contains("use apps/v1 Deployment"));
    assert!(!world.get(CONFIG_MAPS).await.headers.contains_key("warning"));
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_refused_before_it_is_done() {
    let world = World::new().await;
    let path = "/apis/apps/v1/namespaces/a/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    world.post(path, &json!({"metadata": {"name": "d"}, "spec": spec})).await.expect(201);
    let door = format!("{path}/d/scale");
    let headers = [("content-type", "application/merge-patch+json"), ("accept", "text/html")];
    let change = json!({"spec": {"replicas": 3}}).to_string();
    world.call(Method::PATCH, &door, &headers, change).await.expect(406);
    let odd = json!({"spec": {"replicas": 3, "replica": 4}});
    let strict = world.merge(&format!("{door}?fieldValidation=Strict"), &odd).await.expect(400);
    assert!(strict.message().contains("unknown field \"spec.replica\""), "{}", strict.message());
    let elsewhere = json!({"metadata": {"name": "d", "namespace": "b"}, "spec": {"replicas": 3}});
    assert_eq!(
        world.put(&door, &elsewhere).await.expect(400).message(),
        "the namespace of the object (b) does not match the namespace on the request (a)"
    );
    assert_eq!(world.get(&format!("{path}/d")).await.field("/spec/replicas"), 1);
    let warned = world.merge(&door, &odd).await.expect(200);
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"spec.replica\\\"\"");
    assert_eq!(warned.field("/spec/replicas"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_updated_by_version_only() {
    let world = World::new().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/a/leases";
    world.post(leases, &json!({"metadata": {"name": "l"}})).await.expect(201);
    let refused = world.put(&format!("{leases}/l"), &json!({"metadata": {"name": "l"}})).await.expect(422);
    assert_eq!(
        refused.message(),
        "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
}

/// The same, however it is spelled: nothing is written, and nobody is told of a change.
#[tokio::test(start_paused = true)]
async fn another_spelling_is_no_change() {
    let world = World::new().await;
    let path = "/apis/apps/v1/namespaces/a/deployments";
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
    let deployment =
        json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let created = world.post(path, &deployment).await.expect(201);
    let mut spelled = created.json();
    spelled["spec"]["paused"] = json!(false);
    spelled["spec"]["minReadySeconds"] = json!(0);
    spelled["spec"]["template"]["spec"]["volumes"] = json!([]);
    spelled["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1000m");
    let put = world.put(&format!("{path}/d"), &spelled).await.expect(200);
    assert_eq!(put.json(), created.json());
}

#[tokio::test(start_paused = true)]
async fn generations_count_what_counts_for_the_kind() {
    let world = World::new().await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let note = json!({"metadata": {"annotations": {"x": "y"}}});
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    for (plural, by_note) in [("deployments", 2), ("replicasets", 1)] {
        let path = format!("/apis/apps/v1/namespaces/a/{plural}");
        world.post(&path, &json!({"metadata": {"name": "d"}, "spec": spec})).await.expect(201);
        let noted = world.merge(&format!("{path}/d"), &note).await.expect(200);
        assert_eq!(noted.field("/metadata/generation"), by_note, "{plural}");
        let labelled = world.merge(&format!("{path}/d"), &label).await.expect(200);
        assert_eq!(labelled.field("/metadata/generation"), by_note, "{plural}");
    }
    let slices = "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices";
    world.post(slices, &json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": []})).await.expect(201);
    let labelled = world.merge(&format!("{slices}/s"), &label).await.expect(200);
    assert_eq!(labelled.field("/metadata/generation"), 2);
    let noted = world.merge(&format!("{slices}/s"), &note).await.expect(200);
    assert_eq!(noted.field("/metadata/generation"), 2);
}

/// What `/status` lets through of metadata differs by kind: deployments keep labels, pods keep owners.
#[tokio::test(start_paused = true)]
async fn status_keeps_what_the_kind_keeps() {
    let world = World::new().await;
    world.default_account("a").await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}]);
    let change = json!({"metadata": {"labels": {"x": "y"}, "ownerReferences": owner}});
    let kinds = [
        ("/apis/apps/v1/namespaces/a/deployments", spec.clone(), Value::Null, owner.clone()),
        ("/apis/apps/v1/namespaces/a/replicasets", spec, json!({"x": "y"}), owner.clone()),
        ("/api/v1/namespaces/a/pods", template["spec"].clone(), json!({"x": "y"}), Value::Null),
    ];
    for (path, spec, labels, owners) in kinds {
        world.post(path, &json!({"metadata": {"name": "d"}, "spec": spec})).await.expect(201);
        let after = world.merge(&format!("{path}/d/status"), &change).await.expect(200);
        assert_eq!(
            (after.field("/metadata/labels"), after.field("/metadata/ownerReferences")),
            (labels, owners),
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_warn_or_refuse() {
    let world = World::new().await;
    let object = json!({"metadata": {"name": "c"}, "dada": {}});
    let warned = world.post(CONFIG_MAPS, &object).await.expect(201);
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"dada\\\"\"");
    let strict = world.post(&format!("{CONFIG_MAPS}?fieldValidation=Strict"), &object).await.expect(400);
    assert!(strict.message().contains("unknown field \"dada\""), "{}", strict.message());
}
