//! Probes and lifecycle hooks.

use quorate_api::validate as names;

use super::super::super::rules::{At, Errors};
use super::{Context, port_number_or_name};

const SCHEMES: &[&str] = &["HTTP", "HTTPS"];
const PROBE_HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc"];
const HOOK_HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "sleep"];
const THRESHOLDS: [&str; 5] =
    ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];

/// All three probes of a container that may have them.
pub(super) fn all(container: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let at = container.field(name);
        if !at.is_set() {
            continue;
        }
        probe(&at, context, errors);
        if name == "readinessProbe" {
            let grace = at.field("terminationGracePeriodSeconds");
            if grace.is_set() {
                errors.invalid(&grace, "must not be set for readinessProbes");
            }
        } else if at.field("successThreshold").number() != 1 {
            errors.invalid_value(&at.field("successThreshold"), at.field("successThreshold").number(), "must be 1");
        }
    }
}

fn probe(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    handler(at, PROBE_HANDLERS, context, errors);
    for field in THRESHOLDS {
        errors.not_negative(&at.field(field));
    }
    let grace = at.field("terminationGracePeriodSeconds");
    if grace.integer().is_some_and(|seconds| seconds <= 0) {
        errors.invalid(&grace, "must be greater than 0");
    }
}

pub(super) fn lifecycle(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        let at = at.field(hook);
        if at.is_set() {
            handler(&at, HOOK_HANDLERS, context, errors);
        }
    }
}

/// Exactly one way to ask or to act.
fn handler(at: &At<'_>, known: &[&str], context: &Context<'_>, errors: &mut Errors) {
    let mut handlers = 0;
    for name in known {
        let action = at.field(name);
        if !action.is_set() {
            continue;
        }
        if handlers > 0 {
            errors.forbidden(&action, "may not specify more than 1 handler type");
            continue;
        }
        handlers += 1;
        match *name {
            "exec" => {
                errors.need(&action.field("command"));
            }
            "httpGet" => http_get(&action, errors),
            "sleep" => sleep(&action, context, errors),
            _ => port_number_or_name(&action.field("port"), errors),
        }
    }
    if handlers == 0 {
        errors.required(at, "must specify a handler type");
    }
}

fn http_get(at: &At<'_>, errors: &mut Errors) {
    errors.need(&at.field("path"));
    port_number_or_name(&at.field("port"), errors);
    errors.one_of(&at.field("scheme"), SCHEMES);
    for header in at.field("httpHeaders").items() {
        let name = header.field("name").filed_under(&at.field("httpHeaders"));
        errors.invalid_each(&name, names::http_header_name(name.text()));
    }
}

fn sleep(at: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let Some(grace) = context.grace_period else { return };
    let seconds = at.field("seconds").number();
    if seconds < 0 || seconds > grace {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid_value(at, seconds, detail);
    }
}
