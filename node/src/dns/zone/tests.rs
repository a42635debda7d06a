//! Names as text: what each question gets.

use super::*;
use crate::network::catalog::samples::{endpoint, service, slice};
use crate::network::catalog::{Change, Protocol, SliceSource};

fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    let mut web = service("web", "10.96.0.5");
    web.cluster_ips.push("fd00::5".parse().unwrap());
    let mut headless = service("nginx", "10.96.0.6");
    headless.cluster_ips.clear();
    let mut external = service("db", "10.96.0.7");
    external.cluster_ips.clear();
    external.kind = Kind::ExternalName("db.example.org".into());
    let hosts = ["web-0", "web-1"]
        .iter()
        .zip(1..)
        .map(|(host, last)| Endpoint { hostname: Some((*host).to_owned()), ..endpoint(&format!("10.244.1.{last}")) });
    let unready = Endpoint { ready: false, hostname: Some("web-2".into()), ..endpoint("10.244.1.9") };
    for change in [
        Change::Services(Vec::new()),
        Change::Slices(SliceSource::EndpointSlice, Vec::new()),
        Change::Slices(SliceSource::Endpoints, Vec::new()),
        Change::Service(web),
        Change::Service(headless),
        Change::Service(external),
        Change::Slice(SliceSource::EndpointSlice, slice("web-1", "web", [endpoint("10.244.1.1")])),
        Change::Slice(
            SliceSource::EndpointSlice,
            slice("nginx-1", "nginx", hosts.chain([unready]).collect::<Vec<_>>()),
        ),
    ] {
        catalog.apply(change);
    }
    catalog
}

fn ask_in(catalog: &Catalog, name: &str, kind: RecordType) -> Result<Vec<String>, &'static str> {
    let zone = Zone::new("cluster.local", Ipv4Addr::new(10, 96, 0, 10)).unwrap();
    match zone.lookup(catalog, &Name::from_ascii(name).unwrap(), kind) {
        Answer::Records { answers, additionals } => {
            let text = |record: &Record| record.data.to_string();
            let more = additionals.iter().map(|record| format!("+ {} {}", record.name, text(record)));
            Ok(answers.iter().map(text).chain(more).collect())
        }
        Answer::NoSuchName => Err("no such name"),
        Answer::NotOurs => Err("not ours"),
        Answer::NotKnownYet => Err("not known yet"),
    }
}

fn ask(name: &str, kind: RecordType) -> Result<Vec<String>, &'static str> {
    ask_in(&catalog(), name, kind)
}

#[expect(clippy::unnecessary_wraps, reason = "compared with an answer")]
fn found(records: &[&str]) -> Result<Vec<String>, &'static str> {
    Ok(records.iter().map(|record| (*record).to_owned()).collect())
}

#[test]
fn services_have_their_cluster_ips() {
    assert_eq!(ask("web.default.svc.cluster.local.", RecordType::A), found(&["10.96.0.5"]));
    assert_eq!(ask("web.default.svc.cluster.local.", RecordType::AAAA), found(&["fd00::5"]));
    assert_eq!(ask("WEB.Default.svc.Cluster.Local.", RecordType::A), found(&["10.96.0.5"]));
    assert_eq!(ask("web.default.svc.cluster.local.", RecordType::MX), found(&[]));
    assert_eq!(ask("nothing.default.svc.cluster.local.", RecordType::A), Err("no such name"));
    assert_eq!(ask("web.other.svc.cluster.local.", RecordType::A), Err("no such name"));
}

#[test]
fn headless_services_have_their_ready_endpoints_and_hosts() {
    assert_eq!(ask("nginx.default.svc.cluster.local.", RecordType::A), found(&["10.244.1.1", "10.244.1.2"]));
    assert_eq!(ask("web-1.nginx.default.svc.cluster.local.", RecordType::A), found(&["10.244.1.2"]));
    assert_eq!(ask("web-1.nginx.default.svc.cluster.local.", RecordType::AAAA), found(&[]));
    assert_eq!(ask("web-2.nginx.default.svc.cluster.local.", RecordType::A), Err("no such name"));
    assert_eq!(ask("10-244-1-1.web.default.svc.cluster.local.", RecordType::A), found(&["10.244.1.1"]));

    let mut catalog = catalog();
    let mut eager = catalog.service(&ServiceKey::new("default", "nginx")).unwrap().clone();
    eager.publish_not_ready = true;
    catalog.apply(Change::Service(eager));
    assert_eq!(ask_in(&catalog, "web-2.nginx.default.svc.cluster.local.", RecordType::A), found(&["10.244.1.9"]));
}

