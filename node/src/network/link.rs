//! The cable between a pod and its node: a veth pair with routes, no bridge.
//!
//! The pod has its address as /32 and sends everything to 169.254.1.1, an address that exists nowhere: its hardware
//! address is a permanent neighbour entry for the node's end of the pair. The node has a /32 route to the pod. So pods
//! share no broadcast domain, and all traffic of a pod, also to a pod of the same node, is routed and thereby filtered.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use rtnetlink::packet_route::link::{InfoData, InfoVeth};
use rtnetlink::packet_route::route::RouteScope;
use rtnetlink::{LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};
use sha2::{Digest, Sha256};

use super::netlink::{self, Doing, NetlinkError};

/// The next hop that pods know.
pub const POD_GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// Hardware address of the node's end. It may be the same everywhere, as no two ends share a link.
pub const HOST_MAC: [u8; 6] = [0xee; 6];
/// Interface names hold 15 bytes: four letters and eleven hexadecimal digits.
const NAME_MASK: u64 = (1 << 44) - 1;

/// What a pod's cable looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodLink {
    /// Name of the node's end.
    pub host_name: String,
    /// Name of the pod's end, normally `eth0`.
    pub pod_name: String,
    pub address: Ipv4Addr,
    pub mtu: Option<u32>,
    /// Source address of the node's own traffic to the pod.
    pub source: Option<Ipv4Addr>,
}

/// The node's end of a sandbox's interface: derived, so that it can be removed without any record.
pub fn host_name(sandbox: &str, interface: &str) -> String {
    let digest = Sha256::digest(format!("{sandbox}/{interface}"));
    let number = digest.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    format!("qpod{:011x}", number & NAME_MASK)
}

/// Locally administered, and the same whenever the pod has this address.
pub fn pod_mac(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x0a, 0x58, a, b, c, d]
}

/// Connect a pod's namespace. What an interrupted attempt left is replaced.
pub async fn connect(host: &rtnetlink::Handle, namespace: OwnedFd, link: &PodLink) -> Result<(), NetlinkError> {
    netlink::delete_link(host, &link.host_name).await?;
    host.link().add(veth(link, &namespace)).execute().await.doing("create a veth pair")?;
    let pod = link.clone();
    netlink::inside(namespace, |handle| async move { configure_pod_end(&handle, &pod).await }).await?;
    configure_host_end(host, link).await
}

fn veth(link: &PodLink, namespace: &OwnedFd) -> rtnetlink::packet_route::link::LinkMessage {
    let mut peer = LinkMessageBuilder::<LinkUnspec>::new()
        .name(link.pod_name.clone())
        .address(pod_mac(link.address).to_vec())
        .setns_by_fd(namespace.as_raw_fd());
    let mut host = LinkMessageBuilder::<LinkVeth>::new(&link.host_name, &link.pod_name).address(HOST_MAC.to_vec());
    if let Some(mtu) = link.mtu {
        peer = peer.mtu(mtu);
        host = host.mtu(mtu);
    }
    host.set_info_data(InfoData::Veth(InfoVeth::Peer(peer.build()))).build()
}

async fn configure_pod_end(handle: &rtnetlink::Handle, link: &PodLink) -> Result<(), NetlinkError> {
    let lo = netlink::index_of(handle, "lo").await?;
    netlink::set_up(handle, lo).await?;
    let index = netlink::index_of(handle, &link.pod_name).await?;
    handle.address().add(index, IpAddr::V4(link.address), 32).execute().await.doing("give the pod its address")?;
    netlink::set_up(handle, index).await?;
    handle
        .neighbours()
        .add(index, IpAddr::V4(POD_GATEWAY))
        .link_layer_address(&HOST_MAC)
        .replace()
        .execute()
        .await
        .doing("tell the pod its gateway's hardware address")?;
    let gateway = RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(POD_GATEWAY, 32)
        .output_interface(index)
        .scope(RouteScope::Link)
        .build();
    handle.route().add(gateway).replace().execute().await.doing("add the pod's route to its gateway")?;
    let default = RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(Ipv4Addr::UNSPECIFIED, 0)
        .gateway(POD_GATEWAY)
        .output_interface(index)
        .build();
    handle.route().add(default).replace().execute().await.doing("add the pod's default route")
}

async fn configure_host_end(handle: &rtnetlink::Handle, link: &PodLink) -> Result<(), NetlinkError> {
    let index = netlink::index_of(handle, &link.host_name).await?;
    netlink::set_up(handle, index).await?;
    handle
        .neighbours()
        .add(index, IpAddr::V4(link.address))
        .link_layer_address(&pod_mac(link.address))
        .replace()
        .execute()
        .await
        .doing("tell the node the pod's hardware address")?;
    let mut route = RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(link.address, 32)
        .output_interface(index)
        .scope(RouteScope::Link);
    if let Some(source) = link.source {
        route = route.pref_source(source);
    }
    handle.route().add(route.build()).replace().execute().await.doing("add the route to the pod")
}

/// Remove a pod's cable; true when there was one. The pod's end and the routes go with it.
pub async fn disconnect(host: &rtnetlink::Handle, host_name: &str) -> Result<bool, NetlinkError> {
    netlink::delete_link(host, host_name).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_kernel_and_differ_by_sandbox_and_interface() {
        let name = host_name("abc", "eth0");
        assert_eq!(name.len(), 15);
        assert_ne!(name, host_name("abc", "eth1"));
        assert_ne!(name, host_name("abd", "eth0"));
        assert_eq!(name, host_name("abc", "eth0"));
    }
}
