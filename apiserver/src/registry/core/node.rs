//! Node: mostly its own agent's word, with a few fields that never change once set.

use std::collections::BTreeSet;

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Value, json};

use super::super::defaulting::{ensure, text as text_of};
use super::super::display::{
    AGE, NAME, NONE, UNKNOWN, age, bool_at, field, has_true_condition, items_at, name, or, text, text_at, wide,
};
use super::super::formats;
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Strategy};
use super::pod_spec::resources::resource_amount;
use super::pod_spec::taints;

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";
const CIDR_CHANGED: &str = "node updates may not change podCIDR except from \"\" to valid";

pub(crate) static STRATEGY: Strategy = Strategy {
    guards: Some(crate::pod_cidr::guards),
    default,
    validate_create,
    validate_update,
    validate_status: validate_update,
    keep_status_on_create: true,
    columns: COLUMNS,
    cells,
    field_labels: |node| {
        let cordoned = bool_at(node, "/spec/unschedulable").unwrap_or_default();
        vec![("spec.unschedulable", cordoned.to_string())]
    },
    warnings: |new, _| {
        let told = [
            ("/spec/configSource", "spec.configSource: the feature is removed"),
            ("/spec/externalID", "spec.externalID: this field is deprecated, and is unused by Kubernetes"),
        ];
        told.iter().filter(|(field, _)| new.get(field).is_some()).map(|(_, text)| (*text).to_owned()).collect()
    },
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text("Status", "Whether it is ready, and whether it takes pods."),
    text("Roles", "What its labels say it is for."),
    AGE,
    text("Version", "The version of its agent."),
    wide(text("Internal-IP", "Its address in the cluster.")),
    wide(text("External-IP", "Its address outside of the cluster.")),
    wide(text("OS-Image", "Its operating system.")),
    wide(text("Kernel-Version", "Its kernel.")),
    wide(text("Container-Runtime", "What runs its containers.")),
];

fn cells(node: &Object, now: Timestamp) -> Vec<Value> {
    let info = |field: &str| text_at(node, &format!("/status/nodeInfo/{field}")).to_owned();
    let shown = |field: &str| Value::from(or(&info(field), UNKNOWN));
    vec![
        name(node),
        Value::from(status(node)),
        Value::from(or(&roles(node), NONE)),
        age(node, now),
        Value::from(info("kubeletVersion")),
        Value::from(address(node, "InternalIP")),
        Value::from(address(node, "ExternalIP")),
        shown("osImage"),
        shown("kernelVersion"),
        shown("containerRuntimeVersion"),
    ]
}

