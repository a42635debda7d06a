//! What controllers of replicated pods have in common.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use serde_json::{Value, json};

use super::core::pod_spec::{template, warnings};
use super::display::{
    AGE, CONTAINERS, IMAGES, NAME, SELECTOR, age, containers_and_images, integer, name, number_at, selector_of,
};
use super::rules::{At, Errors};
use super::selectors;
use super::strategy::{Column, Generation, Strategy};

/// What keeps a number of pods of one template running, whatever it is called: replica sets and replication
/// controllers differ in how they select.
pub(crate) const REPLICATED: Strategy = Strategy {
    prepare_create: |set| {
        set.as_map_mut().insert("status".to_owned(), json!({"replicas": 0}));
    },
    warnings: |new, old| warnings::workload(new, old, &warnings::spec_template(new), true),
    validate_status: |new, _| validate_status(new),
    columns: COLUMNS,
    cells,
    field_labels: |set| vec![("status.replicas", number_at(set, "/status/replicas").to_string())],
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    integer("Desired", "How many pods there should be."),
    integer("Current", "How many pods there are."),
    integer("Ready", "How many of them are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn cells(set: &Object, now: Timestamp) -> Vec<Value> {
    let [containers, images] = containers_and_images(set, "/spec/template/spec");
    vec![
        name(set),
        Value::from(number_at(set, "/spec/replicas")),
        Value::from(number_at(set, "/status/replicas")),
        Value::from(number_at(set, "/status/readyReplicas")),
        age(set, now),
        containers,
        images,
        Value::from(selector_of(set.get("/spec/selector"))),
    ]
}

/// Pods that a controller keeps running restart always and have no deadline.
pub(crate) fn always_restarting(pod_spec: &At<'_>, owner: &str, errors: &mut Errors) {
    let policy = pod_spec.field("restartPolicy");
    if policy.text() != "Always" {
        errors.not_supported(&policy, &["Always"]);
    }
    let deadline = pod_spec.field("activeDeadlineSeconds");
    if deadline.is_set() {
        errors.forbidden(&deadline, format!("activeDeadlineSeconds in {owner} is not Supported"));
    }
}

/// The counts of a status are not negative, and a part is not more than the whole.
pub(crate) fn validate_status(object: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let status = At::top(object, "status");
    for count in ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"] {
        errors.not_negative(&status.field(count));
    }
    for part in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        at_most(&status, part, "replicas", "cannot be greater than status.replicas", &mut errors);
    }
    at_most(&status, "availableReplicas", "readyReplicas", "cannot be greater than readyReplicas", &mut errors);
    errors.into_vec()
}

pub(crate) fn at_most(status: &At<'_>, part: &str, whole: &str, detail: &str, errors: &mut Errors) {
    if status.field(part).number() > status.field(whole).number() {
        errors.invalid(&status.field(part), detail);
    }
}

/// The selector of a controller: present, not empty, and fitting the labels of its own template.
pub(crate) fn selector(spec: &At<'_>, owner: &str, errors: &mut Errors) {
    let selector = spec.field("selector");
    if !selector.is_set() {
        return errors.required(&selector, "");
    }
    selectors::label_selector(&selector, errors);
    if selectors::is_empty_selector(&selector) {
        errors.invalid(&selector, format!("empty selector is invalid for {owner}"));
    }
}

/// The template, in the words of a ReplicaSet, which the kinds built on it share.
pub(crate) fn template(spec: &At<'_>, owner: &str, errors: &mut Errors) {
    let pods = spec.field("template");
    template_labels(spec, &pods, errors);
    template::validate(&pods, errors);
    always_restarting(&pods.field("spec"), owner, errors);
}

pub(crate) fn template_labels(spec: &At<'_>, pods: &At<'_>, errors: &mut Errors) {
    let labels = pods.field("metadata").field("labels");
    let selector = spec.field("selector").value();
    if selector.is_some_and(|selector| !selectors::matches(selector, labels.value())) {
        errors.invalid(&labels, "`selector` does not match template `labels`");
    }
}

/// Which pods belong to a controller never changes.
pub(crate) fn fixed_selector(new: &Object, old: &Object, errors: &mut Errors) {
    errors.immutable(&At::top(new, "spec").field("selector"), &At::top(old, "spec").field("selector"));
}
