//! Endpoints: where a service's traffic goes, in the older form.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::Value;

use super::super::defaulting::{default_text, each};
use super::super::display::{AGE, NAME, NONE, age, field, first_few, items, items_at, name, text};
use super::super::formats;
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Strategy};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const DEPRECATED: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    validate_create,
    validate_update: |new, _| validate_create(new),
    deprecated: Some(DEPRECATED),
    columns: COLUMNS,
    cells,
    allow_create_on_update: true,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[NAME, text("Endpoints", "The addresses and ports that are ready."), AGE];

fn cells(endpoints: &Object, now: Timestamp) -> Vec<Value> {
    vec![name(endpoints), Value::from(ready(endpoints)), age(endpoints, now)]
}

fn ready(endpoints: &Object) -> String {
    let subsets = items_at(endpoints, "/subsets");
    let mut shown = Vec::new();
    for subset in subsets {
        let addresses = items(subset.get("addresses")).iter().map(|address| field(address, "ip"));
        let ports = items(subset.get("ports"));
        if ports.is_empty() {
            shown.extend(addresses.map(str::to_owned));
            continue;
        }
        for port in ports {
            let port = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            shown.extend(addresses.clone().map(|ip| host_and_port(ip, port)));
        }
    }
    first_few(&shown, if subsets.is_empty() { NONE } else { "" })
}

fn host_and_port(ip: &str, port: i64) -> String {
    if formats::is_ipv6(ip) { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn default(endpoints: &mut Object) {
    let subsets = endpoints.as_map_mut().get_mut("subsets").and_then(Value::as_array_mut);
    for subset in subsets.into_iter().flatten() {
        each(subset, "ports", |port| default_text(port, "protocol", "TCP"));
    }
}

fn validate_create(endpoints: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    for subset in At::top(endpoints, "subsets").items() {
        let lists = ["addresses", "notReadyAddresses"].map(|list| subset.field(list));
        if lists.iter().all(At::is_empty) {
            errors.required(&subset, "must specify `addresses` or `notReadyAddresses`");
        }
        for address in lists.iter().flat_map(At::items) {
            endpoint_address(&address, &mut errors);
        }
        let ports = subset.field("ports");
        for port in ports.items() {
            endpoint_port(&port, ports.len() > 1, &mut errors);
        }
    }
    errors.into_vec()
}

fn endpoint_address(address: &At<'_>, errors: &mut Errors) {
    let (ip, hostname, node) = (address.field("ip"), address.field("hostname"), address.field("nodeName"));
    errors.invalid_each(&ip, formats::ip(ip.text()));
    if !hostname.is_empty() {
        errors.invalid_each(&hostname, names::dns1123_label(hostname.text()));
    }
    if node.is_set() {
        errors.invalid_each(&node, names::name_is_dns_subdomain(node.text(), false));
    }
    errors.invalid_each(&ip, formats::routable_ip(ip.text()));
}

fn endpoint_port(port: &At<'_>, needs_name: bool, errors: &mut Errors) {
    let (port_name, number) = (port.field("name"), port.field("port"));
    if !port_name.is_empty() {
        errors.invalid_each(&port_name, names::dns1123_label(port_name.text()));
    } else if needs_name {
        errors.required(&port_name, "");
    }
    for message in names::port_number(number.number()) {
        errors.invalid_value(&number, number.number(), message);
    }
    errors.need_one_of(&port.field("protocol"), PROTOCOLS);
    let protocol = port.field("appProtocol");
    if protocol.is_set() {
        errors.invalid_each(&protocol, names::qualified_name(protocol.text()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, row, stored, with};
    use super::*;

    fn endpoints() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "db", "namespace": "default"},
            "subsets": [{"addresses": [{"ip": "10.255.0.4"}], "ports": [{"port": 9376}]}],
        })
    }

    #[test]
    fn ports_speak_tcp() {
        assert_eq!(stored(&STRATEGY, endpoints()), with(&endpoints(), "/subsets/0/ports/0/protocol", json!("TCP")));
    }

    #[test]
    fn endpoints_are_judged() {
        check(
            &STRATEGY,
            &endpoints(),
            &[
                (
                    "/subsets",
                    json!([{}]),
                    &["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
                ),
                (
                    "/subsets/0/addresses",
                    json!([{"ip": "127.0.0.1"}, {"ip": "x"}]),
                    &[
                        "subsets[0].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                        "subsets[0].addresses[1].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                        "subsets[0].addresses[1].ip: Invalid value: \"x\": must be a valid IP address",
                    ],
                ),
                (
                    "/subsets/0/ports",
                    json!([{"port": 1}, {"port": 0, "name": "b"}]),
                    &[
                        "subsets[0].ports[0].name: Required value",
                        "subsets[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn rows() {
        assert_eq!(row(&STRATEGY, endpoints()), ["db", "10.255.0.4:9376", "10m"]);
        let many = json!([{"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 1}, {"port": 2}]}]);
        let shown = row(&STRATEGY, with(&endpoints(), "/subsets", many))[1].clone();
        assert_eq!(shown, "10.0.0.1:1,[fd00::1]:1,10.0.0.1:2 + 1 more...");
        assert_eq!(row(&STRATEGY, with(&endpoints(), "/subsets", json!([])))[1], "<none>");
    }
}
