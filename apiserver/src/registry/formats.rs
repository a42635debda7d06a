//! Addresses and domains inside objects, each format answering in upstream's words what is wrong.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use quorate_api::validate as names;

const BAD_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const BAD_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const FEW_SEGMENTS: &str = "should be a domain with at least two segments separated by dots";

type Messages = Vec<String>;

fn unless(fine: bool, message: &str) -> Messages {
    if fine { Vec::new() } else { vec![message.to_owned()] }
}

pub(crate) fn ip(text: &str) -> Messages {
    unless(text.parse::<IpAddr>().is_ok(), BAD_IP)
}

pub(crate) fn ipv4(text: &str) -> Messages {
    unless(text.parse::<Ipv4Addr>().is_ok(), "must be a valid IPv4 address")
}

pub(crate) fn ipv6(text: &str) -> Messages {
    unless(text.parse::<Ipv6Addr>().is_ok(), "must be a valid IPv6 address")
}

pub(crate) fn cidr(text: &str) -> Messages {
    unless(text.parse::<IpNet>().is_ok(), BAD_CIDR)
}

/// An address that a client may be sent to: neither unspecified, loopback nor link-local.
pub(crate) fn routable_ip(text: &str) -> Messages {
    let Ok(address) = text.parse::<IpAddr>() else {
        return vec!["must be a valid IP address".to_owned()];
    };
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    let mut messages = unless(!address.is_unspecified(), &format!("may not be unspecified ({text})"));
    messages.extend(unless(!address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"));
    messages.extend(unless(!link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"));
    messages.extend(unless(
        !link_local_multicast,
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
    ));
    messages
}

pub(crate) fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

/// Whether the addresses are of both families.
pub(crate) fn is_dual_stack<'a>(addresses: impl IntoIterator<Item = &'a str>) -> bool {
    let (v6, v4): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| is_ipv6(address));
    !v4.is_empty() && !v6.is_empty()
}

/// A resolver's search domain: as a subdomain, but underscores are fine.
pub(crate) fn dns_subdomain_with_underscore(text: &str) -> Messages {
    names::dns1123_subdomain(&text.replace('_', "-"))
}

/// A domain of at least two labels; a dot at its end is fine.
pub(crate) fn full_domain_name(text: &str) -> Messages {
    let domain = text.strip_suffix('.').unwrap_or(text);
    let messages = names::dns1123_subdomain(domain);
    if messages.is_empty() { unless(domain.contains('.'), FEW_SEGMENTS) } else { messages }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_not_routable() {
        assert_eq!(routable_ip("10.0.0.1"), Messages::new());
        assert_eq!(routable_ip("127.0.0.1"), ["may not be in the loopback range (127.0.0.0/8, ::1/128)"]);
        assert_eq!(routable_ip("169.254.1.1"), ["may not be in the link-local range (169.254.0.0/16, fe80::/10)"]);
        assert_eq!(routable_ip("0.0.0.0"), ["may not be unspecified (0.0.0.0)"]);
        assert_eq!(routable_ip("nowhere"), ["must be a valid IP address"]);
    }

    #[test]
    fn domains_have_two_labels() {
        assert_eq!(full_domain_name("a.example."), Messages::new());
        assert_eq!(full_domain_name("example"), [FEW_SEGMENTS]);
    }
}
