//! Each node's allocation ledger: what its pods ask for, kept by the store as bounded counters.
//!
//! A binding debits the ledger with the node's allocatable as bound, in the transaction that sets the pod's node; the
//! write that ends or deletes the pod credits it in its own. So two schedulers cannot overcommit a node, and neither
//! has to retry. A pod created with its node already set is recorded without bound, as upstream leaves the judgement
//! to the node.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use quorate_api::name::GroupResource;
use quorate_api::object::Object;
use quorate_api::quantity::Quantity;
use quorate_api::status::Status;
use quorate_raft_store::{Compare, Consistency, Delta, Op, Outcome};
use serde_json::Value;

use crate::registry::guard::{GuardRequest, Guards};
use crate::storage::{Home, key, stored_status};

const PORT_PREFIX: &str = "port/";
/// `port/TCP/80`; a fourth part is an address of the node.
const PORT_PARTS: usize = 3;
/// A port on all of a node's addresses fills the port's counter; one on a single address takes a unit of it.
const WHOLE_PORT: i64 = 1 << 20;

/// What a pod takes: CPU in thousandths, everything else in whole units.
pub(crate) type Amounts = BTreeMap<String, i64>;

/// The ledger of one node.
pub(crate) fn ledger_key(node: &str) -> Bytes {
    key::internal("ledger", node)
}

/// Guards of every pod write.
pub(crate) fn guards(request: GuardRequest<'_>) -> Pin<Box<dyn Future<Output = Result<Guards, Status>> + Send + '_>> {
    Box::pin(pod_guards(request))
}

async fn pod_guards(request: GuardRequest<'_>) -> Result<Guards, Status> {
    let before = request.old.and_then(charge);
    let after = request.new.as_deref().and_then(charge);
    let mut guards = Guards { on_violation: Some(overcommitted), ..Guards::default() };
    match (before, after) {
        (before, after) if before == after => {}
        (Some((old_node, old)), Some((node, new))) if old_node == node => {
            push(&mut guards, &node, difference(&old, &new), &Amounts::new());
        }
        (before, after) => {
            let binds = request.old.is_some() && before.is_none();
            if let Some((node, amounts)) = before {
                let credit = amounts.into_iter().map(|(name, by)| (name, -by)).collect();
                push(&mut guards, &node, credit, &Amounts::new());
            }
            if let Some((node, amounts)) = after {
                let bounds = if binds { bounds(&request, &node, &amounts, &mut guards).await? } else { Amounts::new() };
                push(&mut guards, &node, amounts, &bounds);
            }
        }
    }
    Ok(guards)
}

fn push(guards: &mut Guards, node: &str, amounts: Amounts, bounds: &Amounts) {
    let deltas: Vec<Delta> = amounts
        .into_iter()
        .filter(|(_, by)| *by != 0)
        .map(|(name, by)| Delta { max: bounds.get(&name).copied(), min: None, by, name })
        .collect();
    if !deltas.is_empty() {
        guards.ops.push(Op::Add { key: ledger_key(node), deltas });
    }
}

fn difference(old: &Amounts, new: &Amounts) -> Amounts {
    let amount = |of: &Amounts, name: &String| of.get(name).copied().unwrap_or(0);
    old.keys().chain(new.keys()).map(|name| (name.clone(), amount(new, name) - amount(old, name))).collect()
}

/// The node's allocatable for what the pod asks; the transaction compares that the node is still there. A pod can be
/// bound to a name that no node has (yet): such a binding has no bound.
async fn bounds(
    request: &GuardRequest<'_>,
    node: &str,
    amounts: &Amounts,
    guards: &mut Guards,
) -> Result<Amounts, Status> {
    let nodes = Home::new("", "nodes");
    // The bound may be a heartbeat old; that there is none is only said of the newest state.
    let mut found = request.storage.get(&nodes, "", node, Consistency::Local).await?;
    if found.is_none() {
        found = request.storage.get(&nodes, "", node, Consistency::Linearizable).await?;
    }
    let Some(stored) = found else { return Ok(Amounts::new()) };
    guards.compares.push(Compare::Present { key: stored.key.clone() });
    let object = stored.object().map_err(stored_status)?;
    let allocatable = object.get("/status/allocatable").or_else(|| object.get("/status/capacity"));
    let mut bounds = Amounts::new();
    for (name, by) in amounts {
        if name.starts_with(PORT_PREFIX) {
            bounds.insert(name.clone(), port_bound(name, *by));
        } else if let Some(allocatable) = allocatable.and_then(Value::as_object) {
            bounds.insert(name.clone(), allocatable.get(name).map_or(0, |value| units(name, value)));
        }
    }
    Ok(bounds)
}

/// A single address can be taken once. Beside a port that is taken whole there is room for nothing.
fn port_bound(name: &str, by: i64) -> i64 {
    match name.split('/').count() {
        PORT_PARTS if by >= WHOLE_PORT => WHOLE_PORT,
        PORT_PARTS => WHOLE_PORT - 1,
        _ => 1,
    }
}

/// 409 that names the guard.
fn overcommitted(outcome: &Outcome) -> Status {
    let Outcome::BoundViolated { key, name, value, bound, .. } = outcome else {
        return Status::internal("a ledger refused without a bound");
    };
    let key = String::from_utf8_lossy(key);
    let node = key.rsplit('/').next().unwrap_or_default();
    let why = if name.starts_with(PORT_PREFIX) {
        format!("node {node:?} has no free {name}")
    } else {
        format!("node {node:?} has not enough {name}: {value} would be allocated of {bound}")
    };
    Status::conflict(&GroupResource::new("", "nodes"), node, why)
}

/// The node and what a pod takes there; nothing once the pod has ended.
pub(crate) fn charge(pod: &Object) -> Option<(String, Amounts)> {
    let node = pod.get("/spec/nodeName").and_then(Value::as_str).filter(|node| !node.is_empty())?;
    let phase = pod.get("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if matches!(phase, "Succeeded" | "Failed") {
        return None;
    }
    Some((node.to_owned(), amounts(pod)))
}

/// Requests by the init-container rule: the larger of what runs together and what any start-up step needs, with
/// restartable init containers running along; then overhead, ports, and the pod itself.
fn amounts(pod: &Object) -> Amounts {
    let (mut running, mut peak, mut sidecars) = (Amounts::new(), Amounts::new(), Amounts::new());
    for container in list(pod.get("/spec/initContainers")) {
        let own = requests(container);
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut step = sidecars.clone();
            add(&mut step, &own);
            raise(&mut peak, &step);
        }
    }
    for container in list(pod.get("/spec/containers")) {
        add(&mut running, &requests(container));
    }
    add(&mut running, &sidecars);
    raise(&mut running, &peak);
    for (name, value) in entries(pod.get("/spec/resources/requests")) {
        running.insert(name.clone(), units(name, value));
    }
    for (name, value) in entries(pod.get("/spec/overhead")) {
        *running.entry(name.clone()).or_default() += units(name, value);
    }
    add(&mut running, &host_ports(pod));
    running.insert("pods".to_owned(), 1);
    running
}