fn status(node: &Object) -> String {
    let known = items_at(node, "/status/conditions").iter().any(|condition| field(condition, "type") == "Ready");
    let ready = match (known, has_true_condition(node, "/status/conditions", "Ready")) {
        (true, true) => "Ready",
        (true, false) => "NotReady",
        (false, _) => "Unknown",
    };
    let cordoned = bool_at(node, "/spec/unschedulable").unwrap_or_default();
    if cordoned { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}

fn roles(node: &Object) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in node.labels().iter() {
        match key.strip_prefix(ROLE_PREFIX) {
            Some(role) if !role.is_empty() => roles.insert(role),
            _ if key == ROLE_LABEL && !value.is_empty() => roles.insert(value),
            _ => false,
        };
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(node: &'a Object, kind: &str) -> &'a str {
    let addresses = items_at(node, "/status/addresses");
    addresses.iter().find(|address| field(address, "type") == kind).map_or(NONE, |address| field(address, "address"))
}

fn default(node: &mut Object) {
    let spec = ensure(node.as_map_mut(), "spec");
    one_and_many_cidrs(spec);
    let Some(status) = node.as_map_mut().get_mut("status").and_then(Value::as_object_mut) else { return };
    if let Some(capacity) = status.get("capacity").cloned() {
        status.entry("allocatable").or_insert(capacity);
    }
}

/// `podCIDR` is the first of `podCIDRs`.
fn one_and_many_cidrs(spec: &mut Value) {
    let one = text_of(spec, "podCIDR").to_owned();
    let first = spec.pointer("/podCIDRs/0").and_then(Value::as_str).map(str::to_owned);
    let Some(fields) = spec.as_object_mut() else { return };
    match first {
        Some(first) => fields.insert("podCIDR".to_owned(), Value::from(first)),
        None if !one.is_empty() => fields.insert("podCIDRs".to_owned(), json!([one])),
        None => None,
    };
}

fn validate_create(node: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(node, "spec");
    taints(&spec.field("taints").filed_under(&At::top(node, "metadata").field("taints")), &mut errors);
    amounts(node, &mut errors);
    pod_cidrs(&spec.field("podCIDRs"), &mut errors);
    errors.into_vec()
}

fn amounts(node: &Object, errors: &mut Errors) {
    for list in ["capacity", "allocatable"] {
        let list = At::top(node, "status").field(list);
        for (resource, amount) in list.entries() {
            resource_amount(resource, &amount.filed_under(&list.field(resource)), errors);
        }
    }
}

fn pod_cidrs(all: &At<'_>, errors: &mut Errors) {
    for cidr in all.items() {
        errors.invalid_each(&cidr, formats::cidr(cidr.text()));
    }
    if all.len() < 2 {
        return;
    }
    let networks = all.items().map(|cidr| cidr.text().split('/').next().unwrap_or_default());
    if all.len() > 2 || !formats::is_dual_stack(networks) {
        errors.invalid(all, "may specify no more than one CIDR for each IP family");
    }
    let mut taken = BTreeSet::new();
    for cidr in all.items() {
        if !taken.insert(cidr.text()) {
            errors.duplicate(&cidr);
        }
    }
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    amounts(new, &mut errors);
    let mut seen: Vec<&Value> = Vec::new();
    for address in At::top(new, "status").field("addresses").items() {
        let Some(value) = address.value() else { continue };
        if seen.contains(&value) {
            errors.duplicate(&address);
        }
        seen.push(value);
    }
    let (spec, before) = (At::top(new, "spec"), At::top(old, "spec"));
    let (networks, old_networks) = (spec.field("podCIDRs"), before.field("podCIDRs"));
    if !old_networks.is_empty() && networks.value() != old_networks.value() {
        errors.forbidden(&networks, CIDR_CHANGED);
    }
    let (provider, old_provider) = (spec.field("providerID"), before.field("providerID"));
    if !old_provider.is_empty() && provider.text() != old_provider.text() {
        let what = if provider.is_empty() { "cleared" } else { "modified" };
        errors.invalid_value(&provider, Value::Null, format!("field cannot be {what} once set"));
    }
    taints(&spec.field("taints").filed_under(&At::top(new, "metadata").field("taints")), &mut errors);
    if spec.field("externalID").value() != before.field("externalID").value() {
        errors.forbidden(&spec.field("externalID"), "may not be updated");
    }
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{check, check_update, row, stored, with};
    use super::*;

    fn node() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
            "spec": {"podCIDR": "10.244.1.0/24", "providerID": "a://1"},
            "status": {"capacity": {"cpu": "2", "pods": "110"}},
        })
    }

    #[test]
    fn what_it_has_is_what_it_can_give() {
        assert_eq!(
            stored(&STRATEGY, node()),
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
                "spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"], "providerID": "a://1"},
                "status": {
                    "allocatable": {"cpu": "2", "pods": "110"},
                    "capacity": {"cpu": "2", "pods": "110"},
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                    "nodeInfo": info(),
                },
            })
        );
    }

    /// Upstream sends these even when nothing is known.
    fn info() -> Value {
        let fields = [
            "architecture",
            "bootID",
            "containerRuntimeVersion",
            "kernelVersion",
            "kubeProxyVersion",
            "kubeletVersion",
            "machineID",
            "operatingSystem",
            "osImage",
            "systemUUID",
        ];
        fields.iter().map(|field| ((*field).to_owned(), json!(""))).collect::<serde_json::Map<_, _>>().into()
    }

    #[test]
    fn nodes_are_judged() {
        check(
            &STRATEGY,
            &node(),
            &[
                (
                    "/spec/taints",
                    json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}, {"key": "b"}]),
                    &[
                        "metadata.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}: taints must be unique by key and effect pair",
                        "metadata.taints[2].effect: Required value",
                    ],
                ),
                (
                    "/spec/podCIDRs",
                    json!(["10.244.1.0/24", "10.244.2.0/24", "x"]),
                    &[
                        "spec.podCIDRs[2]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                        "spec.podCIDRs: Invalid value: [\"10.244.1.0/24\",\"10.244.2.0/24\",\"x\"]: may specify no more than one CIDR for each IP family",
                    ],
                ),
                (
                    "/status/allocatable",
                    json!({"pods": "1500m"}),
                    &["status.allocatable.pods: Invalid value: \"1500m\": must be an integer"],
                ),
            ],
        );
        check_update(
            &STRATEGY,
            &node(),
            &[
                ("/spec/unschedulable", json!(true), &[]),
                (
                    "/spec/podCIDRs",
                    json!(["10.244.9.0/24"]),
                    &["spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"],
                ),
                (
                    "/spec/providerID",
                    json!("b://1"),
                    &["spec.providerID: Invalid value: null: field cannot be modified once set"],
                ),
            ],
        );
    }

    #[test]
    fn rows() {
        let ready = json!({
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.37.0", "osImage": "Debian", "kernelVersion": "6.1",
                "containerRuntimeVersion": "containerd://1.7"},
        });
        let node =
            with(&with(&node(), "/status", ready), "/metadata/labels", json!({"node-role.kubernetes.io/worker": ""}));
        assert_eq!(
            row(&STRATEGY, node.clone()),
            ["n1", "Ready", "worker", "10m", "v1.37.0", "10.0.0.1", "<none>", "Debian", "6.1", "containerd://1.7"]
        );
        let cordoned = with(&with(&node, "/spec/unschedulable", json!(true)), "/status", json!({}));
        assert_eq!(row(&STRATEGY, cordoned)[1], "Unknown,SchedulingDisabled");
        let lost = with(&node, "/status/conditions/0/status", json!("Unknown"));
        assert_eq!(row(&STRATEGY, lost)[1], "NotReady");
    }
}
