//! Pod templates inside workloads, and the metadata of templates.

use quorate_api::object::StringMap;
use quorate_api::validate as names;

use super::super::super::rules::{At, Errors};
use super::super::super::selectors;
use super::{Owner, all_containers, validate as validate_spec};

/// Carried by the API's image of a pod that a node runs of its own accord.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// A template that a controller makes pods from.
pub(crate) fn validate(template: &At<'_>, errors: &mut Errors) {
    metadata(template, errors);
    let spec = template.field("spec");
    validate_spec(&spec, Owner::Template, errors);
    if !spec.field("ephemeralContainers").is_empty() {
        errors.forbidden(&spec.field("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

/// Labels and annotations of a template, and what the annotations say of its pods.
pub(crate) fn metadata(template: &At<'_>, errors: &mut Errors) {
    let metadata = template.field("metadata");
    selectors::labels(&metadata.field("labels").filed_under(&template.field("labels")), errors);
    let notes = metadata.field("annotations").filed_under(&template.field("annotations"));
    annotations(&notes, errors);
    pod_annotations(&notes, &template.field("spec"), errors);
}

fn annotations(at: &At<'_>, errors: &mut Errors) {
    errors.extend(names::annotations(StringMap::new(at.value()), at.path()));
}

/// Annotations that mean something for a pod.
pub(crate) fn pod_annotations(at: &At<'_>, spec: &At<'_>, errors: &mut Errors) {
    let mirror = at.key(MIRROR);
    if mirror.is_set() && spec.field("nodeName").is_empty() {
        errors.invalid(&mirror, "must set spec.nodeName if mirror pod annotation is set");
    }
    let cost = at.key(DELETION_COST);
    if cost.is_set() && !is_deletion_cost(cost.text()) {
        errors.invalid(&cost, "must be a 32bit integer");
    }
    for (key, profile) in at.entries() {
        let Some(container) = key.strip_prefix(APP_ARMOR_PREFIX) else { continue };
        if !all_containers(spec).any(|c| c.field("name").text() == container) {
            errors.invalid_value(&profile, container, "container not found");
        }
        let text = profile.text();
        if !matches!(text, "" | "runtime/default" | "unconfined") && !text.starts_with("localhost/") {
            errors.invalid(&profile, format!("invalid AppArmor profile name: \"{text}\""));
        }
    }
}

/// A 32-bit number written plainly: no sign, no leading zero.
fn is_deletion_cost(text: &str) -> bool {
    let plain = !text.starts_with('+') && (text.len() == 1 || !text.starts_with('0'));
    plain && text.parse::<i32>().is_ok()
}

/// Of a template's metadata only labels and annotations may be given.
pub(crate) fn embedded_metadata(metadata: &At<'_>, errors: &mut Errors) {
    annotations(&metadata.field("annotations"), errors);
    selectors::labels(&metadata.field("labels"), errors);
    for (name, value) in metadata.entries() {
        if !matches!(name, "labels" | "annotations") && !value.is_empty() {
            errors.forbidden(&metadata.field(name), "cannot be set");
        }
    }
}
