//! The constant rules, and the text of transactions. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::element::{Chain, DROP_POOL, Key, Value};
use super::model::Delta;

/// Everything lives in this table; tables of others are left alone.
pub const TABLE: &str = "ip quorate";
/// Bit of the connection mark: this connection leaves with the node's own address.
pub const MASQUERADE_BIT: u32 = 0x4000;
/// Clients that session affinity remembers.
pub const MAX_AFFINITY_ENTRIES: u32 = 65_535;
/// Elements in one statement: nft parses long lists slowly and reports errors by statement.
const ELEMENTS_PER_STATEMENT: usize = 512;
/// Upper bound of the slot numbers that the maps are declared for.
const SLOT_RANGE: u32 = 65_536;

/// The front of a packet: where it was sent to.
const FRONT: &str = "ip daddr . meta l4proto . th dport";
const NODE_FRONT: &str = "meta l4proto . th dport";
/// A client that is neither a pod nor this node.
const OUTSIDER: &str = "ip saddr != @pods fib saddr type != local";
/// `dnat` wants to know that the packet has ports.
const HAS_PORTS: &str = "meta l4proto { tcp, udp, sctp }";
const CLIENT_FRONT: &str = "ip saddr . ip daddr . ip protocol . th dport";

/// What the constant rules depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constants {
    /// Packets to an address of this range that nobody translated go nowhere.
    pub services: Option<Ipv4Net>,
    /// An address of the range that this node answers itself.
    pub own_dns: Option<Ipv4Addr>,
}

/// The table without elements, as statements that create it or leave it as it is.
fn declarations() -> String {
    let front = "type ipv4_addr . inet_proto . inet_service";
    let node_front = "type inet_proto . inet_service";
    let slot = format!("typeof meta mark . numgen random mod {SLOT_RANGE}");
    let containers = [
        ("map", "cluster_ips", format!("{front} : mark;")),
        ("map", "external", format!("{front} : mark;")),
        ("map", "external_local", format!("{front} : mark;")),
        ("map", "node_ports", format!("{node_front} : mark;")),
        ("map", "node_ports_local", format!("{node_front} : mark;")),
        ("map", "host_ports", format!("{node_front} : ipv4_addr . inet_service;")),
        ("map", "host_ports_at", format!("{front} : ipv4_addr . inet_service;")),
        ("map", "blocked", format!("{front} : verdict;")),
        ("map", "blocked_node_ports", format!("{node_front} : verdict;")),
        ("map", "pools", "type mark : verdict;".to_owned()),
        ("map", "slots", format!("{slot} : meta mark;")),
        ("map", "addresses", "type mark : ipv4_addr . inet_service;".to_owned()),
        ("set", "sticky", "type mark;".to_owned()),
        ("set", "hairpin", "type ipv4_addr . ipv4_addr;".to_owned()),
        ("set", "cluster_addresses", "type ipv4_addr;".to_owned()),
        ("set", "pods", "type ipv4_addr; flags interval;".to_owned()),
        ("set", "local_pods", "type ipv4_addr; flags interval;".to_owned()),
    ];
    // Names of packet fields only where there is no other way (`numgen`): nft 1.0.6 cannot take the ports of `typeof`
    // out of the kernel again, and then refuses every later transaction with rules.
    let mut text = format!("add table {TABLE}\n");
    for (kind, name, declaration) in &containers {
        line(&mut text, &format!("add {kind} {TABLE} {name} {{ {declaration} }}"));
        line(&mut text, &format!("flush {kind} {TABLE} {name}"));
    }
    // Filled by packets, and therefore kept over a reload.
    line(
        &mut text,
        &format!(
            "add map {TABLE} affinity {{ type ipv4_addr . ipv4_addr . inet_proto . inet_service : mark; flags dynamic,timeout; \
         timeout 3h; size {MAX_AFFINITY_ENTRIES}; }}"
        ),
    );
    text
}

