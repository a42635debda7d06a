//! CertificateSigningRequest: a wish for a certificate, its approval, and the certificate.

use jiff::Timestamp;
use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::Value;

use super::super::display::{AGE, NAME, NONE, age, field, human_duration, items_at, name, or, text, text_at};
use super::super::rules::{At, Errors};
use super::super::strategy::{Column, Strategy};

const MIN_SECONDS: i64 = 600;

pub(crate) static STRATEGY: Strategy = Strategy {
    validate_create,
    validate_update: |new, old| {
        let mut errors = Errors::default();
        errors.immutable(&At::top(new, "spec"), &At::top(old, "spec"));
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
