//! Tables and partial objects.

use http::Method;
use serde_json::json;

use crate::world::{CONFIG_MAPS, World};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

#[tokio::test(start_paused = true)]
async fn tables_and_partial_objects() {
    let world = World::new().await;
    world.config_map("one", &json!({"k": "v"})).await.expect(201);
    world.config_map("two", &json!({})).await.expect(201);
    tokio::time::advance(std::time::Duration::from_secs(200)).await;
    let table = world.call(Method::GET, CONFIG_MAPS, &[("accept", TABLE)], "").await;
    insta::assert_snapshot!("table", table.golden());
    let partial = world.call(Method::GET, &format!("{CONFIG_MAPS}/one"), &[("accept", PARTIAL)], "").await;
    insta::assert_snapshot!("partial", partial.golden());
    let list = world.call(Method::GET, CONFIG_MAPS, &[("accept", PARTIAL_LIST)], "").await.expect(200);
    assert_eq!(list.field("/kind"), "PartialObjectMetadataList");
    assert_eq!(list.field("/items/1/metadata/name"), "two");
    assert_eq!(list.field("/items/1/data"), serde_json::Value::Null);
}

#[tokio::test(start_paused = true)]
async fn rows_carry_what_was_asked_for() {
    let world = World::new().await;
    world.config_map("one", &json!({"k": "v"})).await.expect(201);
    for (include, kind) in
        [("None", json!(null)), ("Metadata", json!("PartialObjectMetadata")), ("Object", json!("ConfigMap"))]
    {
        let path = format!("{CONFIG_MAPS}?includeObject={include}");
        let table = world.call(Method::GET, &path, &[("accept", TABLE)], "").await.expect(200);
        assert_eq!(table.field("/rows/0/object/kind"), kind, "{include}");
    }
}