/// Chains in an order in which each refers to earlier ones only; an empty hook means that others lead there.
fn chains(constants: &Constants) -> Vec<(&'static str, &'static str, Vec<String>)> {
    let mark_outsider = format!("ct mark set ct mark | {MASQUERADE_BIT:#x}");
    let mut chains = vec![
        ("deny", "", vec!["meta l4proto tcp reject with tcp reset".into(), "reject".into()]),
        ("endpoint", "", vec![format!("{HAS_PORTS} dnat ip to meta mark map @addresses")]),
        ("pool", "", vec!["meta mark vmap @pools".into()]),
        ("masqueraded_pool", "", vec![mark_outsider.clone(), "goto pool".into()]),
        ("cluster_ip", "", vec![format!("{OUTSIDER} {mark_outsider}"), "goto pool".into()]),
    ];
    chains.extend(lookup_chains());
    let mut filter = vec![
        format!("{FRONT} vmap @blocked"),
        format!("fib daddr type local {NODE_FRONT} vmap @blocked_node_ports"),
        "ip daddr @cluster_addresses goto deny".into(),
    ];
    if let Some(services) = constants.services {
        let but_dns = constants.own_dns.map(|address| format!("ip daddr != {address} ")).unwrap_or_default();
        filter.push(format!("{but_dns}ip daddr {services} drop"));
    }
    chains.push(("untranslated", "", filter));
    chains.extend(hook_chains());
    chains
}

fn lookup_chains() -> Vec<(&'static str, &'static str, Vec<String>)> {
    let node_ports = vec![
        format!("{OUTSIDER} meta mark set {NODE_FRONT} map @node_ports_local goto pool"),
        format!("meta mark set {NODE_FRONT} map @node_ports goto masqueraded_pool"),
        format!("{HAS_PORTS} dnat ip to {FRONT} map @host_ports_at"),
        format!("{HAS_PORTS} dnat ip to {NODE_FRONT} map @host_ports"),
    ];
    let services = vec![
        format!("meta mark set {FRONT} map @cluster_ips goto cluster_ip"),
        format!("{OUTSIDER} meta mark set {FRONT} map @external_local goto pool"),
        format!("meta mark set {FRONT} map @external goto masqueraded_pool"),
        "fib daddr type local ip daddr != 127.0.0.0/8 goto node_ports".to_owned(),
    ];
    // The same look-ups without consequences: the pool of a packet whose mark an outdated affinity entry took.
    let again = vec![
        format!("meta mark set {FRONT} map @cluster_ips return"),
        format!("{OUTSIDER} meta mark set {FRONT} map @external_local return"),
        format!("meta mark set {FRONT} map @external return"),
        format!("{OUTSIDER} meta mark set {NODE_FRONT} map @node_ports_local return"),
        format!("meta mark set {NODE_FRONT} map @node_ports return"),
    ];
    vec![("node_ports", "", node_ports), ("services", "", services), ("pool_again", "", again)]
}

fn hook_chains() -> Vec<(&'static str, &'static str, Vec<String>)> {
    let postrouting = vec![
        format!("ct mark & {MASQUERADE_BIT:#x} == {MASQUERADE_BIT:#x} masquerade"),
        "ip saddr . ip daddr @hairpin masquerade".into(),
        "ip saddr @local_pods ip daddr != @pods ip daddr != 224.0.0.0/4 masquerade".into(),
    ];
    // The filters stand behind the translation: what still carries a service address there belongs to nobody.
    vec![
        ("nat_prerouting", "type nat hook prerouting priority -100;", vec!["jump services".into()]),
        ("nat_output", "type nat hook output priority -100;", vec!["jump services".into()]),
        ("nat_postrouting", "type nat hook postrouting priority 100;", postrouting),
        (
            "filter_prerouting",
            "type filter hook prerouting priority -90;",
            vec!["ct state new jump untranslated".into()],
        ),
        ("filter_output", "type filter hook output priority -90;", vec!["ct state new jump untranslated".into()]),
    ]
}

