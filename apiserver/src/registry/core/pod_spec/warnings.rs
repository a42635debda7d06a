//! What is allowed in a pod spec, but probably not meant.

use std::collections::BTreeMap;

use quorate_api::quantity::Quantity;

use super::super::super::rules::At;
use super::all_containers;
use super::resources::amount;

/// Labels that moved out of beta, with their lasting names.
const OLD_NODE_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch", "1.14"),
    ("beta.kubernetes.io/os", "kubernetes.io/os", "1.14"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region", "1.17"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone", "1.17"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type", "1.17"),
];

pub(crate) fn pod_spec(spec: &At<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, value) in spec.field("nodeSelector").entries() {
        if let Some((_, new, since)) = OLD_NODE_LABELS.iter().find(|(old, _, _)| *old == key) {
            warnings.push(format!("{}: deprecated since v{since}; use \"{new}\" instead", value.path()));
        }
    }
    for volume in spec.field("volumes").items() {
        if volume.field("gitRepo").is_set() {
            warnings.push(format!("{}: deprecated in v1.11", volume.field("gitRepo").path()));
        }
    }
    let grace = spec.field("terminationGracePeriodSeconds");
    if grace.number() < 0 {
        let path = grace.path();
        warnings.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    for container in all_containers(spec) {
        repeated_env(&container, &mut warnings);
        repeated_ports(&container, &mut warnings);
        fractions(&container, &mut warnings);
    }
    warnings
}

fn repeated_env(container: &At<'_>, warnings: &mut Vec<String>) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, variable) in container.field("env").items().enumerate() {
        let name = variable.field("name").text();
        if seen.insert(name, index).is_some() {
            let path = variable.path();
            warnings.push(format!(
                "{path}: hides previous definition of \"{name}\", which may be dropped when using apply"
            ));
        }
    }
}

fn repeated_ports(container: &At<'_>, warnings: &mut Vec<String>) {
    let mut seen = BTreeMap::new();
    for port in container.field("ports").items() {
        let key =
            (port.field("containerPort").number(), port.field("protocol").text(), port.field("hostPort").number());
        let path = port.path().to_string();
        if let Some(first) = seen.get(&key) {
            warnings.push(format!("{path}: duplicate port definition with {first}"));
        } else {
            seen.insert(key, path);
        }
    }
}

/// Memory and storage come in whole bytes.
fn fractions(container: &At<'_>, warnings: &mut Vec<String>) {
    for list in ["limits", "requests"] {
        let amounts = container.field("resources").field(list);
        for name in ["memory", "ephemeral-storage"] {
            let at = amounts.key(name);
            let Some(amount) = at.value().and_then(amount).filter(|amount| *amount > Quantity::zero()) else {
                continue;
            };
            if amount.milli_value() % 1000 != 0 {
                let path = at.path();
                warnings.push(format!("{path}: fractional byte value \"{amount}\" is invalid, must be an integer"));
            }
        }
    }
}
