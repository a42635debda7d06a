//! What is allowed in a pod or a template, but probably not meant. The texts are upstream's.

mod containers;
mod volumes;

use std::collections::BTreeSet;

use quorate_api::object::Object;
use quorate_api::quantity::Quantity;
use quorate_api::quote::quote;
use quorate_api::validate as names;

use super::super::super::rules::At;
use super::resources::amount;

/// Node labels that have other names today, or none.
const OLD_NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];
const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];
const POD_SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const USE_SECCOMP_FIELD: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const NO_POD: &str = "a null labelSelector results in matching no pod";

/// Of a pod that is made. Changes of pods are not people's, and there are many of them.
pub(crate) fn pod(new: &Object, old: Option<&Object>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let mut warnings = name(new, "this is used in the Pod's hostname");
    warnings.extend(all(&At::top(new, "metadata"), &At::top(new, "spec"), false));
    warnings
}

/// Of a workload that is made or changed. `named` tells whether its pods are called after it.
pub(crate) fn workload(new: &Object, old: Option<&Object>, template: &At<'_>, named: bool) -> Vec<String> {
    let mut warnings = match old {
        Some(old) if old.generation() == new.generation() => return Vec::new(),
        None if named => name(new, "this is used in Pod names and hostnames"),
        _ => Vec::new(),
    };
    warnings.extend(all(&template.field("metadata"), &template.field("spec"), true));
    warnings
}

/// The template of most workloads.
pub(crate) fn spec_template(object: &Object) -> At<'_> {
    At::top(object, "spec").field("template")
}

fn name(object: &Object, what: &str) -> Vec<String> {
    let messages = names::dns1123_label(object.name());
    if messages.is_empty() {
        return Vec::new();
    }
    let messages = messages.join(" ");
    vec![format!(
        "metadata.name: {what}, which can result in surprising behavior; a DNS label is recommended: [{messages}]"
    )]
}

fn all(metadata: &At<'_>, spec: &At<'_>, in_template: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    placement(spec, &mut warnings);
    let notes = metadata.field("annotations");
    for (key, message) in OLD_ANNOTATIONS.iter().filter(|(key, _)| notes.key(key).is_set()) {
        warnings.push(format!("{}: {message}", notes.key(key).path()));
    }
    volumes::warn(spec, &mut warnings);
    repeated(&spec.field("hostAliases"), "ip", &mut warnings);
    repeated(&spec.field("imagePullSecrets"), "name", &mut warnings);
    for secret in spec.field("imagePullSecrets").items().map(|secret| secret.field("name")) {
        if secret.is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", secret.path()));
        }
    }
    fractions(&spec.field("overhead"), &mut warnings);
    let seccomp = notes.key(POD_SECCOMP);
    if seccomp.is_set() && !spec.field("securityContext").field("seccompProfile").is_set() {
        warnings.push(format!("{}: {USE_SECCOMP_FIELD}", seccomp.path()));
    }
    containers::warn(&notes, spec, in_template, &mut warnings);
    let grace = spec.field("terminationGracePeriodSeconds");
    if grace.number() < 0 {
        let path = grace.path();
        warnings.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    pod_affinity(&spec.field("affinity"), &mut warnings);
    warnings
}

fn old_label(label: &str) -> Option<&'static str> {
    OLD_NODE_LABELS.iter().find(|(old, _)| *old == label).map(|(_, message)| *message)
}

fn placement(spec: &At<'_>, warnings: &mut Vec<String>) {
    for (key, value) in spec.field("nodeSelector").entries() {
        if let Some(message) = old_label(key) {
            warnings.push(format!("{}: {message}", value.path()));
        }
    }
    let affinity = spec.field("affinity").field("nodeAffinity");
    let required = affinity.field("requiredDuringSchedulingIgnoredDuringExecution").field("nodeSelectorTerms");
    for term in required.items() {
        node_term(&term, false, warnings);
    }
    for term in affinity.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
        node_term(&term.field("preference"), true, warnings);
    }
    for spread in spec.field("topologySpreadConstraints").items() {
        let key = spread.field("topologyKey");
        if let Some(message) = old_label(key.text()) {
            warnings.push(format!("{}: {} is {message}", key.path(), key.text()));
        }
        null_selector(&spread, warnings);
    }
}

/// The values of a required term are validated elsewhere; a preferred one with a bad value just never fits.
fn node_term(term: &At<'_>, values: bool, warnings: &mut Vec<String>) {
    for expression in term.field("matchExpressions").items() {
        let key = expression.field("key");
        if let Some(message) = old_label(key.text()) {
            warnings.push(format!("{}: {} is {message}", key.path(), key.text()));
        }
        for value in expression.field("values").items().filter(|_| values) {
            let text = value.text();
            let messages = names::label_value(text);
            warnings.extend(messages.into_iter().map(|why| format!("{}: {text} is invalid, {why}", value.path())));
        }
    }
}

fn null_selector(of: &At<'_>, warnings: &mut Vec<String>) {
    let selector = of.field("labelSelector");
    if !selector.is_set() {
        warnings.push(format!("{}: {NO_POD}", selector.path()));
    }
}

fn pod_affinity(affinity: &At<'_>, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"].map(|kind| affinity.field(kind)) {
        for term in kind.field("requiredDuringSchedulingIgnoredDuringExecution").items() {
            null_selector(&term, warnings);
        }
        for term in kind.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
            null_selector(&term.field("podAffinityTerm"), warnings);
        }
    }
}

fn repeated(list: &At<'_>, field: &str, warnings: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for item in list.items().map(|item| item.field(field)) {
        if !seen.insert(item.text()) {
            warnings.push(format!("{}: duplicate {field} {}", item.path(), quote(item.text())));
        }
    }
}

/// Memory and storage come in whole bytes.
fn fractions(amounts: &At<'_>, warnings: &mut Vec<String>) {
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

#[cfg(test)]
mod tests;
