//! A service in a table.

use std::collections::BTreeSet;

use jiff::Timestamp;
use quorate_api::object::Object;
use serde_json::Value;

use super::super::super::display::{
    AGE, NAME, NONE, SELECTOR, age, field, items, items_at, labels, name, or, text, text_at,
};
use super::super::super::strategy::Column;

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    text("Type", "How the service can be reached."),
    text("Cluster-IP", "Its address inside of the cluster."),
    text("External-IP", "Its addresses from outside."),
    text("Port(s)", "Its ports, and those of the nodes that lead to them."),
    AGE,
    SELECTOR,
];

pub(super) fn cells(service: &Object, now: Timestamp) -> Vec<Value> {
    let cluster_ip = items_at(service, "/spec/clusterIPs").first().and_then(Value::as_str).unwrap_or(NONE);
    vec![
        name(service),
        Value::from(text_at(service, "/spec/type")),
        Value::from(cluster_ip),
        Value::from(external_ip(service)),
        Value::from(or(&ports(service), NONE)),
        age(service, now),
        Value::from(labels(service.get("/spec/selector"))),
    ]
}

fn external_ip(service: &Object) -> String {
    let fixed: Vec<&str> = items_at(service, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    match text_at(service, "/spec/type") {
        "ClusterIP" | "NodePort" => or(&fixed.join(","), NONE).to_owned(),
        "LoadBalancer" => {
            let mut all: Vec<&str> = ingress(service.get("/status/loadBalancer/ingress")).into_iter().collect();
            all.extend(fixed);
            or(&all.join(","), "<pending>").to_owned()
        }
        "ExternalName" => text_at(service, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses, else names, that a load balancer answers at.
pub(crate) fn ingress(list: Option<&Value>) -> BTreeSet<&str> {
    items(list).iter().map(|entry| or(field(entry, "ip"), field(entry, "hostname"))).filter(|a| !a.is_empty()).collect()
}

fn ports(service: &Object) -> String {
    let number = |port: &Value, name: &str| port.get(name).and_then(Value::as_i64).unwrap_or_default();
    let parts: Vec<String> = items_at(service, "/spec/ports")
        .iter()
        .map(|port| {
            let (own, protocol) = (number(port, "port"), field(port, "protocol"));
            match number(port, "nodePort") {
                0 => format!("{own}/{protocol}"),
                node => format!("{own}:{node}/{protocol}"),
            }
        })
        .collect();
    parts.join(",")
}
