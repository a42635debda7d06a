//! EndpointSlice: a part of where a service's traffic goes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::Value;

use super::super::defaulting::{default_text, default_value};
use super::super::display::{AGE, NAME, UNSET, age, field, first_few, items, items_at, name, text, text_at};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Generation, Strategy};
use super::super::{formats, selectors};

const TYPES: &[&str] = &["FQDN", "IPv4", "IPv6"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_TOPOLOGY: usize = 16;
const MAX_HINTS: usize = 8;

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    validate_create,
    validate_update: |new, old| {
        let mut errors = Errors::default();
        errors.extend(validate_create(new));
        errors.immutable(&At::top(new, "addressType"), &At::top(old, "addressType"));
        errors.into_vec()
    },
    warnings: |new, old| {
        let named = old.is_none() && text_at(new, "/addressType") == "FQDN";
        named.then(|| "spec.addressType: FQDN endpoints are deprecated".to_owned()).into_iter().collect()
    },
    columns: COLUMNS,
    cells,
    generation: Generation::OnSpecOrLabels,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text("AddressType", "What its addresses are."),
    text("Ports", "The ports of all its endpoints."),
    text("Endpoints", "The addresses of its endpoints."),
    AGE,
];

fn cells(slice: &Object, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = items_at(slice, "/ports").iter().map(shown_port).collect();
    let addresses: Vec<String> = items_at(slice, "/endpoints")
        .iter()
        .flat_map(|endpoint| items(endpoint.get("addresses")))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    vec![
        name(slice),
        Value::from(text_at(slice, "/addressType")),
        Value::from(first_few(&ports, UNSET)),
        Value::from(first_few(&addresses, UNSET)),
        age(slice, now),
    ]
}

fn shown_port(port: &Value) -> String {
    match (port.get("port").and_then(Value::as_i64), port.get("name")) {
        (Some(number), _) => number.to_string(),
        (None, Some(_)) => field(port, "name").to_owned(),
        (None, None) => "*".to_owned(),
    }
}

fn default(slice: &mut Object) {
    let ports = slice.as_map_mut().get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        default_value(port, "name", "");
        default_text(port, "protocol", "TCP");
    }
}

fn validate_create(slice: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let kind = At::top(slice, "addressType");
    errors.need_one_of(&kind, TYPES);
    let endpoints = At::top(slice, "endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        errors.too_many(&endpoints, MAX_ENDPOINTS);
    } else {
        endpoints.items().for_each(|endpoint| judge_endpoint(&endpoint, kind.text(), &mut errors));
    }
    ports(&At::top(slice, "ports"), &mut errors);
    errors.into_vec()
}

fn judge_endpoint(endpoint: &At<'_>, kind: &str, errors: &mut Errors) {
    let addresses = endpoint.field("addresses");
    if addresses.is_empty() {
        errors.required(&addresses, "must contain at least 1 address");
    } else if addresses.len() > MAX_ADDRESSES {
        errors.too_many(&addresses, MAX_ADDRESSES);
    }
    for address in addresses.items() {
        let text = address.text();
        let mut messages = match kind {
            "IPv4" => formats::ipv4(text),
            "IPv6" => formats::ipv6(text),
            "FQDN" => formats::full_domain_name(text),
            _ => Vec::new(),
        };
        if matches!(kind, "IPv4" | "IPv6") {
            messages.extend(formats::routable_ip(text));
        }
        errors.invalid_each(&address, messages);
    }
    let topology = endpoint.field("deprecatedTopology");
    if topology.len() > MAX_TOPOLOGY {
        errors.too_many(&topology, MAX_TOPOLOGY);
    }
    selectors::labels(&topology, errors);
    if topology.key("topology.kubernetes.io/zone").is_set() {
        errors.invalid_value(
            &topology.key("topology.kubernetes.io/zone").filed_under(&topology),
            "topology.kubernetes.io/zone",
            "Use the zone field instead",
        );
    }
    let (hostname, node) = (endpoint.field("hostname"), endpoint.field("nodeName"));
    if hostname.is_set() {
        errors.invalid_each(&hostname, names::dns1123_label(hostname.text()));
    }
    if node.is_set() {
        errors.invalid_each(&node, names::name_is_dns_subdomain(node.text(), false));
    }
    hints(&endpoint.field("hints").field("forZones"), errors);
    hints(&endpoint.field("hints").field("forNodes"), errors);
}

fn hints(all: &At<'_>, errors: &mut Errors) {
    if all.len() > MAX_HINTS {
        return errors.too_many(all, MAX_HINTS);
    }
    let mut taken = BTreeSet::new();
    for hint in all.items() {
        let target = hint.field("name");
        if taken.insert(target.text()) {
            errors.invalid_each(&target, names::label_value(target.text()));
        } else {
            errors.duplicate(&target);
        }
    }
}

fn ports(all: &At<'_>, errors: &mut Errors) {
    if all.len() > MAX_PORTS {
        return errors.too_many(all, MAX_PORTS);
    }
    let mut taken = BTreeSet::new();
    for port in all.items() {
        let (port_name, protocol) = (port.field("name"), port.field("appProtocol"));
        if !port_name.is_empty() {
            errors.invalid_each(&port_name, names::dns1123_label(port_name.text()));
        }
        if !taken.insert(port_name.text()) {
            errors.duplicate_value(&port_name, port_name.text());
        }
        errors.need_one_of(&port.field("protocol"), PROTOCOLS);
        if protocol.is_set() {
            errors.invalid_each(&protocol, names::qualified_name(protocol.text()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{check, check_update, row, stored, with};
    use super::*;

    fn slice() -> Value {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "web-1", "namespace": "default"},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"]}],
            "ports": [{"port": 80}],
        })
    }

    #[test]
    fn ports_have_a_name_and_a_protocol() {
        let stored = stored(&STRATEGY, slice());
        assert_eq!(stored["ports"], json!([{"name": "", "port": 80, "protocol": "TCP"}]));
        assert_eq!(row(&STRATEGY, stored), ["web-1", "IPv4", "80", "10.0.0.1", "10m"]);
        let empty = with(&with(&slice(), "/ports", json!([])), "/endpoints", json!([]));
        assert_eq!(row(&STRATEGY, empty)[2..4], ["<unset>", "<unset>"]);
    }

    #[test]
    fn slices_are_judged() {
        check(
            &STRATEGY,
            &slice(),
            &[
                ("/addressType", json!(null), &["addressType: Required value"]),
                (
                    "/addressType",
                    json!("IP"),
                    &["addressType: Unsupported value: \"IP\": supported values: \"FQDN\", \"IPv4\", \"IPv6\""],
                ),
                (
                    "/endpoints",
                    json!([{"addresses": []}, {"addresses": ["fd00::1"], "hostname": "A"}]),
                    &[
                        "endpoints[0].addresses: Required value: must contain at least 1 address",
                        "endpoints[1].addresses[0]: Invalid value: \"fd00::1\": must be a valid IPv4 address",
                        "endpoints[1].hostname: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                    ],
                ),
                ("/ports", json!([{"port": 1}, {"port": 2}]), &["ports[1].name: Duplicate value: \"\""]),
            ],
        );
        check_update(
            &STRATEGY,
            &slice(),
            &[("/addressType", json!("FQDN"), &["addressType: Invalid value: \"FQDN\": field is immutable"])],
        );
    }
}
