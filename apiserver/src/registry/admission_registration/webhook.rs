//! MutatingWebhookConfiguration and ValidatingWebhookConfiguration: whom to ask about writes.

use quorate_api::field::FieldError;
use quorate_api::object::Object;
use quorate_api::validate as names;
use serde_json::{Value, json};

use super::super::defaulting::{default_value, each, with};
use super::super::display::{AGE, NAME, age, count_at, integer, name};
use super::super::rules::{At, Errors};
use super::super::selectors;
use super::super::strategy::{Generation, Strategy};

const TIMEOUT_SECONDS: i64 = 10;
const MAX_TIMEOUT_SECONDS: i64 = 30;
const SERVICE_PORT: i64 = 443;
const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const REINVOCATIONS: &[&str] = &["IfNeeded", "Never"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];

pub(crate) static VALIDATING: Strategy = Strategy {
    default: |configuration| default(configuration, false),
    validate_create: validate,
    validate_update: |new, _| validate(new),
    columns: &[NAME, integer("Webhooks", "How many are asked."), AGE],
    cells: |configuration, now| {
        vec![name(configuration), Value::from(count_at(configuration, "/webhooks")), age(configuration, now)]
    },
    generation: Generation::OnSpecChange,
    ..Strategy::DEFAULT
};

pub(crate) static MUTATING: Strategy = Strategy { default: |configuration| default(configuration, true), ..VALIDATING };

fn default(configuration: &mut Object, mutating: bool) {
    let webhooks = configuration.as_map_mut().get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        default_value(webhook, "failurePolicy", "Fail");
        default_value(webhook, "matchPolicy", "Equivalent");
        default_value(webhook, "namespaceSelector", json!({}));
        default_value(webhook, "objectSelector", json!({}));
        default_value(webhook, "timeoutSeconds", TIMEOUT_SECONDS);
        if mutating {
            default_value(webhook, "reinvocationPolicy", "Never");
        }
        each(webhook, "rules", |rule| default_value(rule, "scope", "*"));
        with(webhook, "clientConfig", |client| {
            with(client, "service", |service| default_value(service, "port", SERVICE_PORT));
        });
    }
}

fn validate(configuration: &Object) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let mut taken = std::collections::BTreeSet::new();
    for webhook in At::top(configuration, "webhooks").items() {
        let own = webhook.field("name");
        if errors.need(&own) && own.text().split('.').count() < 3 {
            errors.invalid(&own, "should be a domain with at least three segments separated by dots");
        }
        if !taken.insert(own.text()) {
            errors.duplicate(&own);
        }
        one(&webhook, &mut errors);
    }
    errors.into_vec()
}

fn one(webhook: &At<'_>, errors: &mut Errors) {
    for rule in webhook.field("rules").items() {
        for field in ["apiGroups", "apiVersions", "resources", "operations"] {
            errors.need(&rule.field(field));
        }
        for operation in rule.field("operations").items() {
            errors.one_of(&operation, OPERATIONS);
        }
        errors.if_set_one_of(&rule.field("scope"), SCOPES);
    }
    errors.if_set_one_of(&webhook.field("failurePolicy"), FAILURE_POLICIES);
    errors.if_set_one_of(&webhook.field("matchPolicy"), MATCH_POLICIES);
    errors.if_set_one_of(&webhook.field("reinvocationPolicy"), REINVOCATIONS);
    errors.need_one_of(&webhook.field("sideEffects"), SIDE_EFFECTS);
    if webhook.field("admissionReviewVersions").is_empty() {
        errors.required(&webhook.field("admissionReviewVersions"), "must specify one of v1, v1beta1");
    }
    let timeout = webhook.field("timeoutSeconds");
    if timeout.integer().is_some_and(|seconds| !(1..=MAX_TIMEOUT_SECONDS).contains(&seconds)) {
        errors.invalid(&timeout, format!("the timeout value must be between 1 and {MAX_TIMEOUT_SECONDS} seconds"));
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        selectors::label_selector(&webhook.field(selector), errors);
    }
    client(&webhook.field("clientConfig"), errors);
}

fn client(at: &At<'_>, errors: &mut Errors) {
    let (url, service) = (at.field("url"), at.field("service"));
    match (url.is_set(), service.is_set()) {
        (true, true) | (false, false) => errors.required(at, "exactly one of url or service is required"),
        (true, false) if !url.text().starts_with("https://") => {
            errors.invalid(&url, "'https' is the only allowed URL scheme; desired format: https://host[/path]");
        }
        (true, false) => {}
        (false, true) => {
            if errors.need(&service.field("name")) {
                let own = service.field("name");
                errors.invalid_each(&own, names::name_is_dns1035_label(own.text(), false));
            }
            errors.need(&service.field("namespace"));
        }
    }
}
