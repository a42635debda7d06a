//! PersistentVolume: a piece of storage.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::quantity::Quantity;
use quorate_api::validate as names;
use serde_json::{Value, json};

use super::super::defaulting::{default_text, default_value, ensure};
use super::super::difference::difference;
use super::super::display::{AGE, NAME, UNSET, age, name, or, text, text_at, wide};
use super::super::rules::{At, Errors, NOT_POSITIVE};
use super::super::strategy::{Column, Strategy};
use super::persistent_volume_claim::{VOLUME_MODES, access_mode_list, access_modes, class};
use super::pod_spec::affinity::node_selector;
use super::pod_spec::defaults;
use super::pod_spec::resources::quantity;
use super::pod_spec::volume_sources::{PERSISTENT, is_source};

const RECLAIM_POLICIES: &[&str] = &["Delete", "Recycle", "Retain"];
const TWO_SOURCES: &str = "may not specify more than 1 volume type";

pub(crate) static STRATEGY: Strategy = Strategy {
    default: |volume| {
        let spec = ensure(volume.as_map_mut(), "spec");
        default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
        default_value(spec, "volumeMode", "Filesystem");
        defaults::volume_source(spec);
        default_text(ensure(volume.as_map_mut(), "status"), "phase", "Pending");
    },
    prepare_create: |volume| {
        volume.as_map_mut().insert("status".to_owned(), json!({"phase": "Pending"}));
    },
    validate_create,
    validate_update,
    columns: COLUMNS,
    cells,
    return_deleted_object: true,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text("Capacity", "Its size."),
    text("Access Modes", "How it can be mounted."),
    text("Reclaim Policy", "What becomes of it when its claim goes."),
    text("Status", "Whether it is free, bound or released."),
    text("Claim", "The claim it is bound to."),
    text("StorageClass", "The kind of storage it is."),
    text("VolumeAttributesClass", "Its changeable attributes."),
    text("Reason", "Why it failed."),
    AGE,
    wide(text("VolumeMode", "Whether it is a file system or a block device.")),
];

fn cells(volume: &Object, now: Timestamp) -> Vec<Value> {
    let phase = if volume.is_deleting() { "Terminating" } else { text_at(volume, "/status/phase") };
    let claim = volume.get("/spec/claimRef").map_or_else(String::new, |_| {
        format!("{}/{}", text_at(volume, "/spec/claimRef/namespace"), text_at(volume, "/spec/claimRef/name"))
    });
    vec![
        name(volume),
        Value::from(or(text_at(volume, "/spec/capacity/storage"), "0")),
        Value::from(access_modes(volume, "/spec/accessModes")),
        Value::from(text_at(volume, "/spec/persistentVolumeReclaimPolicy")),
        Value::from(phase),
        Value::from(claim),
        Value::from(class(volume)),
        Value::from(or(text_at(volume, "/spec/volumeAttributesClassName"), UNSET)),
        Value::from(text_at(volume, "/status/reason")),
        age(volume, now),
        Value::from(or(text_at(volume, "/spec/volumeMode"), UNSET)),
    ]
}

fn validate_create(volume: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(volume, "spec");
    let modes = spec.field("accessModes");
    errors.need(&modes);
    access_mode_list(&modes, &mut errors);
    capacity(&spec.field("capacity"), &mut errors);
    errors.if_set_one_of(&spec.field("persistentVolumeReclaimPolicy"), RECLAIM_POLICIES);
    let affinity = spec.field("nodeAffinity");
    if affinity.is_set() {
        if affinity.field("required").is_set() {
            node_selector(&affinity.field("required"), &mut errors);
        } else {
            errors.required(&affinity.field("required"), "must specify required node constraints");
        }
    }
    source(&spec, &mut errors);
    if spec.field("local").is_set() && !affinity.is_set() {
        errors.required(&affinity, "Local volume requires node affinity");
    }
    let root = spec.field("hostPath").field("path").text();
    if !root.is_empty()
        && root.trim_matches('/').is_empty()
        && text_at(volume, "/spec/persistentVolumeReclaimPolicy") == "Recycle"
    {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden(&spec.field("persistentVolumeReclaimPolicy"), detail);
    }
    let class = spec.field("storageClassName");
    if !class.is_empty() {
        errors.invalid_each(&class, names::name_is_dns_subdomain(class.text(), false));
    }
    errors.if_set_one_of(&spec.field("volumeMode"), VOLUME_MODES);
    errors.into_vec()
}

fn capacity(at: &At<'_>, errors: &mut Errors) {
    errors.need(at);
    if at.len() != 1 || !at.key("storage").is_set() {
        errors.push(FieldError::not_supported(at.path(), at.value().cloned().unwrap_or_default(), &["storage"]));
    }
    for (_, amount) in at.entries() {
        if quantity(&amount).is_some_and(|size| size <= Quantity::zero()) {
            errors.invalid(&amount, NOT_POSITIVE);
        }
    }
}

fn source(spec: &At<'_>, errors: &mut Errors) {
    let mut found = 0;
    for (kind, rule) in PERSISTENT {
        let at = spec.field(kind);
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
        errors.required(spec, "must specify a volume type");
    }
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.extend(validate_create(new));
    let sources = |volume: &Object| {
        let mut spec = volume.get("/spec").cloned().unwrap_or_default();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|field, _| is_source(field));
        }
        spec
    };
    let (after, before) = (sources(new), sources(old));
    if after != before {
        let at = At::top(new, "spec").field("persistentvolumesource");
        let changes = difference(&before, &after, "spec");
        errors.forbidden(&at, format!("spec.persistentvolumesource is immutable after creation\n{changes}"));
    }
    let (spec, old_spec) = (At::top(new, "spec"), At::top(old, "spec"));
    errors.immutable(&spec.field("volumeMode").filed_at_top("volumeMode"), &old_spec.field("volumeMode"));
    let affinity = old_spec.field("nodeAffinity");
    if affinity.is_set() && spec.field("nodeAffinity").value() != affinity.value() {
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.invalid(&spec.field("nodeAffinity").filed_at_top("nodeAffinity"), detail);
    }
    errors.into_vec()
}
