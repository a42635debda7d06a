//! Updates of a pod's status: the node's word, within what a status can be.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::{Map, Value, json};

use super::super::super::formats;
use super::super::super::keep::keep_in_metadata;
use super::super::super::rules::{At, Errors};
use super::super::container_status;
use super::super::pod_spec::qos;
use super::update;

/// Written by the claim controller.
const CLAIM_FIELDS: [&str; 3] =
    ["resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"];
const OWN_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

/// The class never changes; a writer that leaves it out does not take it away, nor what it does not know of: the
/// claims' fields and how far the node has got. Owners are not for the node to say.
pub(super) fn prepare(new: &mut Object, old: &Object) {
    keep_in_metadata(new, old, "ownerReferences");
    let class = old.get("/status/qosClass").cloned().or_else(|| new.get("/spec").map(|spec| qos::class(spec).into()));
    let Some(status) = new.as_map_mut().get_mut("status").and_then(Value::as_object_mut) else { return };
    if let Some(class) = class {
        status.entry("qosClass").or_insert(class);
    }
    for field in CLAIM_FIELDS {
        if let (Some(value), true) = (old.get(&format!("/status/{field}")), is_unset(status.get(field))) {
            status.insert(field.to_owned(), value.clone());
        }
    }
    keep_observed(status, old.get("/status"));
}

fn is_unset(value: Option<&Value>) -> bool {
    value.is_none_or(Value::is_null)
}

/// A generation once seen stays seen, in the status and in each condition.
fn keep_observed(status: &mut Map<String, Value>, old: Option<&Value>) {
    const OBSERVED: &str = "observedGeneration";
    let seen =
        |of: Option<&Value>| of.and_then(|of| of.get(OBSERVED)).and_then(Value::as_i64).filter(|seen| *seen != 0);
    let put = |fields: &mut Map<String, Value>, before: Option<i64>| {
        let unset = fields.get(OBSERVED).and_then(Value::as_i64).unwrap_or(0) == 0;
        if let Some(before) = before.filter(|_| unset) {
            fields.insert(OBSERVED.to_owned(), before.into());
        }
    };
    put(status, seen(old));
    let kind = |condition: &Value| condition.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    // Several conditions may have one type: each takes after its own counterpart.
    let mut before: BTreeMap<String, VecDeque<Option<i64>>> = BTreeMap::new();
    for condition in old.and_then(|old| old.get("conditions")).and_then(Value::as_array).into_iter().flatten() {
        before.entry(kind(condition)).or_default().push_back(seen(Some(condition)));
    }
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let own = before.get_mut(&kind(condition)).and_then(VecDeque::pop_front).flatten();
        if let Some(fields) = condition.as_object_mut() {
            put(fields, own);
        }
    }
}

/// The first address stands in two fields; where they disagree, the single one is meant: it is all that old nodes know.
pub(super) fn default(pod: &mut Object) {
    let Some(status) = pod.as_map_mut().get_mut("status").and_then(Value::as_object_mut) else { return };
    let one = status.get("podIP").filter(|ip| ip.as_str().is_some_and(|ip| !ip.is_empty())).cloned();
    let first = status.get("podIPs").and_then(|all| all.pointer("/0/ip")).cloned();
    match (one, first) {
        (Some(one), first) if first.as_ref() != Some(&one) => {
            status.insert("podIPs".to_owned(), json!([{"ip": one}]));
        }
        (None, Some(first)) => {
            status.insert("podIP".to_owned(), first);
        }
        _ => {}
    }
}

pub(super) fn validate(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    update::annotations(new, old, &mut errors);
    let (status, before) = (At::top(new, "status"), At::top(old, "status"));
    for (index, condition) in status.field("conditions").items().enumerate() {
        let kind = condition.field("type");
        if !OWN_CONDITIONS.contains(&kind.text()) {
            let at = At::top(new, "metadata").field("conditions").index(index).field("Type");
            errors.invalid_each(&kind.filed_under(&at), names::qualified_name(kind.text()));
        }
    }
    if At::top(new, "spec").field("nodeName").value() != At::top(old, "spec").field("nodeName").value() {
        errors.forbidden(&status.field("nodeName"), "may not be changed directly");
    }
    let nominated = status.field("nominatedNodeName");
    if !nominated.is_empty() && nominated.text() != before.field("nominatedNodeName").text() {
        errors.invalid_each(&nominated, names::name_is_dns_subdomain(nominated.text(), false));
    }
    if before.field("qosClass").is_set() {
        errors.immutable(&status.field("qosClass"), &before.field("qosClass"));
    }
    container_status::transitions(new, old, &mut errors);
    pod_ips(&status, &mut errors);
    host_ips(&status, &mut errors);
    errors.into_vec()
}

fn pod_ips(status: &At<'_>, errors: &mut Errors) {
    let all = status.field("podIPs");
    for address in all.items() {
        let at = address.field("ip").filed_under(&address);
        errors.invalid_each(&at, formats::ip(at.text()));
    }
    one_of_each_family(&all, errors);
}

fn host_ips(status: &At<'_>, errors: &mut Errors) {
    let all = status.field("hostIPs");
    if let Some(first) = all.items().next()
        && first.field("ip").text() != status.field("hostIP").text()
    {
        errors.invalid(&first.field("ip"), "must be equal to `hostIP`");
    }
    for address in all.items() {
        let at = address.field("ip").filed_under(&address);
        errors.invalid_each(&at, formats::ip(at.text()));
    }
    one_of_each_family(&all, errors);
}

fn one_of_each_family(all: &At<'_>, errors: &mut Errors) {
    if all.len() < 2 {
        return;
    }
    let addresses: Vec<&str> = all.items().map(|address| address.field("ip").text()).collect();
    if addresses.len() > 2 || !formats::is_dual_stack(addresses) {
        errors.invalid(all, "may specify no more than one IP for each IP family");
    }
    let mut taken = BTreeSet::new();
    for address in all.items() {
        if !taken.insert(address.field("ip").text()) {
            errors.duplicate(&address);
        }
    }
}
