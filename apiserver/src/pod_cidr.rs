//! Each node's share of the pod network, given out once: reserved when a machine joins, or when its Node is created,
//! and given back when the Node goes away. All of it happens in transactions, so no two nodes ever share a range.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::pin::Pin;

use bytes::Bytes;
use ipnet::Ipv4Net;
use quorate_api::name::GroupResource;
use quorate_api::object::Object;
use quorate_api::status::Status;
use quorate_raft_store::{Compare, Consistency, Numbering, Op, Outcome, Range, Transaction};
use serde_json::{Value, json};

use crate::registry::guard::{GuardRequest, Guards};
use crate::storage::{Storage, key, read_status};

/// Joins that race for the same range try the next one, so often at most.
const MAX_ATTEMPTS: u32 = 32;
/// Ranges that are looked at one by one before all that is taken is read.
const BLIND_CHOICES: usize = 4;
const BY_RANGE: &str = "pod-cidr";
const BY_NODE: &str = "pod-cidr-of";

/// The pod network, and how much of it one node gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodNetwork {
    pub cidr: Ipv4Net,
    pub node_prefix: u8,
}

impl Default for PodNetwork {
    fn default() -> Self {
        Self { cidr: Ipv4Net::new_assert(Ipv4Addr::new(10, 244, 0, 0), 16), node_prefix: 24 }
    }
}

impl PodNetwork {
    fn ranges(self) -> u32 {
        let bits = u32::from(self.node_prefix.saturating_sub(self.cidr.prefix_len()));
        1_u32.checked_shl(bits).unwrap_or(u32::MAX)
    }

    fn range(self, index: u32) -> Option<Ipv4Net> {
        let size = 1_u64 << (32 - u32::from(self.node_prefix.min(32)));
        let start = u64::from(u32::from(self.cidr.network())) + u64::from(index) * size;
        Ipv4Net::new(Ipv4Addr::from(u32::try_from(start).ok()?), self.node_prefix).ok()
    }

    fn encode(self) -> String {
        format!("1 {} {}", self.cidr, self.node_prefix)
    }

    fn decode(text: &str) -> Option<Self> {
        let mut words = text.split(' ').skip(1);
        Some(Self { cidr: words.next()?.parse().ok()?, node_prefix: words.next()?.parse().ok()? })
    }
}

/// Records the network for the cluster's life; what is recorded already wins over `network`.
pub async fn record(storage: &Storage, network: PodNetwork) -> Result<(), Status> {
    let put = Op::Put { key: network_key(), value: network.encode().into(), ttl: None };
    let compares = vec![Compare::Absent { key: network_key() }];
    storage.commit(Transaction { compares, then: vec![put], numbering: Numbering::PerObject }).await.map(drop)
}

/// The range of `node`, reserved now if it has none.
pub async fn reserve(storage: &Storage, node: &str) -> Result<Ipv4Net, Status> {
    for _attempt in 0..MAX_ATTEMPTS {
        let Some(plan) = plan(storage, node).await? else {
            return Err(Status::service_unavailable("the pod network has no range left"));
        };
        if plan.guards.ops.is_empty() {
            return Ok(plan.range);
        }
        let Guards { compares, ops, .. } = plan.guards;
        let outcome = storage.commit(Transaction { compares, then: ops, numbering: Numbering::PerObject }).await?;
        if matches!(outcome, Outcome::Committed { .. }) {
            return Ok(plan.range);
        }
    }
    Err(Status::service_unavailable("too many machines join at once; try again"))
}

