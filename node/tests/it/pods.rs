//! Cables and routes: what a runtime does with the CNI plugin, and who reaches whom.

use serde_json::json;

use crate::lab::{Namespace, Room, ask_tcp, eventually, serve};

#[test]
fn pods_of_one_node_and_of_two_reach_each_other_with_their_own_addresses() {
    let room = Room::new();
    let (n1, n2) = (room.node(1), room.node(2));
    let (a, b, c) = (n1.pod("a"), n1.pod("b"), n2.pod("c"));
    for pod in [&a, &b, &c] {
        pod.serve(8080);
    }
    for (from, to) in [(&a, &b), (&b, &a), (&a, &c), (&c, &a), (&b, &c)] {
        let (name, seen) = eventually("pod to pod", || ask_tcp(&from.namespace, to.address, 8080));
        assert_eq!((name, seen), (to.name.clone(), from.address.to_string()));
    }
    // The node itself, for probes: with its own address, not with that of DNS on its loopback interface.
    let (name, seen) = ask_tcp(&n1.namespace, a.address, 8080).unwrap();
    assert_eq!((name.as_str(), seen), ("a", n1.address.to_string()));
    let (_, seen) = ask_tcp(&n1.namespace, c.address, 8080).unwrap();
    assert_eq!(seen, n1.address.to_string());
}

#[test]
fn a_pod_has_a_host_route_a_neighbour_and_the_uplinks_mtu() {
    let room = Room::new();
    let n1 = room.node(1);
    let a = n1.pod("a");
    let routes = a.namespace.ip(&["route"]);
    assert!(routes.contains("default via 169.254.1.1 dev eth0"), "{routes}");
    assert!(routes.contains("169.254.1.1 dev eth0 proto static scope link"), "{routes}");
    let neighbours = a.namespace.ip(&["neigh"]);
    assert!(neighbours.contains("169.254.1.1 dev eth0 lladdr ee:ee:ee:ee:ee:ee PERMANENT"), "{neighbours}");
    let link = a.namespace.ip(&["addr", "show", "dev", "eth0"]);
    assert!(link.contains("mtu 1400") && link.contains(&format!("inet {}/32", a.address)), "{link}");
    assert!(a.namespace.ip(&["link", "show", "dev", "lo"]).contains("LOOPBACK,UP"));
}

#[test]
fn add_twice_is_the_same_and_delete_leaves_nothing() {
    let room = Room::new();
    let mut n1 = room.node(1);
    let a = n1.pod("a");
    let again = n1.cni("ADD", "a", Some(&a.namespace.path()), json!({})).unwrap();
    assert_eq!(again, a.result);
    let link = a.result["interfaces"][0]["name"].as_str().unwrap().to_owned();
    assert_eq!(n1.cni("CHECK", "a", Some(&a.namespace.path()), json!({})), Ok(json!(null)));

    // The agent may die between the calls.
    n1.restart(&room.api);
    assert_eq!(n1.cni("CHECK", "a", Some(&a.namespace.path()), json!({})), Ok(json!(null)));
    let other = n1.pod("other");
    assert_ne!(other.address, a.address);

    n1.cni("DEL", "a", Some(&a.namespace.path()), json!({})).unwrap();
    assert!(!n1.namespace.ip(&["link"]).contains(&link));
    assert!(!n1.namespace.ip(&["route"]).contains(&a.address.to_string()));
    assert!(n1.cni("CHECK", "a", Some(&a.namespace.path()), json!({})).is_err());
    // A runtime repeats DEL, also when the namespace is long gone.
    n1.cni("DEL", "a", None, json!({})).unwrap();
    n1.cni("DEL", "never-seen", None, json!({})).unwrap();
}

