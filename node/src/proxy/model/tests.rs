//! The shadow against a kernel that is as strict as the real one.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::network::catalog::samples::{endpoint, service, slice};
use crate::network::catalog::{Catalog, Change, Endpoint, Protocol, Service, SliceSource};
use crate::proxy::plan::{HostProtocol, Viewpoint, plan};

/// Refuses what nft refuses: removing what is not there, adding what is.
#[derive(Debug, Default, Clone, PartialEq)]
struct Kernel(BTreeMap<Key, Value>);

impl Kernel {
    fn apply(&mut self, delta: &Delta) {
        for key in &delta.removed {
            assert!(self.0.remove(key).is_some(), "{key:?} is removed but was not there");
        }
        for (key, value) in &delta.added {
            assert_eq!(self.0.insert(*key, *value), None, "{key:?} is added twice");
        }
    }

    /// Fronts with the backends they lead to; checks that slots are dense on the way.
    fn meaning(&self) -> BTreeMap<Key, BTreeSet<Backend>> {
        let fronts = self.0.iter().filter_map(|(key, value)| match value {
            Value::Pool(id) => Some((*key, self.pool(*id))),
            Value::Backend(backend) if matches!(key, Key::HostPort(..) | Key::HostPortAt(..)) => {
                Some((*key, BTreeSet::from([*backend])))
            }
            Value::Verdict(_) => Some((*key, BTreeSet::new())),
            _ => None,
        });
        fronts.collect()
    }

    fn pool(&self, id: PoolId) -> BTreeSet<Backend> {
        if id == DROP_POOL {
            return BTreeSet::new();
        }
        let Some(Value::Chain(chain)) = self.0.get(&Key::Pool(id)) else { panic!("{id:?} has no chain") };
        let (Chain::Random { endpoints } | Chain::Sticky { endpoints, .. }) = chain;
        let sticky = matches!(chain, Chain::Sticky { .. });
        (0..*endpoints)
            .map(|slot| {
                let Some(Value::Endpoint(endpoint)) = self.0.get(&Key::Slot(id, slot)) else {
                    panic!("slot {slot} of {id:?} is empty");
                };
                assert_eq!(self.0.contains_key(&Key::Sticky(*endpoint)), sticky);
                self.backend(Key::Address(*endpoint))
            })
            .collect()
    }

    fn backend(&self, key: Key) -> Backend {
        match self.0.get(&key) {
            Some(Value::Backend(backend)) => *backend,
            other => panic!("{key:?} holds {other:?}"),
        }
    }

    /// Elements but for the order of slots, which depends on history.
    fn without_slot_order(&self) -> BTreeSet<String> {
        self.0
            .iter()
            .map(|(key, value)| match key {
                Key::Slot(id, _) => format!("slot of {id:?}: {value:?}"),
                _ => format!("{key:?}: {value:?}"),
            })
            .collect()
    }
}

fn backend(text: &str) -> Backend {
    Backend { address: text.parse().unwrap(), port: 8080 }
}

#[test]
fn slots_stay_in_place_when_others_go() {
    let of = |texts: &[&str]| texts.iter().map(|text| backend(text)).collect::<Vec<_>>();
    let wanted = |texts: &[&str]| texts.iter().map(|text| backend(text)).collect::<BTreeSet<_>>();
    let old = of(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]);
    assert_eq!(
        reslot(old.clone(), &wanted(&["10.0.0.1", "10.0.0.3", "10.0.0.4"])),
        of(&["10.0.0.1", "10.0.0.4", "10.0.0.3"])
    );
    assert_eq!(
        reslot(old.clone(), &wanted(&["10.0.0.1", "10.0.0.3", "10.0.0.4", "10.0.0.9"])),
        of(&["10.0.0.1", "10.0.0.9", "10.0.0.3", "10.0.0.4"])
    );
    assert_eq!(reslot(old, &wanted(&[])), of(&[]));
}

