//! Transactions as text. `tests/it/services.rs` shows that the kernel takes them.

use std::time::Duration;

use super::*;
use crate::network::catalog::Protocol;
use crate::proxy::element::{Backend, EndpointId, PoolId, Verdict};

fn backend(last: u8) -> Backend {
    Backend { address: Ipv4Addr::new(10, 244, 1, last), port: 8080 }
}

#[test]
fn an_update_makes_unknown_chains_then_removes_then_adds() {
    let vip = Ipv4Addr::new(10, 96, 0, 5);
    let (pool, sticky) = (PoolId(0x10), PoolId(0x20));
    let delta = Delta {
        removed: vec![Key::Blocked(vip, Protocol::Tcp, 80), Key::Slot(pool, 2)],
        added: vec![
            (Key::ClusterIp(vip, Protocol::Tcp, 80), Value::Pool(pool)),
            (Key::NodePort(Protocol::Udp, 30053), Value::Pool(sticky)),
            (Key::Blocked(vip, Protocol::Udp, 53), Value::Verdict(Verdict::Deny)),
            (Key::Pool(pool), Value::Chain(Chain::Random { endpoints: 2 })),
            (Key::Pool(sticky), Value::Chain(Chain::Sticky { endpoints: 1, timeout: Duration::from_secs(60) })),
            (Key::Slot(pool, 0), Value::Endpoint(EndpointId(0x97))),
            (Key::Slot(sticky, 0), Value::Endpoint(EndpointId(0x99))),
            (Key::Address(EndpointId(0x97)), Value::Backend(backend(1))),
            (Key::Address(EndpointId(0x99)), Value::Backend(backend(3))),
            (Key::Sticky(EndpointId(0x99)), Value::Present),
            (Key::Hairpin(Ipv4Addr::new(10, 244, 1, 1)), Value::Present),
        ],
    };
    let known = BTreeSet::from([Chain::Random { endpoints: 2 }]);
    insta::assert_snapshot!(update(&delta, &known));
}

#[test]
fn a_full_load_of_nothing_is_the_constant_table() {
    let constants =
        Constants { services: Some("10.96.0.0/16".parse().unwrap()), own_dns: Some(Ipv4Addr::new(10, 96, 0, 10)) };
    insta::assert_snapshot!(full_load(&constants, &Delta::default(), Reload::Keep));
}

#[test]
fn long_lists_are_split_into_statements() {
    let added = (0..1100).map(|slot| (Key::Slot(PoolId(7), slot), Value::Endpoint(EndpointId(9)))).collect();
    let text = update(&Delta { removed: Vec::new(), added }, &BTreeSet::new());
    assert_eq!(text.lines().count(), 3);
}