/// The host ports of the pod's containers: of each port the address, and the port itself so that a port on every
/// address and one on a single address exclude each other.
fn host_ports(pod: &Object) -> Amounts {
    let sidecars = list(pod.get("/spec/initContainers"))
        .iter()
        .filter(|container| container.get("restartPolicy").and_then(Value::as_str) == Some("Always"));
    let containers = list(pod.get("/spec/containers")).iter().chain(sidecars);
    let wanted: BTreeSet<(String, &str)> =
        containers.flat_map(|container| list(container.get("ports"))).filter_map(host_port).collect();
    let mut amounts = Amounts::new();
    for (port, address) in wanted {
        if address.is_empty() {
            amounts.insert(port, WHOLE_PORT);
        } else {
            amounts.insert(format!("{port}/{address}"), 1);
            *amounts.entry(port).or_default() += 1;
        }
    }
    amounts
}

fn requests(container: &Value) -> Amounts {
    entries(container.pointer("/resources/requests")).map(|(name, value)| (name.clone(), units(name, value))).collect()
}

fn units(name: &str, value: &Value) -> i64 {
    let quantity = Quantity::from_value(value).unwrap_or_default();
    if name == "cpu" { quantity.milli_value() } else { quantity.value() }
}

/// The port's counter, and the address if it is a single one.
fn host_port(port: &Value) -> Option<(String, &str)> {
    let number = port.get("hostPort").and_then(Value::as_i64).filter(|number| *number > 0)?;
    let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
    let address = port.get("hostIP").and_then(Value::as_str).filter(|ip| *ip != "0.0.0.0").unwrap_or_default();
    Some((format!("{PORT_PREFIX}{protocol}/{number}"), address))
}

fn add(sum: &mut Amounts, own: &Amounts) {
    for (name, by) in own {
        *sum.entry(name.clone()).or_default() += by;
    }
}

fn raise(floor: &mut Amounts, own: &Amounts) {
    for (name, by) in own {
        let held = floor.entry(name.clone()).or_default();
        *held = (*held).max(*by);
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_takes_what_it_needs_at_its_peak() {
        let pod = json!({"spec": {
            "nodeName": "n",
            "overhead": {"cpu": "10m"},
            "initContainers": [
                {"resources": {"requests": {"cpu": "1", "memory": "1Mi"}}},
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
            ],
            "containers": [
                {"resources": {"requests": {"cpu": "200m", "memory": "2Mi"}}, "ports": [{"hostPort": 80}]},
                {"resources": {"requests": {"memory": "1Mi", "example.com/gpu": "1"}}},
            ],
        }});
        let expected: Amounts =
            [("cpu", 1010), ("example.com/gpu", 1), ("memory", 3 << 20), ("pods", 1), ("port/TCP/80", WHOLE_PORT)]
                .map(|(name, amount)| (name.to_owned(), amount))
                .into();
        assert_eq!(charge(&Object::from_value(pod).unwrap()), Some(("n".to_owned(), expected)));
    }

    #[test]
    fn a_port_on_every_address_and_one_on_a_single_address_exclude_each_other() {
        let pod = json!({"spec": {"nodeName": "n", "containers": [{"ports": [
            {"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, {"containerPort": 1},
            {"hostPort": 53, "protocol": "UDP", "hostIP": "0.0.0.0"},
        ]}]}});
        let expected: Amounts =
            [("port/TCP/80", 2), ("port/TCP/80/10.0.0.1", 1), ("port/TCP/80/10.0.0.2", 1), ("port/UDP/53", WHOLE_PORT)]
                .map(|(name, amount)| (name.to_owned(), amount))
                .into();
        assert_eq!(host_ports(&Object::from_value(pod).unwrap()), expected);
        let bounds: Vec<i64> = expected.iter().map(|(name, by)| port_bound(name, *by)).collect();
        assert_eq!(bounds, [WHOLE_PORT - 1, 1, 1, WHOLE_PORT]);
    }

    #[test]
    fn an_ended_or_unbound_pod_takes_nothing() {
        let pod = |value| charge(&Object::from_value(value).unwrap());
        assert_eq!(pod(json!({"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}})), None);
        assert_eq!(pod(json!({"spec": {}})), None);
    }
}
