//! Plans as text: which front leads where.

use super::*;
use crate::network::catalog::samples::{endpoint, service, slice};
use crate::network::catalog::{Endpoint, Slice};

fn from_n1() -> Viewpoint {
    Viewpoint {
        node: "n1".into(),
        local_pods: Some("10.244.1.0/24".parse().unwrap()),
        own_dns: Some(Ipv4Addr::new(10, 96, 0, 10)),
    }
}

fn elsewhere(address: &str) -> Endpoint {
    Endpoint { node: Some("n2".into()), ..endpoint(address) }
}

fn ending(endpoint: Endpoint) -> Endpoint {
    Endpoint { ready: false, serving: true, terminating: true, ..endpoint }
}

/// One line a front, a pool, a hairpin.
fn describe(service: &Service, slices: &[Slice]) -> Vec<String> {
    let plan = plan(service, slices.iter().flat_map(|slice| &slice.groups), &from_n1());
    let fronts = plan.fronts.iter().map(|(key, target)| {
        let target = match target {
            Target::Pool(name) => name.0.clone(),
            Target::DropPool => "drop pool".into(),
            Target::Blocked(verdict) => format!("{verdict:?}"),
        };
        format!("{} {key} -> {target}", key.container())
    });
    let pools = plan.pools.iter().map(|(name, pool)| {
        let backends: Vec<String> = pool.backends.iter().map(ToString::to_string).collect();
        format!("{} = {}", name.0, backends.join(", "))
    });
    let hairpins = plan.hairpin.iter().map(|address| format!("hairpin {address}"));
    fronts.chain(pools).chain(hairpins).collect()
}

#[test]
fn a_cluster_ip_leads_to_all_ready_endpoints() {
    let unready = Endpoint { ready: false, serving: false, ..endpoint("10.244.1.9") };
    let lines = describe(
        &service("web", "10.96.0.5"),
        &[slice("web-1", "web", [endpoint("10.244.1.5"), unready]), slice("web-2", "web", [elsewhere("10.244.2.5")])],
    );
    assert_eq!(
        lines,
        [
            "cluster_ips 10.96.0.5 . tcp . 80 -> default/web:80/tcp/cluster",
            "default/web:80/tcp/cluster = 10.244.1.5 . 8080, 10.244.2.5 . 8080",
            "hairpin 10.244.1.5",
        ]
    );
}

#[test]
fn no_endpoint_is_refused() {
    assert_eq!(describe(&service("web", "10.96.0.5"), &[]), ["cluster_ips 10.96.0.5 . tcp . 80 -> Deny"]);
}

#[test]
fn the_terminating_serve_only_when_none_is_ready() {
    let web = service("web", "10.96.0.5");
    let last = ending(endpoint("10.244.1.6"));
    let both = describe(&web, &[slice("s", "web", [endpoint("10.244.1.5"), last.clone()])]);
    assert_eq!(both[1], "default/web:80/tcp/cluster = 10.244.1.5 . 8080");
    let alone = describe(&web, &[slice("s", "web", [last])]);
    assert_eq!(alone[1], "default/web:80/tcp/cluster = 10.244.1.6 . 8080");
}

#[test]
fn external_policy_local_separates_outside_clients() {
    let mut web = service("web", "10.96.0.5");
    web.external_local = true;
    web.ingress_ips = vec![Ipv4Addr::new(192, 0, 2, 1)];
    web.ports[0].node_port = Some(30080);
    let near_and_far = [slice("s", "web", [endpoint("10.244.1.5"), elsewhere("10.244.2.5")])];
    assert_eq!(
        describe(&web, &near_and_far),
        [
            "cluster_ips 10.96.0.5 . tcp . 80 -> default/web:80/tcp/cluster",
            "external 192.0.2.1 . tcp . 80 -> default/web:80/tcp/cluster",
            "external_local 192.0.2.1 . tcp . 80 -> default/web:80/tcp/local",
            "node_ports tcp . 30080 -> default/web:80/tcp/cluster",
            "node_ports_local tcp . 30080 -> default/web:80/tcp/local",
            "default/web:80/tcp/cluster = 10.244.1.5 . 8080, 10.244.2.5 . 8080",
            "default/web:80/tcp/local = 10.244.1.5 . 8080",
            "hairpin 10.244.1.5",
        ]
    );
    let far = describe(&web, &[slice("s", "web", [elsewhere("10.244.2.5")])]);
    assert!(far.contains(&"node_ports_local tcp . 30080 -> drop pool".to_owned()), "{far:?}");
    let none = describe(&web, &[]);
    assert_eq!(
        none,
        [
            "cluster_ips 10.96.0.5 . tcp . 80 -> Deny",
            "external 192.0.2.1 . tcp . 80 -> Deny",
            "node_ports tcp . 30080 -> Deny"
        ]
    );
}

#[test]
fn internal_policy_local_drops_when_endpoints_are_elsewhere() {
    let mut web = service("web", "10.96.0.5");
    web.internal_local = true;
    let near = describe(&web, &[slice("s", "web", [endpoint("10.244.1.5"), elsewhere("10.244.2.5")])]);
    assert_eq!(
        near,
        [
            "cluster_ips 10.96.0.5 . tcp . 80 -> default/web:80/tcp/local",
            "default/web:80/tcp/local = 10.244.1.5 . 8080",
            "hairpin 10.244.1.5",
        ]
    );
    let far = describe(&web, &[slice("s", "web", [elsewhere("10.244.2.5")])]);
    assert_eq!(far, ["cluster_ips 10.96.0.5 . tcp . 80 -> Drop"]);
    assert_eq!(describe(&web, &[]), ["cluster_ips 10.96.0.5 . tcp . 80 -> Deny"]);
}

#[test]
fn the_port_that_this_node_answers_itself_is_left_alone() {
    let mut dns = service("kube-dns", "10.96.0.10");
    dns.ports[0].port = 53;
    let mut metrics = dns.ports[0].clone();
    metrics.port = 9153;
    dns.ports.push(metrics);
    let lines = describe(&dns, &[]);
    assert_eq!(lines, ["cluster_ips 10.96.0.10 . tcp . 9153 -> Deny"]);
    let plan = plan(&dns, std::iter::empty(), &from_n1());
    assert!(plan.cluster_addresses.is_empty(), "packets to the node's own DNS must not be refused");
}

#[test]
fn headless_and_external_name_services_have_no_rules() {
    let mut headless = service("web", "10.96.0.5");
    headless.cluster_ips.clear();
    let endpoints = [slice("s", "web", [endpoint("10.244.1.5")])];
    assert_eq!(describe(&headless, &endpoints), Vec::<String>::new());
    let mut external = service("web", "10.96.0.5");
    external.kind = Kind::ExternalName("example.org".into());
    assert_eq!(describe(&external, &endpoints), Vec::<String>::new());
}

#[test]
fn endpoints_beyond_the_bound_are_counted() {
    let service = service("web", "10.96.0.5");
    let address = |number: usize| Ipv4Addr::from_bits(0x0af4_0000 + u32::try_from(number).unwrap()).to_string();
    let endpoints: Vec<_> = (0..MAX_BACKENDS + 3).map(|number| endpoint(&address(number))).collect();
    let slice = slice("web-1", "web", endpoints);
    let plan = plan(&service, slice.groups.iter(), &Viewpoint::default());
    let largest = plan.pools.values().map(|pool| pool.backends.len()).max();
    assert_eq!((largest, plan.left_out), (Some(MAX_BACKENDS), 3));
}