#[test]
fn of_two_claims_the_first_stands_and_the_second_inherits() {
    let ports =
        |container_port| [HostPort { host_ip: None, host_port: 80, protocol: HostProtocol::Tcp, container_port }];
    let (mut model, mut kernel) = (Model::default(), Kernel::default());
    model.set_host_ports("a", Ipv4Addr::new(10, 0, 0, 1), &ports(1));
    model.set_host_ports("b", Ipv4Addr::new(10, 0, 0, 2), &ports(2));
    kernel.apply(&model.take_delta());
    let key = Key::HostPort(Protocol::Tcp, 80);
    assert_eq!(kernel.backend(key).port, 1);
    model.set_host_ports("a", Ipv4Addr::UNSPECIFIED, &[]);
    kernel.apply(&model.take_delta());
    assert_eq!(kernel.backend(key).port, 2);
    model.set_host_ports("b", Ipv4Addr::UNSPECIFIED, &[]);
    kernel.apply(&model.take_delta());
    assert_eq!(kernel, Kernel::default());
}

#[test]
fn a_change_of_one_endpoint_is_a_handful_of_elements() {
    let (mut catalog, mut model) = (Catalog::default(), Model::default());
    let many: Vec<Endpoint> = (1..=200).map(|last| endpoint(&format!("10.244.9.{last}"))).collect();
    for change in [
        Change::Service(service("web", "10.96.0.5")),
        Change::Slice(SliceSource::EndpointSlice, slice("s", "web", many.clone())),
        Change::Slice(SliceSource::EndpointSlice, slice("s", "web", &many[1..])),
    ] {
        model.take_delta();
        step(&mut catalog, &mut model, change);
    }
    let delta = model.take_delta();
    // One slot and one address less, the last slot moves into the gap, the pool's chain changes.
    assert_eq!((delta.removed.len(), delta.added.len()), (4, 2), "{delta:?}");
}

#[test]
fn overlapping_pod_ranges_are_merged() {
    let mut model = Model::default();
    let all = ["10.244.0.0/16", "10.244.1.0/24", "10.245.1.0/24"].map(|text| text.parse().unwrap());
    model.set_pod_ranges(Some("10.244.1.0/24".parse().unwrap()), &all.into());
    let keys: Vec<String> = model.full().added.iter().map(|(key, _)| format!("{} {key}", key.container())).collect();
    assert_eq!(keys, ["pods 10.244.0.0/16", "pods 10.245.1.0/24", "local_pods 10.244.1.0/24"]);
}

#[test]
fn ids_never_meet() {
    let mut ids: Ids<u32> = Ids::default();
    let all: BTreeSet<u32> = (0..50_000).map(|name| ids.of(&name)).collect();
    assert_eq!(all.len(), 50_000);
    assert!(all.iter().all(|id| *id > DROP_POOL.0));
    ids.remove(&7);
    assert_eq!(ids.names.len(), 49_999);
}

#[test]
fn udp_fronts_name_the_living_and_the_gone() {
    let (mut catalog, mut model) = (Catalog::default(), Model::default());
    let mut dns = service("dns", "10.96.0.5");
    dns.ports[0].protocol = Protocol::Udp;
    let mut endpoints = slice("s", "dns", [endpoint("10.0.0.1")]);
    endpoints.groups[0].ports[0].protocol = Protocol::Udp;
    step(&mut catalog, &mut model, Change::Service(dns.clone()));
    step(&mut catalog, &mut model, Change::Slice(SliceSource::EndpointSlice, endpoints));
    let touched = BTreeSet::from([dns.key.clone()]);
    let place = (Some(Ipv4Addr::new(10, 96, 0, 5)), 80);
    let fronts = model.udp_fronts(&touched, &model.full());
    assert_eq!(fronts, BTreeMap::from([(place, Some(BTreeSet::from([backend("10.0.0.1")])))]));
    model.take_delta();
    step(&mut catalog, &mut model, Change::ServiceGone(dns.key));
    let delta = model.take_delta();
    assert_eq!(model.udp_fronts(&touched, &delta), BTreeMap::from([(place, None)]));
}

