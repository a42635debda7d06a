//! The published examples, created as `kubectl create -f` does: each at the path of its own version.

use std::collections::BTreeMap;

use quorate_api::codec::{self, FieldValidation};
use quorate_api::name::Gvk;
use quorate_api::resource::table;
use serde_json::{Value, json};

use crate::world::World;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");

/// Where an object of this version and kind is created in the namespace `a`.
fn path(version: &str, kind: &str) -> String {
    let gvk = Gvk::from_type_fields(version, kind).unwrap();
    let resource = table().by_kind(&gvk).unwrap_or_else(|| panic!("{gvk:?} is served"));
    let root = if gvk.group.is_empty() { "/api" } else { "/apis" };
    format!("{root}/{version}/namespaces/a/{}", resource.plural)
}

async fn world() -> World {
    let world = World::new().await;
    world.default_account("a").await;
    world
}

/// Creates all that a file holds; the warnings of each kind.
async fn create(world: &World, file: &str) -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(format!("{EXAMPLES}/{file}")).unwrap();
    let mut warnings = BTreeMap::new();
    for document in text.split("\n---\n") {
        let plain = codec::yaml::decode(document.as_bytes(), None, FieldValidation::Ignore).unwrap().value;
        let kind = plain["kind"].as_str().unwrap_or_default();
        let path = path(plain["apiVersion"].as_str().unwrap_or_default(), kind);
        let answer =
            world.call(http::Method::POST, &path, &[("content-type", "application/yaml")], document.to_owned());
        let answer = answer.await.expect(201);
        let said = answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned());
        warnings.insert(kind.to_owned(), said.collect());
    }
    warnings
}

#[tokio::test(start_paused = true)]
async fn every_example_is_created() {
    for entry in std::fs::read_dir(EXAMPLES).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        create(&world().await, &file).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_deployment_is_stored_as_todays() {
    let world = world().await;
    let warnings = create(&world, "deployment-extensions-v1beta1.yaml").await;
    assert_eq!(
        warnings["Deployment"],
        ["299 - \"extensions/v1beta1 Deployment is deprecated; use apps/v1 Deployment\""]
    );
    let stored = world.get("/apis/apps/v1/namespaces/a/deployments/nginx-deployment").await.expect(200);
    assert_eq!(stored.field("/apiVersion"), "apps/v1");
    assert_eq!(stored.field("/spec/selector/matchLabels"), stored.field("/spec/template/metadata/labels"));
    let old = world.get("/apis/extensions/v1beta1/namespaces/a/deployments/nginx-deployment").await.expect(200);
    assert_eq!(old.field("/apiVersion"), "extensions/v1beta1");
}

#[tokio::test(start_paused = true)]
async fn a_pet_set_is_a_stateful_set() {
    let world = world().await;
    create(&world, "petset.yaml").await;
    let stored = world.get("/apis/apps/v1/namespaces/a/statefulsets/web").await.expect(200);
    assert_eq!(stored.field("/kind"), "StatefulSet");
    assert_eq!(stored.field("/spec/podManagementPolicy"), "OrderedReady");
}

#[tokio::test(start_paused = true)]
async fn init_containers_of_an_annotation_are_fields() {
    let world = world().await;
    create(&world, "init-containers-annotation.yaml").await;
    let pods = world.get("/api/v1/namespaces/a/pods").await.expect(200);
    let init: Vec<Value> = pods.field("/items/0/spec/initContainers").as_array().cloned().unwrap_or_default();
    assert!(!init.is_empty());
    assert!(init.iter().all(|container| container["terminationMessagePath"] == json!("/dev/termination-log")));
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_of_an_annotation_is_a_field() {
    let world = world().await;
    create(&world, "multi-scheduler-annotation.yaml").await;
    let pods = world.get("/api/v1/namespaces/a/pods").await.expect(200);
    assert_eq!(pods.field("/items/0/spec/schedulerName"), "my-scheduler");
}
