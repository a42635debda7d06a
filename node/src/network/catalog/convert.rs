//! From API objects to projections.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Endpoint, EndpointPort, Group, Kind, Protocol, Service, ServiceKey, ServicePort, Slice};

/// Addresses of one slice that are remembered. Upstream's validation allows 1,000 in an EndpointSlice; an Endpoints
/// object has no limit of its own.
const MAX_ENDPOINTS_PER_GROUP: usize = 4096;
/// How long ClientIP affinity lasts when the Service does not say.
const DEFAULT_AFFINITY: Duration = Duration::from_secs(10_800);
/// The label that ties an EndpointSlice to its service.
const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

fn key_of(meta: &ObjectMeta) -> Option<ServiceKey> {
    Some(ServiceKey { namespace: meta.namespace.clone()?, name: meta.name.clone()? })
}

fn port_number(port: i32) -> Option<u16> {
    u16::try_from(port).ok().filter(|port| *port != 0)
}

fn addresses<A: std::str::FromStr>(texts: Option<&Vec<String>>) -> Vec<A> {
    texts.into_iter().flatten().filter_map(|text| text.parse().ok()).collect()
}

/// `None` when the object has no name or no spec.
pub fn service_from(object: &core::Service) -> Option<Service> {
    let key = key_of(&object.metadata)?;
    let spec = object.spec.as_ref()?;
    let kind = match (spec.type_.as_deref(), &spec.external_name) {
        (Some("ExternalName"), Some(name)) => Kind::ExternalName(name.clone()),
        _ => Kind::Addressed,
    };
    let mut cluster_ips: Vec<IpAddr> = addresses(spec.cluster_ips.as_ref());
    if cluster_ips.is_empty() {
        cluster_ips.extend(spec.cluster_ip.as_ref().and_then(|ip| ip.parse::<IpAddr>().ok()));
    }
    Some(Service {
        key,
        kind,
        cluster_ips,
        external_ips: addresses(spec.external_ips.as_ref()),
        ingress_ips: ingress_ips(object),
        ports: spec.ports.iter().flatten().filter_map(service_port).collect(),
        affinity: affinity(spec),
        internal_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
        external_local: spec.external_traffic_policy.as_deref() == Some("Local"),
        publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
    })
}

fn ingress_ips(object: &core::Service) -> Vec<Ipv4Addr> {
    let status = object.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.and_then(|balancer| balancer.ingress.as_ref());
    ingress
        .into_iter()
        .flatten()
        // A balancer in mode Proxy sends to the node's own address; its address must not be short-cut here.
        .filter(|ingress| ingress.ip_mode.as_deref() != Some("Proxy"))
        .filter_map(|ingress| ingress.ip.as_ref()?.parse().ok())
        .collect()
}

fn service_port(port: &core::ServicePort) -> Option<ServicePort> {
    Some(ServicePort {
        name: port.name.clone().unwrap_or_default(),
        protocol: Protocol::parse(port.protocol.as_deref())?,
        port: port_number(port.port)?,
        node_port: port.node_port.and_then(port_number),
    })
}

fn affinity(spec: &core::ServiceSpec) -> Option<Duration> {
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return None;
    }
    let seconds = spec
        .session_affinity_config
        .as_ref()
        .and_then(|config| config.client_ip.as_ref()?.timeout_seconds)
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0);
    Some(seconds.map_or(DEFAULT_AFFINITY, Duration::from_secs))
}

/// `None` for slices without a service, and for those of FQDN addresses.
pub fn slice_from(object: &discovery::EndpointSlice) -> Option<Slice> {
    let key = key_of(&object.metadata)?;
    let name = object.metadata.labels.as_ref()?.get(SERVICE_NAME_LABEL).filter(|name| !name.is_empty())?;
    if object.address_type == "FQDN" {
        return None;
    }
    let service = ServiceKey { namespace: key.namespace.clone(), name: name.clone() };
    let ports = object
        .ports
        .iter()
        .flatten()
        .filter_map(|port| endpoint_port(port.name.as_ref(), port.protocol.as_deref(), port.port));
    let endpoints = object.endpoints.iter().flatten().filter_map(slice_endpoint).take(MAX_ENDPOINTS_PER_GROUP);
    let group = Group { ports: ports.collect(), endpoints: endpoints.collect() };
    Some(Slice { key, service, groups: vec![group] })
}

