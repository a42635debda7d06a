//! The service rules in the kernel: who answers, and as whom it sees the client.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::lab::{Namespace, Pod, Room, ask_tcp, ask_udp, eventually, udp_client};

const VIP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 50);
/// With three endpoints, the chance that one of them gets none of so many connections is below one in a million.
const MANY: usize = 36;

fn service(spec: Value) -> Value {
    let mut object = json!({
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"clusterIP": VIP.to_string(), "clusterIPs": [VIP.to_string()],
                 "ports": [{"name": "http", "port": 80, "targetPort": 8080},
                           {"name": "echo", "port": 80, "protocol": "UDP"}]},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

fn slice(endpoints: &[Value]) -> Value {
    json!({
        "metadata": {"namespace": "default", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}, {"name": "echo", "port": 8080, "protocol": "UDP"}],
        "endpoints": endpoints,
    })
}

fn publish(room: &Room, spec: Value, pods: &[&Pod]) {
    let endpoints: Vec<Value> = pods.iter().map(|pod| pod.endpoint()).collect();
    room.api.put("services", service(spec));
    room.api.put("endpointslices", slice(&endpoints));
}

fn reachable(from: &Namespace, address: Ipv4Addr, port: u16) {
    eventually("the service answers", || ask_tcp(from, address, port));
}

fn refused(from: &Namespace, address: Ipv4Addr, port: u16) {
    eventually("the connection is refused", || match ask_tcp(from, address, port) {
        Err(ErrorKind::ConnectionRefused) => Ok(()),
        other => Err(other),
    });
}

fn answering(from: &Namespace, address: Ipv4Addr, port: u16) -> BTreeSet<String> {
    (0..MANY).map(|_| ask_tcp(from, address, port).unwrap().0).collect()
}

fn names(pods: &[&Pod]) -> BTreeSet<String> {
    pods.iter().map(|pod| pod.name.clone()).collect()
}

#[test]
fn a_cluster_ip_spreads_over_all_endpoints_and_keeps_the_clients_address() {
    let room = Room::new();
    let (n1, n2) = (room.node(1), room.node(2));
    let (a, b, c, client) = (n1.pod("a"), n1.pod("b"), n2.pod("c"), n1.pod("client"));
    for pod in [&a, &b, &c] {
        pod.serve(8080);
    }
    publish(&room, json!({}), &[&a, &b, &c]);
    for from in [&client.namespace, &n1.namespace, &n2.namespace] {
        reachable(from, VIP, 80);
        assert_eq!(answering(from, VIP, 80), names(&[&a, &b, &c]));
    }
    assert_eq!(ask_tcp(&client.namespace, VIP, 80).unwrap().1, client.address.to_string());

    // One endpoint less: nobody is sent there any more, without a gap.
    publish(&room, json!({}), &[&a, &c]);
    eventually("b gets no more", || match answering(&client.namespace, VIP, 80) {
        seen if seen == names(&[&a, &c]) => Ok(()),
        seen => Err(seen),
    });
    // A port that the service does not have is refused, an address that no service has is silent.
    refused(&client.namespace, VIP, 81);
    refused(&n1.namespace, VIP, 81);
    assert_eq!(ask_tcp(&client.namespace, [10, 96, 9, 9], 80), Err(ErrorKind::TimedOut));
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    let room = Room::new();
    let n1 = room.node(1);
    let a = n1.pod("a");
    a.serve(8080);
    publish(&room, json!({}), &[&a]);
    reachable(&a.namespace, VIP, 80);
    let (name, seen) = ask_tcp(&a.namespace, VIP, 80).unwrap();
    assert_eq!(name, "a");
    assert_ne!(seen, a.address.to_string(), "a pod that sees itself as client answers itself directly");
}

#[test]
fn without_endpoints_a_service_refuses_and_recovers() {
    let room = Room::new();
    let n1 = room.node(1);
    let (a, client) = (n1.pod("a"), n1.pod("client"));
    a.serve(8080);
    publish(&room, json!({"type": "NodePort"}), &[]);
    refused(&client.namespace, VIP, 80);
    refused(&n1.namespace, VIP, 80);
    publish(&room, json!({}), &[&a]);
    reachable(&client.namespace, VIP, 80);
    publish(&room, json!({}), &[]);
    refused(&client.namespace, VIP, 80);
    room.api.delete("services", Some("default"), "web");
    eventually("the address is nobody's", || match ask_tcp(&client.namespace, VIP, 80) {
        Err(ErrorKind::TimedOut) => Ok(()),
        other => Err(other),
    });
}

#[test]
fn terminating_endpoints_serve_only_when_nobody_else_does() {
    let room = Room::new();
    let n1 = room.node(1);
    let (a, b, client) = (n1.pod("a"), n1.pod("b"), n1.pod("client"));
    a.serve(8080);
    b.serve(8080);
    let mut ending = b.endpoint();
    ending["conditions"] = json!({"ready": false, "serving": true, "terminating": true});
    room.api.put("services", service(json!({})));
    room.api.put("endpointslices", slice(&[a.endpoint(), ending.clone()]));
    reachable(&client.namespace, VIP, 80);
    assert_eq!(answering(&client.namespace, VIP, 80), names(&[&a]));
    room.api.put("endpointslices", slice(&[ending]));
    eventually("the last resort", || match ask_tcp(&client.namespace, VIP, 80) {
        Ok((name, _)) if name == "b" => Ok(()),
        other => Err(other),
    });
}

#[test]
fn affinity_keeps_a_client_on_its_endpoint_until_that_goes() {
    let room = Room::new();
    let mut n1 = room.node(1);
    let (a, b, c, client) = (n1.pod("a"), n1.pod("b"), n1.pod("c"), n1.pod("client"));
    for pod in [&a, &b, &c] {
        pod.serve(8080);
    }
    let sticky = json!({"sessionAffinity": "ClientIP"});
    publish(&room, sticky.clone(), &[&a, &b, &c]);
    reachable(&client.namespace, VIP, 80);
    let first = ask_tcp(&client.namespace, VIP, 80).unwrap().0;
    assert_eq!(answering(&client.namespace, VIP, 80), BTreeSet::from([first.clone()]));

    // The memory survives the agent.
    n1.restart(&room.api);
    n1.loaded();
    assert_eq!(answering(&client.namespace, VIP, 80), BTreeSet::from([first.clone()]));

    let rest: Vec<&Pod> = [&a, &b, &c].into_iter().filter(|pod| pod.name != first).collect();
    publish(&room, sticky, &rest);
    eventually("the client moves", || match ask_tcp(&client.namespace, VIP, 80) {
        Ok((name, _)) if name != first => Ok(()),
        other => Err(other),
    });
    let second = ask_tcp(&client.namespace, VIP, 80).unwrap().0;
    assert_eq!(answering(&client.namespace, VIP, 80), BTreeSet::from([second]));
}

#[test]
fn node_ports_work_on_every_node_from_outside() {
    let room = Room::new();
    let (n1, n2) = (room.node(1), room.node(2));
    let a = n1.pod("a");
    a.serve(8080);
    let ports = json!([{"name": "http", "port": 80, "nodePort": 30080}]);
    publish(&room, json!({"type": "NodePort", "ports": ports.clone()}), &[&a]);
    for node in [&n1, &n2] {
        reachable(&room.switch, node.address, 30080);
        let (name, seen) = ask_tcp(&room.switch, node.address, 30080).unwrap();
        assert_eq!((name.as_str(), seen), ("a", node.address.to_string()), "the answer must pass the node again");
    }
    // Policy Local: the client's own address, and only where an endpoint is.
    publish(&room, json!({"type": "NodePort", "ports": ports, "externalTrafficPolicy": "Local"}), &[&a]);
    eventually("the client's address is kept", || match ask_tcp(&room.switch, n1.address, 30080) {
        Ok((_, seen)) if seen == "172.31.0.1" => Ok(()),
        other => Err(other),
    });
    eventually("no endpoint here, no answer", || match ask_tcp(&room.switch, n2.address, 30080) {
        Err(ErrorKind::TimedOut) => Ok(()),
        other => Err(other),
    });
    let (name, _) = ask_tcp(&n2.namespace, n2.address, 30080).unwrap();
    assert_eq!(name, "a", "the node itself may go to any endpoint");
}

#[test]
fn external_addresses_lead_to_the_endpoints() {
    let room = Room::new();
    let n1 = room.node(1);
    let (a, client) = (n1.pod("a"), n1.pod("client"));
    a.serve(8080);
    let external = Ipv4Addr::new(192, 0, 2, 7);
    room.switch.ip(&["route", "add", "192.0.2.7", "via", &n1.address.to_string()]);
    publish(&room, json!({"externalIPs": [external.to_string()]}), &[&a]);
    reachable(&client.namespace, external, 80);
    reachable(&room.switch, external, 80);
}

#[test]
fn internal_policy_local_means_this_node_only() {
    let room = Room::new();
    let (n1, n2) = (room.node(1), room.node(2));
    let (a, b) = (n1.pod("a"), n2.pod("b"));
    let (near, far) = (n1.pod("near"), n2.pod("far"));
    a.serve(8080);
    b.serve(8080);
    let local = json!({"internalTrafficPolicy": "Local"});
    publish(&room, local.clone(), &[&a, &b]);
    reachable(&near.namespace, VIP, 80);
    reachable(&far.namespace, VIP, 80);
    assert_eq!(answering(&near.namespace, VIP, 80), names(&[&a]));
    assert_eq!(answering(&far.namespace, VIP, 80), names(&[&b]));
    publish(&room, local, &[&a]);
    eventually("no endpoint here, no answer", || match ask_tcp(&far.namespace, VIP, 80) {
        Err(ErrorKind::TimedOut) => Ok(()),
        other => Err(other),
    });
}

#[test]
fn a_udp_client_leaves_an_endpoint_that_went_away() {
    let room = Room::new();
    let n1 = room.node(1);
    let (a, b, client) = (n1.pod("a"), n1.pod("b"), n1.pod("client"));
    a.serve(8080);
    b.serve(8080);
    publish(&room, json!({}), &[&a]);
    let socket = udp_client(&client.namespace);
    eventually("the first answer", || match ask_udp(&socket, VIP, 80) {
        Ok((name, _)) if name == "a" => Ok(()),
        other => Err(other),
    });
    publish(&room, json!({}), &[&b]);
    eventually("the same flow moves", || match ask_udp(&socket, VIP, 80) {
        Ok((name, _)) if name == "b" => Ok(()),
        other => Err(other),
    });
}

#[test]
fn endpoints_made_by_hand_serve_without_a_slice() {
    let room = Room::new();
    let n1 = room.node(1);
    let (a, client) = (n1.pod("a"), n1.pod("client"));
    a.serve(8080);
    room.api.put("services", service(json!({"ports": [{"port": 80, "targetPort": 8080}]})));
    room.api.put(
        "endpoints",
        json!({"metadata": {"namespace": "default", "name": "web"},
               "subsets": [{"addresses": [{"ip": a.address.to_string()}], "ports": [{"port": 8080}]}]}),
    );
    reachable(&client.namespace, VIP, 80);
}

#[test]
fn a_restarted_agent_replaces_rules_of_another_version() {
    let room = Room::new();
    let mut n1 = room.node(1);
    let a = n1.pod("a");
    a.serve(8080);
    publish(&room, json!({}), &[&a]);
    reachable(&n1.namespace, VIP, 80);
    n1.stop();
    let foreign = "delete table ip quorate; add table ip quorate; add map ip quorate pools { type ipv4_addr : mark; }";
    crate::lab::run(&["ip", "netns", "exec", &n1.namespace.name, "nft", foreign]);
    assert!(ask_tcp(&n1.namespace, VIP, 80).is_err());
    n1.restart(&room.api);
    reachable(&n1.namespace, VIP, 80);
}
