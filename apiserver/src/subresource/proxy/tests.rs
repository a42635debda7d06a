use std::time::Duration;

use http_body_util::{BodyExt, Full};
use quorate_env::{Env, Scope};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::nodes::Nodes;

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

fn id(text: &str) -> Result<Id, String> {
    Id::parse(text, "service").map_err(|status| status.message)
}

#[test]
fn names_with_schemes_and_ports() {
    let plain = |name: &str, port: &str| Ok(Id { name: name.into(), port: port.into() });
    assert_eq!(id("s"), plain("s", ""));
    assert_eq!(id("s:80"), plain("s", "80"));
    assert_eq!(id("http:s:web"), plain("s", "web"));
    assert_eq!(id(":s:"), plain("s", ""));
    assert_eq!(id("ftp:s:1"), Err("invalid service request \"ftp:s:1\"".into()));
    assert_eq!(id(":80"), Err("invalid service request \":80\"".into()));
    assert_eq!(id("https:s:1"), Err("invalid service request \"https:s:1\": https is not supported".into()));
}

#[test]
fn nothing_leads_back_to_this_machine() {
    for address in ["", "name", "127.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "fe80::1", "::ffff:127.0.0.1"] {
        assert_eq!(allowed(address, 80).unwrap_err().message, "address not allowed", "{address}");
    }
    assert_eq!(allowed("10.244.1.2", 80).unwrap().address().to_string(), "10.244.1.2:80");
}

#[test]
fn pods_and_nodes_have_ports_of_their_own() {
    let containers = json!([{"name": "a"}, {"name": "b", "ports": [{"containerPort": 8080}]}]);
    let web =
        object(json!({"metadata": {"name": "p"}, "spec": {"containers": containers}, "status": {"podIP": "10.0.0.9"}}));
    assert_eq!(pod(&web, &id("p").unwrap()).unwrap().address().to_string(), "10.0.0.9:8080");
    assert_eq!(pod(&web, &id("p:81").unwrap()).unwrap().address().to_string(), "10.0.0.9:81");
    let status = json!({"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]});
    let n1 = object(json!({"metadata": {"name": "n1"}, "status": status}));
    let (own, transport) = node(&n1, &id("n1").unwrap()).unwrap();
    assert_eq!((own.address().port(), transport), (10250, Transport::Tls(Trust::Verified)));
    assert_eq!(node(&n1, &id("n1:9100").unwrap()).unwrap().1, Transport::Plain);
}

#[test]
fn services_lead_to_ready_endpoints() {
    let ports = json!([{"name": "web", "port": 80}, {"name": "admin", "port": 81}]);
    let service = object(json!({"metadata": {"name": "s"}, "spec": {"ports": ports}}));
    assert_eq!(port_name(&service, &id("s:81").unwrap()), Ok("admin".into()));
    assert_eq!(port_name(&service, &id("s:web").unwrap()), Ok("web".into()));
    let refused = port_name(&service, &id("s:82").unwrap()).unwrap_err();
    assert_eq!(refused.message, "no service port \"82\" found for service \"s\"");
    let slice = object(json!({
        "ports": [{"name": "admin", "port": 9001}, {"name": "web", "port": 9000}],
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
            {"addresses": ["10.0.0.3"]},
        ],
    }));
    let mut ready = Vec::new();
    collect(&slice, "web", &mut ready);
    assert_eq!(ready, [("10.0.0.1".to_owned(), 9000), ("10.0.0.3".to_owned(), 9000)]);
}

#[test]
fn identities_and_hops_stay_behind() {
    let mut from = http::HeaderMap::new();
    for (name, value) in [
        ("authorization", "Bearer x"),
        ("impersonate-user", "root"),
        ("x-remote-user", "root"),
        ("connection", "x-hop, upgrade"),
        ("x-hop", "1"),
        ("upgrade", "websocket"),
        ("accept", "a/b"),
        ("content-length", "5"),
        ("te", "trailers"),
    ] {
        from.insert(name, value.parse().unwrap());
    }
    let mut to = http::HeaderMap::new();
    headers::copy_request(&from, &mut to, false);
    assert_eq!(to.keys().map(http::HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    headers::copy_request(&from, &mut to, true);
    assert_eq!((&to["upgrade"], &to["connection"]), (&"websocket".parse().unwrap(), &"Upgrade".parse().unwrap()));
}

#[tokio::test]
async fn a_workload_is_spoken_to_in_the_clear() {
    let (env, scope) = (Env::real(), Scope::root("test"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::at(listener.local_addr().unwrap());
    let nodes = Nodes::new(None, env.clone(), &scope, scope.token()).unwrap();
    let (asked, question) = tokio::sync::oneshot::channel();
    scope.spawn_until_cancelled("workload", async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"ping") {
            text.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\npong").await.unwrap();
        asked.send(String::from_utf8(text).unwrap()).unwrap();
    });
    let request = Request::builder().method("POST").uri("/x?y=1").header(HOST, "w").body(Full::from("ping")).unwrap();
    let sending = env.clock.timeout(Duration::from_secs(60), nodes.send(&endpoint, request, Transport::Plain));
    let answer = sending.await.unwrap().unwrap();
    assert_eq!(answer.response.status(), 201);
    assert_eq!(answer.response.into_body().collect().await.unwrap().to_bytes(), "pong");
    assert!(question.await.unwrap().starts_with("POST /x?y=1 HTTP/1.1\r\n"));
    let refused = nodes.send(&endpoint, Request::new(Full::from("")), Transport::Tls(Trust::Verified)).await;
    assert_eq!(refused.unwrap_err().to_string(), "this server has no certificate to show to nodes");
    scope.cancel();
}
