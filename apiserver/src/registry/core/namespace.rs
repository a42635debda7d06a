//! Namespace: active until deleted, then terminating until its finalizers are gone.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::{Value, json};

use super::super::defaulting::{default_text, ensure, set};
use super::super::display::{AGE, NAME, age, items_at, name, text, text_at};
use super::super::keep::keep;
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Strategy};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// Keeps the namespace while it has content.
const CONTENT_FINALIZER: &str = "kubernetes";
const STANDARD_FINALIZERS: [&str; 3] = [CONTENT_FINALIZER, "orphan", "foregroundDeletion"];

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    prepare_create,
    prepare_update,
    validate_create,
    validate_name: names::name_is_dns_label,
    prepare_status: |new, old| keep(new, old, "spec"),
    validate_status,
    holds_deletion: |namespace| !items_at(namespace, "/spec/finalizers").is_empty(),
    mark_deleting: |namespace| {
        // No grace is given or counted: it ends when its content is gone.
        namespace.set_deletion_grace_period_seconds(None);
        set(ensure(namespace.as_map_mut(), "status"), "phase", "Terminating");
    },
    columns: COLUMNS,
    cells,
    field_labels: |namespace| {
        let phase = text_at(namespace, "/status/phase").to_owned();
        vec![("status.phase", phase), ("name", namespace.name().to_owned())]
    },
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[NAME, text("Status", "Active, or Terminating while its content goes away."), AGE];

fn cells(namespace: &Object, now: Timestamp) -> Vec<Value> {
    vec![name(namespace), Value::from(text_at(namespace, "/status/phase")), age(namespace, now)]
}

fn default(namespace: &mut Object) {
    label_with_name(namespace);
    default_text(ensure(namespace.as_map_mut(), "status"), "phase", "Active");
}

/// Selectors find a namespace by this label, so it follows the name.
fn label_with_name(namespace: &mut Object) {
    let name = namespace.name().to_owned();
    if !name.is_empty() {
        namespace.set_label(NAME_LABEL, &name);
    }
}

fn prepare_create(namespace: &mut Object) {
    label_with_name(namespace);
    let fields = namespace.as_map_mut();
    fields.insert("status".to_owned(), json!({"phase": "Active"}));
    if let Some(spec) = ensure(fields, "spec").as_object_mut() {
        let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut()
            && !finalizers.iter().any(|finalizer| finalizer == CONTENT_FINALIZER)
        {
            finalizers.push(Value::from(CONTENT_FINALIZER));
        }
    }
}

/// Finalizers change through `/finalize` only.
fn prepare_update(new: &mut Object, old: &Object) {
    keep(new, old, "spec");
    keep(new, old, "status");
}

fn validate_create(namespace: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let finalizers = At::top(namespace, "spec").field("finalizers");
    for finalizer in finalizers.items() {
        finalizer_name(&finalizer.filed_under(&finalizers), &mut errors);
    }
    errors.into_vec()
}

/// What `/finalize` may leave behind.
pub(crate) fn validate_finalize(new: &Object, _old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    for finalizer in At::top(new, "spec").field("finalizers").items() {
        finalizer_name(&finalizer, &mut errors);
    }
    errors.into_vec()
}

fn finalizer_name(at: &At<'_>, errors: &mut Errors) {
    errors.invalid_each(at, names::qualified_name(at.text()));
    if !at.text().contains('/') && !STANDARD_FINALIZERS.contains(&at.text()) {
        errors.invalid(at, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

fn validate_status(new: &Object, _old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let phase = At::top(new, "status").field("phase");
    let at = phase.filed_under(&At::top(new, "status").field("Phase"));
    if new.is_deleting() && phase.text() != "Terminating" {
        errors.invalid_value(&at, phase.text(), "may only be 'Terminating' if `deletionTimestamp` is not empty");
    }
    if !new.is_deleting() && phase.text() != "Active" {
        errors.invalid_value(&at, phase.text(), "may only be 'Active' if `deletionTimestamp` is empty");
    }
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{check, row, status_faults, stored, with};
    use super::*;

    fn namespace() -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    }

    #[test]
    fn it_is_labelled_and_active() {
        assert_eq!(
            stored(&STRATEGY, namespace()),
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": "team", "labels": {"kubernetes.io/metadata.name": "team"}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            })
        );
    }

    #[test]
    fn finalizers_and_phases_are_judged() {
        let unknown = "spec.finalizers: Invalid value: \"mine\": name is neither a standard finalizer name nor is it \
                       fully qualified";
        check(&STRATEGY, &namespace(), &[("/spec", json!({"finalizers": ["mine"]}), &[unknown])]);
        let mut active = stored(&STRATEGY, namespace());
        assert_eq!(
            status_faults(&STRATEGY, &active, json!({"phase": "Terminating"})),
            ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"]
        );
        active["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(status_faults(&STRATEGY, &active, json!({"phase": "Terminating"})), [""; 0]);
        assert_eq!((STRATEGY.validate_name)("A.b", false).len(), 1);
    }

    #[test]
    fn updates_keep_finalizers() {
        let old = Object::from_value(stored(&STRATEGY, namespace())).unwrap();
        let mut new = Object::from_value(with(&namespace(), "/spec", json!({"finalizers": []}))).unwrap();
        (STRATEGY.prepare_update)(&mut new, &old);
        assert_eq!(new.get("/spec/finalizers"), Some(&json!(["kubernetes"])));
    }

    #[test]
    fn rows() {
        assert_eq!(row(&STRATEGY, stored(&STRATEGY, namespace())), ["team", "Active", "10m"]);
    }
}