/// What the Node's own transaction adds: its range on create, the range's return on delete.
pub fn guards(request: GuardRequest<'_>) -> Pin<Box<dyn Future<Output = Result<Guards, Status>> + Send + '_>> {
    Box::pin(async move {
        match (request.new, request.old) {
            (Some(new), None) => created(request.storage, new).await,
            (None, Some(old)) => returned(request.storage, old.name()).await,
            (Some(_), Some(_)) | (None, None) => Ok(Guards::default()),
        }
    })
}

async fn created(storage: &Storage, node: &mut Object) -> Result<Guards, Status> {
    let name = node.name().to_owned();
    if let Some(wish) = node.get("/spec/podCIDR").and_then(Value::as_str).filter(|wish| !wish.is_empty()) {
        let wish = wish.to_owned();
        return claimed(storage, &name, &wish).await;
    }
    let Some(plan) = plan(storage, &name).await? else {
        // A node without a range is of use to those who bring a network of their own.
        tracing::warn!(node = name, "the pod network has no range left");
        return Ok(Guards::default());
    };
    let range = plan.range.to_string();
    node.set("/spec/podCIDRs", json!([range])).map_err(Status::internal)?;
    node.set("/spec/podCIDR", range).map_err(Status::internal)?;
    Ok(plan.guards)
}

/// A range that the Node's creator chose.
async fn claimed(storage: &Storage, node: &str, wish: &str) -> Result<Guards, Status> {
    let Ok(range) = wish.parse::<Ipv4Net>() else { return Ok(Guards::default()) };
    match read(storage, range_key(range)).await? {
        Some(owner) if owner == node => Ok(Guards::default()),
        Some(owner) => {
            let why = format!("pod CIDR {range} belongs to node {owner:?}");
            Err(Status::forbidden(&GroupResource::new("", "nodes"), node, why))
        }
        None => Ok(taking(node, range)),
    }
}

async fn returned(storage: &Storage, node: &str) -> Result<Guards, Status> {
    let Some(range) = read(storage, node_key(node)).await?.and_then(|text| text.parse::<Ipv4Net>().ok()) else {
        return Ok(Guards::default());
    };
    let ops = vec![Op::Delete { key: range_key(range) }, Op::Delete { key: node_key(node) }];
    Ok(Guards { ops, ..Guards::default() })
}

struct Plan {
    range: Ipv4Net,
    /// Without operations the range is the node's already.
    guards: Guards,
}

/// `None`: all ranges are taken.
async fn plan(storage: &Storage, node: &str) -> Result<Option<Plan>, Status> {
    if let Some(text) = read(storage, node_key(node)).await? {
        let range = text.parse().map_err(|error| Status::internal(format!("the pod CIDR of {node}: {error}")))?;
        let compares = vec![Compare::Value { key: node_key(node), value: text.into() }];
        return Ok(Some(Plan { range, guards: Guards { compares, ..Guards::default() } }));
    }
    let network = network(storage).await?;
    let taken = Range { count_only: true, ..Range::prefix(key::internal(BY_RANGE, "")) };
    let taken = storage.page(taken, Consistency::Linearizable).await?.remaining.unwrap_or(0);
    // Ranges are given out in order, so as many as are taken are likely to be the first ones.
    let first = u32::try_from(taken).unwrap_or(u32::MAX) % network.ranges();
    let ranges = (0..network.ranges()).filter_map(|step| network.range((first + step) % network.ranges()));
    for range in ranges.clone().take(BLIND_CHOICES) {
        if read(storage, range_key(range)).await?.is_none() {
            return Ok(Some(Plan { range, guards: taking(node, range) }));
        }
    }
    let taken = all_taken(storage).await?;
    let free = ranges.skip(BLIND_CHOICES).find(|range| !taken.contains(&range_key(*range)));
    Ok(free.map(|range| Plan { range, guards: taking(node, range) }))
}

async fn all_taken(storage: &Storage) -> Result<BTreeSet<Bytes>, Status> {
    let mut range = Range { keys_only: true, ..Range::prefix(key::internal(BY_RANGE, "")) };
    let mut taken = BTreeSet::new();
    loop {
        let page = storage.page(range.clone(), Consistency::Linearizable).await?;
        taken.extend(page.items.iter().map(|item| item.key.clone()));
        match page.next_start() {
            Some(next) => range = Range { start: next, revision: Some(page.revision), ..range },
            None => return Ok(taken),
        }
    }
}

fn taking(node: &str, range: Ipv4Net) -> Guards {
    let (by_range, by_node) = (range_key(range), node_key(node));
    Guards {
        compares: vec![Compare::Absent { key: by_range.clone() }, Compare::Absent { key: by_node.clone() }],
        ops: vec![
            Op::Put { key: by_range, value: node.to_owned().into(), ttl: None },
            Op::Put { key: by_node, value: range.to_string().into(), ttl: None },
        ],
        ..Guards::default()
    }
}

async fn network(storage: &Storage) -> Result<PodNetwork, Status> {
    let recorded = read(storage, network_key()).await?;
    Ok(recorded.and_then(|text| PodNetwork::decode(&text)).unwrap_or_default())
}

async fn read(storage: &Storage, key: Bytes) -> Result<Option<String>, Status> {
    let (found, _revision) = storage.store().get(key, Consistency::Linearizable).await.map_err(read_status)?;
    Ok(found.map(|kv| String::from_utf8_lossy(&kv.value).into_owned()))
}

fn range_key(range: Ipv4Net) -> Bytes {
    key::internal(BY_RANGE, &range.to_string())
}

fn node_key(node: &str) -> Bytes {
    key::internal(BY_NODE, node)
}

fn network_key() -> Bytes {
    key::internal("network", "pods")
}

#[cfg(test)]
mod tests {
    use quorate_env::{Env, Scope};
    use quorate_raft_store::{Config, Store};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_given_back_is_found_again_and_an_end_is_no_error_of_the_store() {
        let env = Env::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 7);
        let storage = Storage::new(Store::open(Config::in_memory("m1"), env, Scope::root("test")).await.unwrap());
        let network = PodNetwork { cidr: "10.244.0.0/20".parse().unwrap(), node_prefix: 24 };
        record(&storage, network).await.unwrap();
        for node in 0..16 {
            reserve(&storage, &format!("n{node}")).await.unwrap();
        }
        assert!(plan(&storage, "late").await.unwrap().is_none());
        assert_eq!(reserve(&storage, "late").await.unwrap_err().code, 503);
        // Far from where the count of those taken points to.
        let back = returned(&storage, "n9").await.unwrap();
        let transaction = Transaction { compares: Vec::new(), then: back.ops, numbering: Numbering::PerObject };
        storage.commit(transaction).await.unwrap();
        assert_eq!(reserve(&storage, "late").await.unwrap().to_string(), "10.244.9.0/24");
    }

    #[test]
    fn ranges_tile_the_network() {
        let network = PodNetwork::default();
        assert_eq!(network.ranges(), 256);
        assert_eq!(network.range(0).unwrap().to_string(), "10.244.0.0/24");
        assert_eq!(network.range(255).unwrap().to_string(), "10.244.255.0/24");
        assert_eq!(PodNetwork::decode(&network.encode()), Some(network));
    }
}
