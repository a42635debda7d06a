//! Volumes projected from several sources, and the downward API as files.

use std::collections::BTreeSet;

use quorate_api::validate as names;
use serde_json::Value;

use super::super::super::rules::{At, Errors};
use super::super::super::selectors;
use super::{env, paths};

const MIN_TOKEN_SECONDS: i64 = 10 * 60;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;
const SAME_PATH: &str = "conflicting duplicate paths";
const KEY_TYPES: &[&str] = &["ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"];

pub(super) fn downward_api(at: &At<'_>, errors: &mut Errors) {
    paths::file_mode(&at.field("defaultMode"), errors);
    for file in at.field("items").items() {
        downward_file(&file.filed_under(at), errors);
    }
}

fn downward_file(file: &At<'_>, errors: &mut Errors) {
    let path = file.field("path");
    errors.need(&path);
    paths::local_unreserved(&path, errors);
    let (field, resource) = (file.field("fieldRef"), file.field("resourceFieldRef"));
    if field.is_set() {
        env::field_selector(&field, env::VOLUME_FIELDS, errors);
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.invalid_value(file, "resource", detail);
        }
    } else if resource.is_set() {
        env::resource_selector(&resource, true, errors);
    } else {
        errors.required(file, "one of fieldRef and resourceFieldRef is required");
    }
    paths::file_mode(&file.field("mode"), errors);
}

pub(super) fn projected(at: &At<'_>, errors: &mut Errors) {
    paths::file_mode(&at.field("defaultMode"), errors);
    let mut taken = BTreeSet::new();
    for source in at.field("sources").items() {
        let mut kinds = 0;
        for (kind, rule) in SOURCES {
            let one = source.field(kind);
            if one.is_set() {
                kinds += 1;
                rule(&one, at, &mut taken, errors);
            }
        }
        if kinds > 1 {
            errors.forbidden(&source, "may not specify more than 1 volume type per source");
        }
    }
}

/// Judges one source of the volume at the second place; paths already taken come third.
type Rule = for<'a> fn(&At<'a>, &At<'a>, &mut BTreeSet<&'a str>, &mut Errors);

const SOURCES: &[(&str, Rule)] = &[
    ("secret", keyed),
    ("configMap", keyed),
    ("downwardAPI", downward),
    ("serviceAccountToken", token),
    ("clusterTrustBundle", trust_bundle),
    ("podCertificate", certificate),
];

fn keyed<'a>(at: &At<'a>, volume: &At<'a>, taken: &mut BTreeSet<&'a str>, errors: &mut Errors) {
    let name = at.field("name");
    errors.need(&name);
    for item in at.field("items").items() {
        paths::key_to_path(&item, errors);
        let path = item.field("path").text();
        if !path.is_empty() && !taken.insert(path) {
            errors.invalid_value(volume, name.text(), SAME_PATH);
        }
    }
}

fn downward<'a>(at: &At<'a>, volume: &At<'a>, taken: &mut BTreeSet<&'a str>, errors: &mut Errors) {
    for file in at.field("items").items() {
        downward_file(&file.filed_under(at), errors);
        take_path(file.field("path").text(), volume, taken, errors);
    }
}

fn take_path<'a>(path: &'a str, volume: &At<'a>, taken: &mut BTreeSet<&'a str>, errors: &mut Errors) {
    if !path.is_empty() && !taken.insert(path) {
        errors.invalid_value(volume, path, SAME_PATH);
    }
}

fn token<'a>(at: &At<'a>, volume: &At<'a>, _taken: &mut BTreeSet<&'a str>, errors: &mut Errors) {
    let seconds = at.field("expirationSeconds");
    if seconds.number() < MIN_TOKEN_SECONDS {
        errors.invalid_value(&seconds, seconds.number(), "may not specify a duration less than 10 minutes");
    }
    if seconds.number() > MAX_TOKEN_SECONDS {
        errors.invalid(&seconds, "may not specify a duration larger than 2^32 seconds");
    }
    let path = at.field("path").filed_under(&volume.field("path"));
    if errors.need(&path) {
        paths::local_unreserved(&path, errors);
    }
}

fn trust_bundle<'a>(at: &At<'a>, volume: &At<'a>, taken: &mut BTreeSet<&'a str>, errors: &mut Errors) {
    let (name, signer) = (at.field("name"), at.field("signerName"));
    match (name.is_set(), signer.is_set()) {
        (true, true) => errors.invalid(at, "only one of name and signerName may be used"),
        (true, false) => {
            if name.is_empty() {
                errors.required(&name, "must be a valid object name");
            }
            for message in names::name_is_dns_subdomain(name.text().rsplit(':').next().unwrap_or_default(), false) {
                errors.invalid(&name, format!("not a valid clustertrustbundlename: {message}"));
            }
            if at.field("labelSelector").is_set() {
                let detail = "labelSelector must be unset if name is specified";
                errors.invalid(&at.field("labelSelector"), detail);
            }
        }
        (false, true) => {
            if signer.is_empty() {
                errors.required(&signer, "must be a valid signer name");
            }
            selectors::label_selector(&at.field("labelSelector"), errors);
        }
        (false, false) => errors.required(at, "either name or signerName must be specified"),
    }
    let path = at.field("path");
    errors.need(&path);
    paths::local_unreserved(&path, errors);
    take_path(path.text(), volume, taken, errors);
}

fn certificate<'a>(at: &At<'a>, volume: &At<'a>, taken: &mut BTreeSet<&'a str>, errors: &mut Errors) {
    errors.need(&at.field("signerName"));
    errors.one_of(&at.field("keyType"), KEY_TYPES);
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = at.field(field);
        if path.value().is_some_and(Value::is_string) {
            paths::local_unreserved(&path, errors);
            take_path(path.text(), volume, taken, errors);
        }
    }
}
