//! Bodies in other encodings.

use http::Method;
use quorate_api::codec::protobuf;
use quorate_api::name::Gvk;
use quorate_api::schema;
use serde_json::json;

use crate::world::{CONFIG_MAPS, World};

#[tokio::test(start_paused = true)]
async fn protobuf_goes_in_and_out() {
    let world = World::new().await;
    let gvk = Gvk::new("", "v1", "ConfigMap");
    let schema = schema::for_gvk(&gvk).unwrap();
    let body = protobuf::encode(&gvk, schema, &json!({"metadata": {"name": "c"}, "data": {"k": "v"}})).unwrap();
    let headers =
        [("content-type", protobuf_type()), ("accept", "application/vnd.kubernetes.protobuf,application/json")];
    let created = world.call(Method::POST, CONFIG_MAPS, &headers, body).await.expect(201);
    assert_eq!(created.headers["content-type"], "application/json");
    assert_eq!(created.field("/data/k"), "v");
    let only =
        world.call(Method::GET, &format!("{CONFIG_MAPS}/c"), &[("accept", protobuf_type())], "").await.expect(200);
    assert_eq!(only.headers["content-type"], protobuf_type());
    let (read, value) = protobuf::decode(&only.body, None).unwrap();
    assert_eq!((read, &value["data"]["k"]), (gvk, &json!("v")));
    let broken = world.call(Method::POST, CONFIG_MAPS, &headers, &b"k8s\0\xff\xff"[..]).await;
    assert_eq!(broken.code, 400, "{}", broken.message());
}

fn protobuf_type() -> &'static str {
    "application/vnd.kubernetes.protobuf"
}

#[tokio::test(start_paused = true)]
async fn yaml_goes_in_and_out() {
    let world = World::new().await;
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  k: v\n";
    let headers = [("content-type", "application/yaml"), ("accept", "application/yaml")];
    let created = world.call(Method::POST, CONFIG_MAPS, &headers, body).await.expect(201);
    assert_eq!(created.headers["content-type"], "application/yaml");
    let text = String::from_utf8(created.body.to_vec()).unwrap();
    assert!(text.contains("k: v") && text.contains("kind: ConfigMap"), "{text}");
}