/// The rules of a chain for pools with a number of endpoints.
fn pool_chain(chain: Chain) -> Vec<String> {
    match chain {
        Chain::Random { endpoints } => {
            vec![format!("meta mark set meta mark . numgen random mod {endpoints} map @slots goto endpoint")]
        }
        Chain::Sticky { endpoints, timeout } => {
            let remember = format!("update @affinity {{ {CLIENT_FRONT} timeout {}s : meta mark }}", timeout.as_secs());
            vec![
                format!("meta mark set {CLIENT_FRONT} map @affinity meta mark @sticky {remember} goto endpoint"),
                "jump pool_again".into(),
                // An update would only prolong an entry that leads to an endpoint that went away.
                format!("delete @affinity {{ {CLIENT_FRONT} : meta mark }}"),
                format!("meta mark set meta mark . numgen random mod {endpoints} map @slots {remember} goto endpoint"),
            ]
        }
    }
}

/// How the existing table is treated by a full load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// Keep the table, and with it what session affinity remembers.
    Keep,
    /// Remove a table whose declarations differ, as that of another version may.
    Replace,
}

/// A transaction that brings the table to exactly `content`, whatever was there.
pub fn full_load(constants: &Constants, content: &Delta, reload: Reload) -> String {
    let mut text = format!("add table {TABLE}\n");
    text.push_str(match reload {
        Reload::Keep => "flush",
        Reload::Replace => "delete",
    });
    line(&mut text, &format!(" table {TABLE}"));
    text.push_str(&declarations());
    for (name, hook, _) in chains(constants) {
        let body = if hook.is_empty() { String::new() } else { format!(" {{ {hook} }}") };
        line(&mut text, &format!("add chain {TABLE} {name}{body}"));
    }
    for (name, _, rules) in chains(constants) {
        add_rules(&mut text, name, &rules);
    }
    line(&mut text, &format!("add element {TABLE} pools {{ {:#x} : drop }}", DROP_POOL.0));
    for chain in content.chains() {
        add_pool_chain(&mut text, chain);
    }
    add_elements(&mut text, &content.added);
    text
}

/// A transaction after which nothing of ours is left.
pub fn removal() -> String {
    // Without the first statement it fails when there is no table.
    format!("add table {TABLE}\ndelete table {TABLE}\n")
}

/// A transaction for a change. Chains of `known` exist already.
pub fn update(delta: &Delta, known: &BTreeSet<Chain>) -> String {
    let mut text = String::new();
    for chain in delta.chains().difference(known) {
        add_pool_chain(&mut text, *chain);
    }
    let mut removed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for key in &delta.removed {
        removed.entry(key.container()).or_default().push(key.to_string());
    }
    statements(&mut text, "delete", &removed);
    add_elements(&mut text, &delta.added);
    text
}

fn add_pool_chain(text: &mut String, chain: Chain) {
    line(text, &format!("add chain {TABLE} {chain}"));
    // It exists when a table is kept over a reload, or when an earlier pool with this count went away.
    line(text, &format!("flush chain {TABLE} {chain}"));
    add_rules(text, &chain.to_string(), &pool_chain(chain));
}

fn add_rules(text: &mut String, chain: &str, rules: &[String]) {
    for rule in rules {
        line(text, &format!("add rule {TABLE} {chain} {rule}"));
    }
}

fn add_elements(text: &mut String, elements: &[(Key, Value)]) {
    let mut added: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, value) in elements {
        added.entry(key.container()).or_default().push(format!("{key}{value}"));
    }
    statements(text, "add", &added);
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn statements(text: &mut String, verb: &str, elements: &BTreeMap<&str, Vec<String>>) {
    for (container, list) in elements {
        for chunk in list.chunks(ELEMENTS_PER_STATEMENT) {
            line(text, &format!("{verb} element {TABLE} {container} {{ {} }}", chunk.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests;
