//! Routes to the pods of other nodes: each node's range by that node's address. Works where nodes share a network.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use futures::TryStreamExt;
use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Node;
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol};

use super::netlink::{Doing, NetlinkError};

/// Marks our routes in the kernel's table, so that they are told from those of others.
const OUR_PROTOCOL: RouteProtocol = RouteProtocol::Other(81);

/// What the network needs of a Node object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    pub name: String,
    pub address: Option<Ipv4Addr>,
    pub pods: Option<Ipv4Net>,
}

pub fn node_from(object: &Node) -> Option<NodeAddress> {
    let spec = object.spec.as_ref();
    let ranges = spec.and_then(|spec| spec.pod_cidrs.as_ref()).into_iter().flatten();
    let single = spec.and_then(|spec| spec.pod_cidr.as_ref());
    let addresses = object.status.as_ref().and_then(|status| status.addresses.as_ref());
    Some(NodeAddress {
        name: object.metadata.name.clone()?,
        address: addresses
            .into_iter()
            .flatten()
            .filter(|address| address.type_ == "InternalIP")
            .find_map(|address| address.address.parse().ok()),
        pods: ranges.chain(single).find_map(|range| range.parse().ok()),
    })
}

/// Range and next hop of every other node. Pure.
pub fn plan<'a>(nodes: impl Iterator<Item = &'a NodeAddress>, own_name: &str) -> BTreeMap<Ipv4Net, Ipv4Addr> {
    nodes.filter(|node| node.name != own_name).filter_map(|node| Some((node.pods?.trunc(), node.address?))).collect()
}

/// Bring the kernel's routes to `wanted`. Returns those that it refused, for example since the next hop is not on a
/// network of this node; the others stand.
pub async fn sync(
    handle: &rtnetlink::Handle,
    wanted: &BTreeMap<Ipv4Net, Ipv4Addr>,
) -> Result<Vec<(Ipv4Net, Ipv4Addr, NetlinkError)>, NetlinkError> {
    let mut missing = wanted.clone();
    for route in ours(handle).await? {
        let known = destination(&route).filter(|range| gateway(&route).as_ref() == wanted.get(range));
        match known {
            Some(range) => {
                missing.remove(&range);
            }
            None => match handle.route().del(route).execute().await.doing("delete a route") {
                Err(error) if !error.is_missing() => return Err(error),
                _ => {}
            },
        }
    }
    let mut refused = Vec::new();
    for (range, next_hop) in missing {
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(range.network(), range.prefix_len())
            .gateway(next_hop)
            .protocol(OUR_PROTOCOL)
            .build();
        if let Err(error) = handle.route().add(route).replace().execute().await.doing("add a route") {
            refused.push((range, next_hop, error));
        }
    }
    Ok(refused)
}

async fn ours(handle: &rtnetlink::Handle) -> Result<Vec<RouteMessage>, NetlinkError> {
    let all = handle.route().get(RouteMessageBuilder::<Ipv4Addr>::new().build()).execute();
    all.try_filter(|route| std::future::ready(route.header.protocol == OUR_PROTOCOL))
        .try_collect()
        .await
        .doing("list routes")
}

fn destination(route: &RouteMessage) -> Option<Ipv4Net> {
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => {
            Ipv4Net::new(*address, route.header.destination_prefix_length).ok()
        }
        _ => None,
    })
}

fn gateway(route: &RouteMessage) -> Option<Ipv4Addr> {
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(address)) => Some(*address),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_nodes_with_range_and_address_get_routes() {
        let node = |name: &str, address: Option<&str>, pods: Option<&str>| NodeAddress {
            name: name.into(),
            address: address.map(|text| text.parse().unwrap()),
            pods: pods.map(|text| text.parse().unwrap()),
        };
        let nodes = [
            node("n1", Some("172.31.0.11"), Some("10.244.1.0/24")),
            node("n2", Some("172.31.0.12"), Some("10.244.2.0/24")),
            node("n3", None, Some("10.244.3.0/24")),
            node("n4", Some("172.31.0.14"), None),
        ];
        let routes: Vec<String> =
            plan(nodes.iter(), "n1").iter().map(|(range, hop)| format!("{range} via {hop}")).collect();
        assert_eq!(routes, ["10.244.2.0/24 via 172.31.0.12"]);
    }

    #[test]
    fn the_first_ipv4_range_and_internal_address_count() {
        let object: Node = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "n1"},
            "spec": {"podCIDR": "fd00::/64", "podCIDRs": ["fd00::/64", "10.244.1.0/24"]},
            "status": {"addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "fd00::1"},
                                     {"type": "InternalIP", "address": "172.31.0.11"}]}
        }))
        .unwrap();
        let node = node_from(&object).unwrap();
        assert_eq!(node.address, Some(Ipv4Addr::new(172, 31, 0, 11)));
        assert_eq!(node.pods, Some("10.244.1.0/24".parse().unwrap()));
    }
}