fn endpoint_port(name: Option<&String>, protocol: Option<&str>, port: Option<i32>) -> Option<EndpointPort> {
    Some(EndpointPort {
        name: name.cloned().unwrap_or_default(),
        protocol: Protocol::parse(protocol)?,
        port: port.and_then(port_number),
    })
}

/// Addresses of one endpoint are interchangeable; upstream defines the first as the one to use.
fn slice_endpoint(endpoint: &discovery::Endpoint) -> Option<Endpoint> {
    let conditions = endpoint.conditions.as_ref();
    // Absent means true for ready; serving follows ready when absent.
    let ready = conditions.and_then(|conditions| conditions.ready).unwrap_or(true);
    Some(Endpoint {
        address: endpoint.addresses.first()?.parse().ok()?,
        ready,
        serving: conditions.and_then(|conditions| conditions.serving).unwrap_or(ready),
        terminating: conditions.and_then(|conditions| conditions.terminating).unwrap_or(false),
        hostname: endpoint.hostname.clone(),
        node: endpoint.node_name.clone(),
    })
}

/// An Endpoints object as a slice of the service of the same name.
pub fn slice_from_endpoints(object: &core::Endpoints) -> Option<Slice> {
    let key = key_of(&object.metadata)?;
    let groups = object.subsets.iter().flatten().map(subset_group).collect();
    Some(Slice { service: key.clone(), key, groups })
}

fn subset_group(subset: &core::EndpointSubset) -> Group {
    let ports = subset
        .ports
        .iter()
        .flatten()
        .filter_map(|port| endpoint_port(port.name.as_ref(), port.protocol.as_deref(), Some(port.port)));
    let ready = subset.addresses.iter().flatten().map(|address| (address, true));
    let unready = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
    let endpoints = ready.chain(unready).filter_map(|(address, ready)| {
        Some(Endpoint {
            address: address.ip.parse().ok()?,
            ready,
            serving: ready,
            terminating: false,
            hostname: address.hostname.clone(),
            node: address.node_name.clone(),
        })
    });
    Group { ports: ports.collect(), endpoints: endpoints.take(MAX_ENDPOINTS_PER_GROUP).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_without_cluster_ips_field_falls_back_to_the_single_one() {
        let object: core::Service = serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "default", "name": "web"},
            "spec": {"clusterIP": "10.96.0.5", "ports": [{"port": 80, "nodePort": 30080}, {"port": 0}],
                     "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local"},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2", "ipMode": "Proxy"}]}}
        }))
        .unwrap();
        let service = service_from(&object).unwrap();
        assert_eq!(service.cluster_ips, ["10.96.0.5".parse::<IpAddr>().unwrap()]);
        assert_eq!(service.ports.len(), 1, "port 0 is no port");
        assert_eq!(service.ports[0].node_port, Some(30080));
        assert_eq!(service.affinity, Some(DEFAULT_AFFINITY));
        assert!(service.external_local && !service.internal_local);
        assert_eq!(service.ingress_ips, [Ipv4Addr::new(192, 0, 2, 1)]);
    }

    #[test]
    fn headless_means_no_cluster_ip() {
        let object: core::Service = serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "default", "name": "web"},
            "spec": {"clusterIP": "None", "clusterIPs": ["None"]}
        }))
        .unwrap();
        assert!(service_from(&object).unwrap().cluster_ips.is_empty());
    }

    #[test]
    fn absent_conditions_mean_ready_and_serving() {
        let object: discovery::EndpointSlice = serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "default", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "ports": [{"name": "", "port": 8080}],
            "endpoints": [{"addresses": ["10.0.0.1"]},
                          {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}}]
        }))
        .unwrap();
        let slice = slice_from(&object).unwrap();
        assert_eq!(slice.service, ServiceKey::new("default", "web"));
        let states: Vec<_> =
            slice.groups[0].endpoints.iter().map(|point| (point.ready, point.serving, point.terminating)).collect();
        assert_eq!(states, [(true, true, false), (false, true, true)]);
    }

    #[test]
    fn endpoints_objects_keep_ports_with_their_subset() {
        let object: core::Endpoints = serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "default", "name": "db"},
            "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 5432}]},
                        {"notReadyAddresses": [{"ip": "10.0.0.2"}], "ports": [{"port": 5433}]}]
        }))
        .unwrap();
        let slice = slice_from_endpoints(&object).unwrap();
        let ports: Vec<_> = slice.groups.iter().map(|group| (group.ports[0].port, group.endpoints[0].ready)).collect();
        assert_eq!(ports, [(Some(5432), true), (Some(5433), false)]);
    }
}
