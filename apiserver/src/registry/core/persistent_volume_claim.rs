//! PersistentVolumeClaim: a wish for storage, fixed once it is made, but for its size.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::quantity::Quantity;
use quorate_api::validate as names;
use serde_json::{Map, Value, json};

use super::super::defaulting::{default_text, default_value, ensure};
use super::super::difference::difference;
use super::super::display::{AGE, NAME, UNSET, age, items_at, name, or, text, text_at, wide};
use super::super::rules::{At, Errors, NOT_POSITIVE};
use super::super::selectors;
use super::super::strategy::{Column, Strategy};
use super::pod_spec::resources::quantity;

pub(super) const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub(super) const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const FIXED: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

pub(crate) static STRATEGY: Strategy = Strategy {
    default: |claim| {
        let mut value = Value::Object(std::mem::take(claim.as_map_mut()));
        default_fields(&mut value);
        if let Value::Object(fields) = value {
            *claim.as_map_mut() = fields;
        }
    },
    prepare_create: |claim| {
        claim.as_map_mut().insert("status".to_owned(), json!({"phase": "Pending"}));
    },
    validate_create: |claim| {
        let mut errors = Errors::default();
        validate_spec(&At::top(claim, "spec"), &mut errors);
        errors.into_vec()
    },
    validate_update,
    columns: COLUMNS,
    cells,
    return_deleted_object: true,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    text("Status", "Whether it has a volume."),
    text("Volume", "The volume it has."),
    text("Capacity", "The volume's size."),
    text("Access Modes", "How the volume can be mounted."),
    text("StorageClass", "The kind of storage it asks for."),
    text("VolumeAttributesClass", "The volume's changeable attributes."),
    AGE,
    wide(text("VolumeMode", "Whether it is a file system or a block device.")),
];

fn cells(claim: &Object, now: Timestamp) -> Vec<Value> {
    let phase = if claim.is_deleting() { "Terminating" } else { text_at(claim, "/status/phase") };
    let volume = text_at(claim, "/spec/volumeName");
    let bound = !volume.is_empty();
    let capacity = if bound { or(text_at(claim, "/status/capacity/storage"), "0").to_owned() } else { String::new() };
    let modes = if bound { access_modes(claim, "/status/accessModes") } else { String::new() };
    vec![
        name(claim),
        Value::from(phase),
        Value::from(volume),
        Value::from(capacity),
        Value::from(modes),
        Value::from(class(claim)),
        Value::from(or(text_at(claim, "/spec/volumeAttributesClassName"), UNSET)),
        age(claim, now),
        Value::from(or(text_at(claim, "/spec/volumeMode"), UNSET)),
    ]
}

/// The class, from the annotation that came before the field.
pub(super) fn class(object: &Object) -> String {
    let annotated = object.annotation(CLASS_ANNOTATION);
    annotated.unwrap_or_else(|| text_at(object, "/spec/storageClassName")).to_owned()
}

/// Access modes in short, each once, in a fixed order.
pub(super) fn access_modes(object: &Object, pointer: &str) -> String {
    let modes: Vec<&str> = items_at(object, pointer).iter().filter_map(Value::as_str).collect();
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    short.iter().filter(|(mode, _)| modes.contains(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// Also for claims inside other objects.
pub(crate) fn default_fields(claim: &mut Value) {
    let Some(fields) = claim.as_object_mut() else { return };
    default_value(ensure(fields, "spec"), "volumeMode", "Filesystem");
    default_text(ensure(fields, "status"), "phase", "Pending");
}

pub(crate) fn validate_spec(spec: &At<'_>, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.required(&modes, "at least 1 access mode is required");
    }
    selectors::label_selector(&spec.field("selector"), errors);
    access_mode_list(&modes, errors);
    let storage = spec.field("resources").field("requests").key("storage");
    let at = storage.filed_under(&spec.field("resources").key("storage"));
    match quantity(&storage) {
        None => errors.required(&at, ""),
        Some(size) if size <= Quantity::zero() => errors.invalid(&at, NOT_POSITIVE),
        Some(_) => {}
    }
    for field in ["storageClassName", "volumeAttributesClassName"].map(|field| spec.field(field)) {
        if !field.is_empty() {
            errors.invalid_each(&field, names::name_is_dns_subdomain(field.text(), false));
        }
    }
    errors.if_set_one_of(&spec.field("volumeMode"), VOLUME_MODES);
    for source in ["dataSource", "dataSourceRef"].map(|source| spec.field(source)) {
        if source.is_set() {
            data_source(&source, errors);
        }
    }
}

pub(super) fn access_mode_list(modes: &At<'_>, errors: &mut Errors) {
    for mode in modes.items() {
        errors.one_of(&mode.filed_under(modes), ACCESS_MODES);
    }
    let once_pod = modes.items().any(|mode| mode.text() == "ReadWriteOncePod");
    let other = modes.items().any(|mode| mode.text() != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode.text()));
    if once_pod && other {
        errors.forbidden(modes, "may not use ReadWriteOncePod with other access modes");
    }
}

fn data_source(at: &At<'_>, errors: &mut Errors) {
    errors.need(&at.field("name"));
    errors.need(&at.field("kind"));
    let (group, kind) = (at.field("apiGroup"), at.field("kind"));
    if !group.is_empty() {
        errors.invalid_each(&group, names::dns1123_subdomain(group.text()));
    } else if kind.text() != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid_value(at, kind.text(), detail);
    }
}

