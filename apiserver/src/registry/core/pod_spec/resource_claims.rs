//! The pod's claims on devices.

use std::collections::BTreeSet;

use quorate_api::validate as names_of_objects;

use super::super::super::rules::{At, Errors};

pub(super) fn names<'a>(claims: &At<'a>) -> BTreeSet<&'a str> {
    claims.items().map(|claim| claim.field("name").text()).filter(|name| !name.is_empty()).collect()
}

pub(super) fn validate(claims: &At<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for claim in claims.items() {
        let name = claim.field("name");
        if errors.need(&name) {
            if taken.insert(name.text()) {
                errors.invalid_each(&name, names_of_objects::dns1123_label(name.text()));
            } else {
                errors.duplicate(&name);
            }
        }
        source(&claim, errors);
    }
}

fn source(claim: &At<'_>, errors: &mut Errors) {
    let (existing, template) = (claim.field("resourceClaimName"), claim.field("resourceClaimTemplateName"));
    match (existing.is_set(), template.is_set()) {
        (true, true) => {
            errors.invalid(claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified");
        }
        (false, false) => {
            errors.invalid(claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`");
        }
        (true, false) | (false, true) => {}
    }
    for at in [existing, template] {
        if at.is_set() {
            errors.invalid_each(&at, names_of_objects::name_is_dns_subdomain(at.text(), false));
        }
    }
}
