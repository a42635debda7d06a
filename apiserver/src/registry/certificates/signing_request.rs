//! CertificateSigningRequest: a wish for a certificate, its approval, and the certificate.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::Value;

use super::super::display::{AGE, NAME, NONE, age, field, human_duration, items_at, name, or, text, text_at};
use super::super::keep::keep;
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Strategy};

const MIN_SECONDS: i64 = 600;
/// Conditions that have a door of their own.
const APPROVALS: [&str; 2] = ["Approved", "Denied"];

pub(crate) static STRATEGY: Strategy = Strategy {
    validate_create,
    // What is asked for never changes, and what becomes of it has doors of its own.
    prepare_update: |new, old| keep(new, old, "spec"),
    prepare_status,
    validate_status: |new, old| {
        let mut errors = Errors::default();
        removed(new, old, &mut errors);
        added(new, old, &mut errors);
        errors.into_vec()
    },
    columns: COLUMNS,
    cells,
    field_labels: |request| vec![("spec.signerName", text_at(request, "/spec/signerName").to_owned())],
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    AGE,
    text("SignerName", "Who shall sign."),
    text("Requestor", "Who asks."),
    text("RequestedDuration", "For how long."),
    text("Condition", "What became of it."),
];

fn cells(request: &Object, now: Timestamp) -> Vec<Value> {
    let seconds = request.get("/spec/expirationSeconds").and_then(Value::as_i64);
    vec![
        name(request),
        age(request, now),
        Value::from(or(text_at(request, "/spec/signerName"), NONE)),
        Value::from(text_at(request, "/spec/username")),
        Value::from(seconds.map_or_else(|| NONE.to_owned(), human_duration)),
        Value::from(condition(request)),
    ]
}

fn condition(request: &Object) -> String {
    let has = |kind: &str| items_at(request, "/status/conditions").iter().any(|c| field(c, "type") == kind);
    let mut words = vec![match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }];
    if has("Failed") {
        words.push("Failed");
    }
    if !text_at(request, "/status/certificate").is_empty() {
        words.push("Issued");
    }
    words.join(",")
}

fn conditions<'a>(request: &'a Object, kind: &str) -> Vec<&'a Value> {
    items_at(request, "/status/conditions").iter().filter(|condition| field(condition, "type") == kind).collect()
}

/// Through the status nobody approves or denies: such conditions stay as they are.
fn prepare_status(new: &mut Object, old: &Object) {
    for kind in APPROVALS {
        let before: Vec<Value> = conditions(old, kind).into_iter().cloned().collect();
        if before.len() != conditions(new, kind).len() {
            continue;
        }
        let own = new.get_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten();
        for (condition, before) in own.filter(|condition| field(condition, "type") == kind).zip(before) {
            *condition = before;
        }
    }
}

/// A word that was spoken is not taken back.
fn removed(new: &Object, old: &Object, errors: &mut Errors) {
    for kind in APPROVALS.into_iter().chain(["Failed"]) {
        if conditions(new, kind).len() < conditions(old, kind).len() {
            let detail = format!("updates may not remove a condition of type \"{kind}\"");
            errors.forbidden(&At::top(new, "status").field("conditions"), detail);
        }
    }
}

fn added(new: &Object, old: &Object, errors: &mut Errors) {
    for kind in APPROVALS {
        if conditions(new, kind).len() > conditions(old, kind).len() {
            let detail = format!("updates may not add a condition of type \"{kind}\"");
            errors.forbidden(&At::top(new, "status").field("conditions"), detail);
        }
    }
}

/// Of an approval, or a denial.
pub(crate) fn validate_approval(new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    removed(new, old, &mut errors);
    errors.into_vec()
}

fn validate_create(request: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = At::top(request, "spec");
    errors.need(&spec.field("request"));
    let usages = spec.field("usages");
    if usages.is_empty() {
        errors.required(&usages, "usages is required");
    }
    let signer = spec.field("signerName");
    if errors.need(&signer) {
        match signer.text().split_once('/') {
            Some((domain, path)) if !path.is_empty() => errors.invalid_each(&signer, names::dns1123_subdomain(domain)),
            _ => errors
                .invalid(&signer, "must be a fully qualified domain and path of the form 'example.com/signer-name'"),
        }
    }
    let seconds = spec.field("expirationSeconds");
    if seconds.integer().is_some_and(|seconds| seconds < MIN_SECONDS) {
        errors.invalid(&seconds, format!("may not specify a duration less than {MIN_SECONDS} seconds (10 minutes)"));
    }
    errors.into_vec()
}
