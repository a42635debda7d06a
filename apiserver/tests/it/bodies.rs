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

/// The kind and object of a frame at the front of `stream`, which is taken off.
fn frame(stream: &mut Vec<u8>) -> (String, serde_json::Value) {
    let length = u32::from_be_bytes(stream[..4].try_into().unwrap()) as usize;
    let frame: Vec<u8> = stream.drain(..4 + length).skip(4).collect();
    // Both fields are length-delimited: the type, then the object around its raw bytes.
    let field = |bytes: &[u8], tag: u8| {
        assert_eq!(bytes[0], tag);
        let mut length = 0;
        let mut at = 1;
        loop {
            length |= usize::from(bytes[at] & 0x7f) << (7 * (at - 1));
            at += 1;
            if bytes[at - 1] & 0x80 == 0 {
                break;
            }
        }
        (bytes[at..at + length].to_vec(), bytes[at + length..].to_vec())
    };
    let (kind, rest) = field(&frame, 0x0a);
    let (object, rest) = field(&rest, 0x12);
    assert!(rest.is_empty());
    let (raw, _rest) = field(&object, 0x0a);
    (String::from_utf8(kind).unwrap(), protobuf::decode(&raw, None).unwrap().1)
}

#[tokio::test(start_paused = true)]
async fn a_watch_speaks_protobuf_to_those_who_want_nothing_else() {
    let world = World::new().await;
    let made = world.config_map("c", &json!({"k": "v"})).await.version();
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=5&allowWatchBookmarks=true");
    let answer = world.call(Method::GET, &path, &[("accept", protobuf_type())], "").await.expect(200);
    assert_eq!(answer.headers["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let mut stream = answer.body.to_vec();
    let (kind, object) = frame(&mut stream);
    assert_eq!((kind.as_str(), &object["data"]["k"]), ("ADDED", &json!("v")));
    assert_eq!(object["metadata"]["resourceVersion"], made);
    let (kind, object) = frame(&mut stream);
    assert_eq!((kind.as_str(), &object["metadata"]["resourceVersion"]), ("BOOKMARK", &json!(made)));
    assert!(stream.is_empty());

    let store = world.server.storage().store();
    world.config_map("d", &json!({})).await.expect(201);
    store.compact(store.head()).await.unwrap();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion=1");
    let mut stream = world.call(Method::GET, &path, &[("accept", protobuf_type())], "").await.expect(200).body.to_vec();
    let (kind, object) = frame(&mut stream);
    assert_eq!((kind.as_str(), &object["reason"]), ("ERROR", &json!("Expired")));
    world.call(Method::GET, &path, &[("accept", "application/yaml")], "").await.expect(406);
}