#[test]
fn traffic_that_leaves_the_cluster_carries_the_nodes_address() {
    let room = Room::new();
    let n1 = room.node(1);
    let a = n1.pod("a");
    n1.loaded();
    serve(&room.switch, "outside", 9000);
    let (_, seen) = eventually("pod to the outside", || ask_tcp(&a.namespace, [172, 31, 0, 1], 9000));
    assert_eq!(seen, n1.address.to_string());
}

#[test]
fn host_ports_lead_to_the_pod_and_go_with_it() {
    let room = Room::new();
    let n1 = room.node(1);
    let mapping = json!({"portMappings": [{"hostPort": 8088, "containerPort": 8080, "protocol": "tcp"}]});
    let a = n1.pod_with("a", mapping);
    let b = n1.pod("b");
    a.serve(8080);
    let seen = ask_tcp(&room.switch, n1.address, 8088);
    assert_eq!(seen, Ok(("a".to_owned(), "172.31.0.1".to_owned())), "the rules are in force when ADD returns");
    assert_eq!(ask_tcp(&b.namespace, n1.address, 8088).unwrap().0, "a");
    assert_eq!(ask_tcp(&a.namespace, n1.address, 8088).unwrap().0, "a", "a pod reaches itself by its host port");
    n1.cni("DEL", "a", None, json!({})).unwrap();
    eventually("the host port is closed", || match ask_tcp(&room.switch, n1.address, 8088) {
        Err(std::io::ErrorKind::ConnectionRefused) => Ok(()),
        other => Err(other),
    });
}

#[test]
fn routes_follow_the_nodes() {
    let room = Room::new();
    let n1 = room.node(1);
    let route = |wanted: Option<&str>| {
        let routes = n1.namespace.ip(&["route"]);
        let found = routes.lines().find(|line| line.starts_with("10.244.7.0/24")).map(str::to_owned);
        match (wanted, &found) {
            (None, None) => Ok(()),
            (Some(wanted), Some(found)) if found.contains(wanted) => Ok(()),
            _ => Err(found),
        }
    };
    let node = |address: &str| {
        json!({"metadata": {"name": "n7"}, "spec": {"podCIDR": "10.244.7.0/24"},
               "status": {"addresses": [{"type": "InternalIP", "address": address}]}})
    };
    room.api.put("nodes", node("172.31.0.17"));
    eventually("the route appears", || route(Some("via 172.31.0.17")));
    room.api.put("nodes", node("172.31.0.27"));
    eventually("the route moves", || route(Some("via 172.31.0.27")));
    room.api.delete("nodes", None, "n7");
    eventually("the route goes", || route(None));
}

#[test]
fn loopback_is_set_up_without_the_agent() {
    let namespace = Namespace::new("lo");
    assert!(!namespace.ip(&["link", "show", "lo"]).contains(",UP"));
    let environment = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "a"),
        ("CNI_IFNAME", "lo"),
        ("CNI_NETNS", &namespace.path().to_string_lossy()),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let config = br#"{"cniVersion":"0.3.1","name":"cni-loopback","type":"loopback"}"#;
    let output = quorate_node::cni::plugin_main("loopback", &environment.into(), config);
    assert_eq!(output.exit_code, 0, "{output:?}");
    assert!(namespace.ip(&["link", "show", "lo"]).contains(",UP"));
}

#[test]
fn a_machine_that_stops_being_a_node_keeps_nothing() {
    let room = Room::new();
    let (mut n1, _n2) = (room.node(1), room.node(2));
    n1.loaded();
    eventually("the route appears", || match n1.namespace.ip(&["route"]) {
        routes if routes.contains("10.244.2.0/24") => Ok(()),
        routes => Err(routes),
    });
    n1.stop();
    assert!(n1.tables().contains("table ip quorate"), "rules outlive the agent");
    for _ in 0..2 {
        n1.remove();
        assert_eq!(n1.tables(), "");
        assert!(!n1.namespace.ip(&["route"]).contains("10.244.2.0/24"));
        assert!(!n1.namespace.ip(&["addr", "show", "lo"]).contains("10.96.0.10"));
    }
}