fn viewpoint() -> Viewpoint {
    Viewpoint { node: "n1".into(), local_pods: Some("10.244.1.0/24".parse().unwrap()), own_dns: None }
}

fn step(catalog: &mut Catalog, model: &mut Model, change: Change) {
    for key in catalog.apply(change) {
        let wanted = catalog
            .service(&key)
            .map_or_else(Plan::default, |service| plan(service, catalog.groups_of(&key), &viewpoint()));
        model.set_service(&key, &wanted);
    }
}

/// A model that has seen nothing but the final state.
fn from_scratch(catalog: &Catalog) -> Kernel {
    let mut model = Model::default();
    for service in catalog.services() {
        model.set_service(&service.key, &plan(service, catalog.groups_of(&service.key), &viewpoint()));
    }
    let mut kernel = Kernel::default();
    kernel.apply(&model.full());
    kernel
}

fn any_service() -> impl Strategy<Value = Service> {
    (0..4u8, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(number, sticky, internal, external, node_port)| {
            let mut object = service(&format!("svc{number}"), &format!("10.96.0.{}", number + 1));
            object.affinity = sticky.then_some(Duration::from_secs(60));
            object.internal_local = internal;
            object.external_local = external;
            object.external_ips = vec![Ipv4Addr::new(192, 0, 2, number)];
            object.ports[0].node_port = node_port.then_some(30_000 + u16::from(number));
            object
        },
    )
}

fn any_endpoint() -> impl Strategy<Value = Endpoint> {
    (1..8u8, 0..4u8, any::<bool>()).prop_map(|(last, state, here)| Endpoint {
        ready: state == 0 || state == 1,
        serving: state != 3,
        terminating: state == 2,
        node: Some(if here { "n1" } else { "n2" }.into()),
        ..endpoint(&format!("10.244.1.{last}"))
    })
}

fn any_change() -> impl Strategy<Value = Change> {
    let slices = (0..6u8, 0..4u8, proptest::collection::vec(any_endpoint(), 0..6))
        .prop_map(|(name, owner, points)| slice(&format!("slice{name}"), &format!("svc{owner}"), points));
    prop_oneof![
        3 => any_service().prop_map(Change::Service),
        1 => (0..4u8).prop_map(|n| Change::ServiceGone(ServiceKey::new("default", &format!("svc{n}")))),
        6 => slices.prop_map(|slice| Change::Slice(SliceSource::EndpointSlice, slice)),
        2 => (0..6u8).prop_map(|n| {
            Change::SliceGone(SliceSource::EndpointSlice, ServiceKey::new("default", &format!("slice{n}")))
        }),
        1 => proptest::collection::vec(any_service(), 0..4).prop_map(Change::Services),
    ]
}

proptest! {
    #[test]
    fn differences_add_up_to_a_full_load(
        changes in proptest::collection::vec((any_change(), any::<bool>()), 1..60)
    ) {
        let (mut catalog, mut model, mut kernel) = (Catalog::default(), Model::default(), Kernel::default());
        for (change, flush) in changes {
            step(&mut catalog, &mut model, change);
            if flush {
                kernel.apply(&model.take_delta());
            }
        }
        kernel.apply(&model.take_delta());

        let mut full = Kernel::default();
        full.apply(&model.full());
        prop_assert_eq!(&kernel, &full, "the shadow is what was written");
        let fresh = from_scratch(&catalog);
        prop_assert_eq!(kernel.meaning(), fresh.meaning());
        prop_assert_eq!(kernel.without_slot_order(), fresh.without_slot_order());

        let endpoints = kernel.0.keys().filter(|key| matches!(key, Key::Address(_))).count();
        prop_assert_eq!(endpoints, model.endpoint_ids.names.len(), "ids of endpoints that went away are given back");
        prop_assert_eq!(model.slots.len(), model.pool_ids.names.len());
    }
}
