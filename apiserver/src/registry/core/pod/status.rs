//! Updates of a pod's status: the node's word, within what a status can be.

use std::collections::BTreeSet;

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::Value;

use super::super::super::formats;
use super::super::super::rules::{At, Errors};
use super::super::container_status;
use super::super::pod_spec::qos;
use super::update;

const OWN_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

/// The class never changes; a writer that leaves it out does not take it away.
pub(super) fn prepare(new: &mut Object, old: &Object) {
    let class = old.get("/status/qosClass").cloned().or_else(|| new.get("/spec").map(|spec| qos::class(spec).into()));
    let Some(status) = new.as_map_mut().get_mut("status").and_then(Value::as_object_mut) else { return };
    if let Some(class) = class {
        status.entry("qosClass").or_insert(class);
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
