//! The pod's volumes: unique names, exactly one source each.

use std::collections::{BTreeMap, BTreeSet};

use quorate_api::validate as names;
use serde_json::Value;

use super::super::super::rules::{At, Errors};
use super::{Owner, volume_sources};

const TWO_SOURCES: &str = "may not specify more than 1 volume type";

/// Judges all volumes and answers the good ones by name.
pub(super) fn validate<'a>(all: &At<'a>, owner: Owner<'_>, errors: &mut Errors) -> BTreeMap<&'a str, &'a Value> {
    let mut good = BTreeMap::new();
    let made_here = claims_made_for(all, owner);
    for volume in all.items() {
        let before = errors.len();
        source(&volume, owner, errors);
        let name = volume.field("name");
        if errors.need(&name) {
            errors.invalid_each(&name, names::dns1123_label(name.text()));
        }
        if good.contains_key(name.text()) {
            errors.duplicate(&name);
        }
        if let Some(value) = volume.value().filter(|_| errors.len() == before) {
            good.insert(name.text(), value);
        }
        let claim = volume.field("persistentVolumeClaim").field("claimName");
        if made_here.contains(claim.text()) {
            errors.invalid(&claim, "must not reference a PVC that gets created for an ephemeral volume");
        }
    }
    good
}

fn claims_made_for(all: &At<'_>, owner: Owner<'_>) -> BTreeSet<String> {
    let Owner::Pod(pod) = owner else { return BTreeSet::new() };
    if pod.is_empty() {
        return BTreeSet::new();
    }
    let ephemeral = all.items().filter(|volume| volume.field("ephemeral").is_set());
    ephemeral.map(|volume| format!("{pod}-{}", volume.field("name").text())).collect()
}

fn source(volume: &At<'_>, owner: Owner<'_>, errors: &mut Errors) {
    let mut found = 0;
    for (kind, rule) in volume_sources::POD {
        let at = volume.field(kind);
        if !at.is_set() {
            continue;
        }
        if found > 0 {
            errors.forbidden(&at, TWO_SOURCES);
            continue;
        }
        found += 1;
        rule(&at, errors);
    }
    if found == 0 {
        errors.required(volume, "must specify a volume type");
    }
    by_owner(volume, owner, errors);
}

/// Rules that join the volume's name, the pod's name and the source.
fn by_owner(volume: &At<'_>, owner: Owner<'_>, errors: &mut Errors) {
    let name = volume.field("name");
    if let Owner::Pod(pod) = owner {
        if volume.field("ephemeral").is_set() && !pod.is_empty() && !name.is_empty() {
            let claim = format!("{pod}-{}", name.text());
            for message in names::name_is_dns_subdomain(&claim, false) {
                errors.invalid(&name, format!("PVC name \"{claim}\": {message}"));
            }
        }
        let image = volume.field("image");
        if image.is_set() {
            errors.need(&image.field("reference"));
        }
    }
    let iscsi = volume.field("iscsi");
    let portal = iscsi.field("targetPortal").text();
    if iscsi.field("initiatorName").is_set() && name.text().len() + 1 + portal.len() > volume_sources::MAX_ISCSI_NAME {
        errors.invalid(&name, volume_sources::ISCSI_NAME_TOO_LONG);
    }
}