#[test]
fn named_ports_have_srv_records_with_the_addresses_of_their_targets() {
    assert_eq!(
        ask("_http._tcp.web.default.svc.cluster.local.", RecordType::SRV),
        found(&[
            "0 100 80 web.default.svc.cluster.local.",
            "+ web.default.svc.cluster.local. 10.96.0.5",
            "+ web.default.svc.cluster.local. fd00::5",
        ])
    );
    assert_eq!(
        ask("_http._tcp.nginx.default.svc.cluster.local.", RecordType::SRV),
        found(&[
            "0 100 8080 web-0.nginx.default.svc.cluster.local.",
            "0 100 8080 web-1.nginx.default.svc.cluster.local.",
            "+ web-0.nginx.default.svc.cluster.local. 10.244.1.1",
            "+ web-1.nginx.default.svc.cluster.local. 10.244.1.2",
        ])
    );
    assert_eq!(ask("_http._udp.web.default.svc.cluster.local.", RecordType::SRV), Err("no such name"));
    assert_eq!(ask("_http._tcp.web.default.svc.cluster.local.", RecordType::A), found(&[]));
    assert_eq!(ask("http._tcp.web.default.svc.cluster.local.", RecordType::SRV), Err("no such name"));
}

#[test]
fn external_names_are_aliases_for_every_type() {
    for kind in [RecordType::A, RecordType::AAAA, RecordType::CNAME] {
        assert_eq!(ask("db.default.svc.cluster.local.", kind), found(&["db.example.org."]));
    }
}

#[test]
fn addresses_lead_back_to_names() {
    assert_eq!(ask("5.0.96.10.in-addr.arpa.", RecordType::PTR), found(&["web.default.svc.cluster.local."]));
    assert_eq!(
        ask("1.1.244.10.in-addr.arpa.", RecordType::PTR),
        found(&["web-0.nginx.default.svc.cluster.local.", "10-244-1-1.web.default.svc.cluster.local."])
    );
    assert_eq!(ask("7.7.7.7.in-addr.arpa.", RecordType::PTR), Err("not ours"));
}

#[test]
fn pods_have_a_name_made_of_their_address() {
    assert_eq!(ask("10-244-1-7.default.pod.cluster.local.", RecordType::A), found(&["10.244.1.7"]));
    assert_eq!(ask("10-244-1-7.default.pod.cluster.local.", RecordType::AAAA), found(&[]));
    assert_eq!(ask("fd00--7.default.pod.cluster.local.", RecordType::AAAA), found(&["fd00::7"]));
    assert_eq!(ask("web-0.default.pod.cluster.local.", RecordType::A), Err("no such name"));
}

#[test]
fn names_in_between_exist_without_records() {
    for name in ["cluster.local.", "svc.cluster.local.", "default.svc.cluster.local."] {
        assert_eq!(ask(name, RecordType::A), found(&[]), "{name}");
    }
    assert_eq!(ask("other.svc.cluster.local.", RecordType::A), Err("no such name"));
    assert_eq!(ask("dns-version.cluster.local.", RecordType::TXT), found(&["1.1.0"]));
    assert_eq!(ask("ns.dns.cluster.local.", RecordType::A), found(&["10.96.0.10"]));
}

#[test]
fn other_domains_are_not_ours() {
    for name in ["example.org.", "local.", "web.default.svc.cluster.local.example.org.", "notcluster.local."] {
        assert_eq!(ask(name, RecordType::A), Err("not ours"), "{name}");
    }
}

#[test]
fn the_same_endpoint_under_two_ports_is_named_once() {
    let mut catalog = catalog();
    let mut second = slice("nginx-2", "nginx", [Endpoint { hostname: Some("web-0".into()), ..endpoint("10.244.1.1") }]);
    second.groups[0].ports[0].protocol = Protocol::Udp;
    catalog.apply(Change::Slice(SliceSource::EndpointSlice, second));
    assert_eq!(ask_in(&catalog, "web-0.nginx.default.svc.cluster.local.", RecordType::A), found(&["10.244.1.1"]));
}

#[test]
fn nothing_is_denied_before_everything_is_known() {
    let mut catalog = Catalog::default();
    let unknown = |catalog: &Catalog| {
        [
            ask_in(catalog, "web.default.svc.cluster.local.", RecordType::A),
            ask_in(catalog, "5.0.96.10.in-addr.arpa.", RecordType::PTR),
        ]
    };
    let yet = [Err("not known yet"), Err("not known yet")];
    assert_eq!(unknown(&catalog), yet);
    catalog.apply(Change::Slices(SliceSource::EndpointSlice, Vec::new()));
    catalog.apply(Change::Slices(SliceSource::Endpoints, Vec::new()));
    assert_eq!(unknown(&catalog), yet);
    catalog.apply(Change::Service(service("db", "10.96.0.7")));
    assert_eq!(ask_in(&catalog, "db.default.svc.cluster.local.", RecordType::A), Ok(vec!["10.96.0.7".to_owned()]));
    catalog.apply(Change::Services(vec![service("db", "10.96.0.7")]));
    assert_eq!(unknown(&catalog), [Err("no such name"), Err("not ours")]);
}