fn validate_update(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let (spec, before) = (At::top(new, "spec"), At::top(old, "spec"));
    validate_spec(&spec, &mut errors);
    let bound = text_at(old, "/status/phase") == "Bound";
    let mut kept = fields(&spec);
    let old_fields = fields(&before);
    mask(&mut kept, &old_fields, bound);
    if kept != old_fields {
        let changes = difference(&Value::Object(old_fields), &Value::Object(kept), "spec");
        errors.forbidden(&spec, format!("{FIXED}\n{changes}"));
    }
    let size = |spec: &At<'_>| quantity(&spec.field("resources").field("requests").key("storage"));
    let actual = quantity(&At::top(old, "status").field("capacity").key("storage")).unwrap_or_else(Quantity::zero);
    if let (Some(after), Some(before)) = (size(&spec), size(&before))
        && after < before
        && after <= actual
    {
        let at = spec.field("resources").field("requests").field("storage");
        errors.forbidden(&at, "field can not be less than status.capacity");
    }
    errors.immutable(&spec.field("volumeMode").filed_at_top("volumeMode"), &before.field("volumeMode"));
    errors.into_vec()
}

fn fields(spec: &At<'_>) -> Map<String, Value> {
    spec.value().and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Puts the old values where a change is allowed: the volume and the class once, the size while bound.
fn mask(new: &mut Map<String, Value>, old: &Map<String, Value>, bound: bool) {
    let mut put = |field: &str| match old.get(field) {
        Some(value) => drop(new.insert(field.to_owned(), value.clone())),
        None => drop(new.remove(field)),
    };
    for field in ["volumeName", "storageClassName"] {
        if old.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
            put(field);
        }
    }
    if bound {
        put("volumeAttributesClassName");
        put("resources");
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{check, row, stored, update_faults, with};
    use super::*;

    fn claim() -> Value {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        })
    }

    #[test]
    fn a_claim_in_full() {
        let expected = with(&claim(), "/spec/volumeMode", json!("Filesystem"));
        assert_eq!(stored(&STRATEGY, claim()), with(&expected, "/status/phase", json!("Pending")));
    }

    #[test]
    fn claims_are_judged() {
        check(
            &STRATEGY,
            &claim(),
            &[
                (
                    "/spec/accessModes",
                    json!([]),
                    &["spec.accessModes: Required value: at least 1 access mode is required"],
                ),
                (
                    "/spec/accessModes",
                    json!(["ReadWriteOncePod", "ReadWriteOnce"]),
                    &["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
                ),
                ("/spec/resources", json!({}), &["spec.resources[storage]: Required value"]),
                (
                    "/spec/resources/requests/storage",
                    json!("0"),
                    &["spec.resources[storage]: Invalid value: \"0\": must be greater than zero"],
                ),
            ],
        );
    }

    #[test]
    fn a_bound_claim_may_grow_and_nothing_else() {
        let bound =
            with(&stored(&STRATEGY, claim()), "/status", json!({"phase": "Bound", "capacity": {"storage": "1Gi"}}));
        let change = |pointer: &str, value: Value| update_faults(&STRATEGY, &bound, with(&bound, pointer, value));
        assert_eq!(change("/spec/resources/requests/storage", json!("2Gi")), [""; 0]);
        let shrunk = change("/spec/resources/requests/storage", json!("512Mi"));
        assert_eq!(shrunk, ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]);
        let moved = change("/spec/accessModes", json!(["ReadOnlyMany"]));
        assert!(moved[0].starts_with("spec: Forbidden: spec is immutable after creation except"), "{moved:?}");
    }

    #[test]
    fn a_row() {
        let bound = with(&stored(&STRATEGY, claim()), "/spec/volumeName", json!("pv1"));
        let status = json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
        assert_eq!(
            row(&STRATEGY, with(&bound, "/status", status)),
            ["data", "Bound", "pv1", "1Gi", "RWO", "", "<unset>", "10m", "Filesystem"]
        );
    }
}
