//! Services: addresses and ports taken and given back in the service's own transaction.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use quorate_apiserver::bootstrap::Settings;
use serde_json::{Value, json};

use crate::identity::rooted_in;
use crate::world::{Answer, World};

const SERVICES: &str = "/api/v1/namespaces/a/services";
const DRY_RUN: &str = "/api/v1/namespaces/a/services?dryRun=All";

fn service(name: &str, spec: &Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        service["spec"][key] = value.clone();
    }
    service
}

async fn create(world: &World, name: &str, spec: &Value) -> Answer {
    world.post(SERVICES, &service(name, spec)).await
}

fn ip(answer: &Answer) -> Ipv4Addr {
    answer.field("/spec/clusterIP").as_str().unwrap_or_default().parse().unwrap()
}

fn node_port(answer: &Answer, index: usize) -> u64 {
    answer.field(&format!("/spec/ports/{index}/nodePort")).as_u64().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn services_created_at_once_get_addresses_of_their_own() {
    let world = World::new().await;
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let asked = names.iter().map(|name| async { ip(&create(&world, name, &json!({})).await.expect(201)) });
    let ips: BTreeSet<Ipv4Addr> = futures::future::join_all(asked).await.into_iter().collect();
    assert_eq!(ips.len(), 20);
    assert!(ips.iter().all(|ip| ip.octets()[..2] == [10, 96]), "{ips:?}");
}

#[tokio::test(start_paused = true)]
async fn an_address_has_one_holder_until_it_goes() {
    let world = World::new().await;
    let wanted = json!({"clusterIP": "10.96.0.77"});
    let dry = world.post(DRY_RUN, &service("one", &wanted)).await.expect(201);
    assert_eq!(dry.field("/spec/clusterIPs"), json!(["10.96.0.77"]));
    create(&world, "one", &wanted).await.expect(201);
    let held = create(&world, "two", &wanted).await.expect(422);
    assert_eq!(
        held.message(),
        "Service \"two\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.77\"]: failed to allocate IP \
         10.96.0.77: provided IP is already allocated"
    );
    let outside = create(&world, "two", &json!({"clusterIP": "10.1.0.1"})).await.expect(422);
    assert!(
        outside.message().contains("the provided network does not match the current range"),
        "{}",
        outside.message()
    );
    world.delete(&format!("{SERVICES}/one"), &Value::Null).await.expect(200);
    create(&world, "two", &wanted).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn a_service_without_need_of_an_address_gets_none() {
    let world = World::new().await;
    let headless = create(&world, "headless", &json!({"clusterIP": "None"})).await.expect(201);
    assert_eq!(headless.field("/spec/clusterIPs"), json!(["None"]));
    let external = json!({"type": "ExternalName", "externalName": "example.com"});
    let external = create(&world, "external", &external).await.expect(201);
    assert_eq!(external.field("/spec/clusterIP"), Value::Null);
    let path = format!("{SERVICES}/external");
    let back = world.merge(&path, &json!({"spec": {"type": "ClusterIP", "externalName": null}})).await.expect(200);
    assert_eq!(ip(&back).octets()[0], 10);
}

#[tokio::test(start_paused = true)]
async fn node_ports_follow_the_type() {
    let world = World::new().await;
    let both = json!({"type": "NodePort", "ports": [
        {"name": "t", "port": 53, "protocol": "TCP"}, {"name": "u", "port": 53, "protocol": "UDP"},
    ]});
    let both = create(&world, "both", &both).await.expect(201);
    assert!((30_000..=32_767).contains(&node_port(&both, 0)));
    assert_eq!(node_port(&both, 0), node_port(&both, 1), "one number for all protocols");
    let fixed = |port: u64| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    create(&world, "fixed", &fixed(30_080)).await.expect(201);
    let held = create(&world, "other", &fixed(30_080)).await.expect(422);
    assert_eq!(
        held.message(),
        "Service \"other\" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"
    );
    let outside = create(&world, "other", &fixed(80)).await.expect(422);
    assert!(outside.message().contains("The range of valid ports is 30000-32767"), "{}", outside.message());
    let inner = world.merge(&format!("{SERVICES}/fixed"), &json!({"spec": {"type": "ClusterIP"}})).await.expect(200);
    assert_eq!(inner.field("/spec/ports/0/nodePort"), Value::Null);
    create(&world, "other", &fixed(30_080)).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn an_update_keeps_what_the_client_leaves_out() {
    let world = World::new().await;
    let before = create(&world, "s", &json!({"type": "NodePort"})).await.expect(201);
    let path = format!("{SERVICES}/s");
    let after = world.put(&path, &service("s", &json!({"type": "NodePort", "sessionAffinity": "ClientIP"}))).await;
    let after = after.expect(200);
    assert_eq!(ip(&after), ip(&before));
    assert_eq!(node_port(&after, 0), node_port(&before, 0));
    let moved = world.merge(&path, &json!({"spec": {"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]}})).await;
    assert!(moved.expect(422).message().contains("may not change once set"));
}

#[tokio::test(start_paused = true)]
async fn addresses_are_of_the_network_that_was_asked_for() {
    let settings = Settings {
        service_cidr: "10.43.7.0/24".parse().unwrap(),
        cluster_dns: IpAddr::from([10, 43, 7, 10]),
        ..Settings::default()
    };
    let cluster = rooted_in(settings).await;
    let world = &cluster.world;
    let api = world.get("/api/v1/namespaces/default/services/kubernetes").await.expect(200);
    assert_eq!(api.field("/spec/clusterIP"), "10.43.7.1");
    let asking = |name: &str, ip: Option<&str>| json!({"metadata": {"name": name}, "spec": {"clusterIP": ip, "ports": [{"port": 80}]}});
    for index in 0..5 {
        let made = world.post(SERVICES, &asking(&format!("s{index}"), None)).await.expect(201);
        let ip = ip(&made);
        assert_eq!(ip.octets()[..3], [10, 43, 7]);
        assert!((17..=254).contains(&ip.octets()[3]), "{ip}");
    }
    let asked = world.post(SERVICES, &asking("asked", Some("10.43.7.200"))).await;
    assert!(matches!(asked.code, 201 | 422), "{}", asked.message());
    let foreign = world.post(SERVICES, &asking("foreign", Some("10.96.0.77"))).await.expect(422);
    let why = "failed to allocate IP 10.96.0.77: the provided network does not match the current range";
    assert!(foreign.message().ends_with(why), "{}", foreign.message());
}
