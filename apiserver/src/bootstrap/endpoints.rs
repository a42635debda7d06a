//! The endpoints of `default/kubernetes`: the members that live, a dead one gone within seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use quorate_api::status::Status;
use serde_json::{Value, json};

use super::client::{Client, Place};
use crate::server::Server;

/// How often the members are looked at. The store calls a member dead after a few seconds of silence, and a dead one
/// must be gone within five.
const PERIOD: Duration = Duration::from_millis(500);
/// Whether or not anything changed, what is written is compared with what is wanted this often.
const RESYNC_TICKS: u32 = 120;
const SERVICE: &str = "kubernetes";
const NAMESPACE: &str = "default";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes";

/// The members' addresses by port. Members on one machine have ports of their own.
type Members = BTreeMap<u16, BTreeSet<IpAddr>>;

/// Runs until it is dropped.
pub(super) async fn keep(server: &Server, client: &Client) {
    let mut written: Option<Members> = None;
    let mut ticks = 0;
    loop {
        let wanted = live(server);
        ticks = (ticks + 1) % RESYNC_TICKS;
        // With nobody known to live the old list is the better guess.
        if !wanted.is_empty() && (written.as_ref() != Some(&wanted) || ticks == 0) {
            match write(client, &wanted).await {
                Ok(()) => written = Some(wanted),
                Err(status) => tracing::debug!(%status, "the endpoints of the API were not written"),
            }
        }
        server.env().clock.sleep(PERIOD).await;
    }
}

fn live(server: &Server) -> Members {
    let status = server.storage().store().status();
    let mut members = Members::new();
    for member in status.members.iter().filter(|member| member.alive || member.id == status.member) {
        if let Some(address) = routable(&member.api_address) {
            members.entry(address.port()).or_default().insert(address.ip());
        }
    }
    members
}

/// Pods cannot reach a member by a loopback address or a name.
fn routable(address: &str) -> Option<SocketAddr> {
    let address = address.trim_start_matches("https://").trim_end_matches('/');
    let parsed: SocketAddr = address.parse().ok()?;
    (!parsed.ip().is_loopback() && !parsed.ip().is_unspecified()).then_some(parsed)
}

async fn write(client: &Client, members: &Members) -> Result<(), Status> {
    put(client, endpoints(members)).await?;
    let mut kept = BTreeSet::new();
    for (at, (port, addresses)) in members.iter().enumerate() {
        let name = if at == 0 { SERVICE.to_owned() } else { format!("{SERVICE}-{port}") };
        put(client, slice(&name, *port, addresses)).await?;
        kept.insert(name);
    }
    for old in client.list(SLICES).await? {
        let name = old.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if !kept.contains(name) {
            client.delete(&Place::of(&slice(name, 0, &BTreeSet::new()))?).await?;
        }
    }
    Ok(())
}

/// Writes what differs, and nothing if nothing does.
async fn put(client: &Client, wanted: Value) -> Result<(), Status> {
    let place = Place::of(&wanted)?;
    let Some(existing) = client.get(&place).await? else { return client.create(&place, &wanted).await };
    let mut merged = existing.clone();
    for (field, value) in wanted.as_object().into_iter().flatten().filter(|(field, _)| *field != "metadata") {
        merged[field] = value.clone();
    }
    for (label, value) in wanted["metadata"]["labels"].as_object().into_iter().flatten() {
        merged["metadata"]["labels"][label] = value.clone();
    }
    if merged == existing { Ok(()) } else { client.update(&place, &merged).await }
}

fn endpoints(members: &Members) -> Value {
    let subsets: Vec<Value> = members
        .iter()
        .map(|(port, addresses)| {
            let addresses: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
            json!({"addresses": addresses, "ports": [{"name": "https", "port": port, "protocol": "TCP"}]})
        })
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": SERVICE, "namespace": NAMESPACE,
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": subsets,
    })
}

fn slice(name: &str, port: u16, addresses: &BTreeSet<IpAddr>) -> Value {
    let endpoints: Vec<Value> =
        addresses.iter().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect();
    let family = if addresses.iter().all(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": SERVICE}},
        "addressType": family,
        "endpoints": endpoints,
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_routable_addresses_count() {
        for (address, expected) in [
            ("192.0.2.1:6443", Some("192.0.2.1:6443")),
            ("https://192.0.2.1:6443", Some("192.0.2.1:6443")),
            ("127.0.0.1:6443", None),
            ("0.0.0.0:6443", None),
            ("m1:6443", None),
        ] {
            assert_eq!(routable(address).map(|address| address.to_string()).as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn members_on_one_machine_have_a_subset_each() {
        let ip: IpAddr = "192.0.2.1".parse().unwrap();
        let members: Members = [(6443, [ip].into()), (6444, [ip].into())].into();
        let ports: Vec<Value> = endpoints(&members)["subsets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|subset| subset["ports"][0]["port"].clone())
            .collect();
        assert_eq!(ports, [json!(6443), json!(6444)]);
    }
}
