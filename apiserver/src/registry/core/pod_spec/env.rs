//! Environment variables and where their values come from.

use quorate_api::quantity::Quantity;
use quorate_api::validate as names;

use super::super::super::rules::{At, Errors};

const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// What a downward API volume may show.
pub(super) const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// All fields that the downward API knows, whichever way they are shown.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCE_FIELDS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];
const CPU_DIVISORS: &[&str] = &["1m", "1"];
const BYTE_DIVISORS: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
const ONE_SOURCE: &str = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";

pub(super) fn variables(env: &At<'_>, errors: &mut Errors) {
    for variable in env.items() {
        let name = variable.field("name");
        if errors.need(&name) {
            errors.invalid_each(&name, names::relaxed_env_var_name(name.text()));
        }
        if variable.field("valueFrom").is_set() {
            value_from(&variable, errors);
        }
    }
}

fn value_from(variable: &At<'_>, errors: &mut Errors) {
    let from = variable.field("valueFrom");
    let mut sources = 0;
    let mut source = |name: &str, rule: &mut dyn FnMut(&At<'_>, &mut Errors), errors: &mut Errors| {
        let at = from.field(name);
        if at.is_set() {
            sources += 1;
            rule(&at, errors);
        }
    };
    source("fieldRef", &mut |at, errors| field_selector(at, ENV_FIELDS, errors), errors);
    source("resourceFieldRef", &mut |at, errors| resource_selector(at, false, errors), errors);
    source("configMapKeyRef", &mut key_selector, errors);
    source("secretKeyRef", &mut key_selector, errors);
    source("fileKeyRef", &mut file_key, errors);
    if sources == 0 {
        errors.invalid_value(&from, "", ONE_SOURCE);
    } else if !variable.field("value").is_empty() {
        errors.invalid_value(&from, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid_value(&from, "", "may not have more than one field specified at a time");
    }
}

fn file_key(at: &At<'_>, errors: &mut Errors) {
    errors.need(&at.field("key"));
    errors.need(&at.field("path"));
    errors.need(&at.field("volumeName"));
}

fn key_selector(at: &At<'_>, errors: &mut Errors) {
    let name = at.field("name");
    errors.invalid_each(&name, names::name_is_dns_subdomain(name.text(), false));
    let key = at.field("key");
    if errors.need(&key) {
        errors.invalid_each(&key, names::config_map_key(key.text()));
    }
}

/// A field of the pod shown to its containers; labels and annotations may be asked for one key.
pub(super) fn field_selector(at: &At<'_>, shown: &[&str], errors: &mut Errors) {
    if !errors.need(&at.field("apiVersion")) || !errors.need(&at.field("fieldPath")) {
        return;
    }
    let path = at.field("fieldPath");
    let (field, subscript) = split_subscript(path.text());
    if at.field("apiVersion").text() != "v1" {
        let version = at.field("apiVersion").text();
        errors.invalid(&path, format!("error converting fieldPath: unsupported pod version: {version}"));
    } else if !KNOWN_FIELDS.contains(&field) {
        errors.invalid(&path, format!("error converting fieldPath: field label not supported: {}", path.text()));
    } else if let Some(key) = subscript {
        match field {
            "metadata.annotations" => subscript_key(at, &key.to_lowercase(), errors),
            "metadata.labels" => subscript_key(at, key, errors),
            _ => errors.invalid_value(at, field, "does not support subscript"),
        }
    } else if !shown.contains(&field) {
        errors.not_supported(&path, shown);
    }
}

fn subscript_key(at: &At<'_>, key: &str, errors: &mut Errors) {
    for message in names::qualified_name(key) {
        errors.invalid_value(at, key, message);
    }
}

/// `metadata.labels['app']` is `metadata.labels` and `app`.
fn split_subscript(path: &str) -> (&str, Option<&str>) {
    let split = path.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    match split {
        Some((field, key)) if !field.is_empty() => (field, Some(key)),
        _ => (path, None),
    }
}

/// A container's resource shown to a container; a volume must say whose.
pub(super) fn resource_selector(at: &At<'_>, in_volume: bool, errors: &mut Errors) {
    let resource = at.field("resource");
    let name = resource.text();
    if in_volume && at.field("containerName").is_empty() {
        errors.required(&at.field("containerName"), "");
    } else if name.is_empty() {
        errors.required(&resource, "");
    } else if !RESOURCE_FIELDS.contains(&name) && !HUGE_PAGES.iter().any(|prefix| name.starts_with(prefix)) {
        errors.not_supported(&resource, RESOURCE_FIELDS);
    }
    divisor(at, name, errors);
}

fn divisor(at: &At<'_>, resource: &str, errors: &mut Errors) {
    let divisor = at.field("divisor");
    let Ok(amount) = divisor.text().parse::<Quantity>() else { return };
    if amount.is_zero() {
        return;
    }
    let kind = resource.split_once('.').map_or("", |(_, kind)| kind);
    let (allowed, subject) = match kind {
        "cpu" => (CPU_DIVISORS, "1m and 1 are supported with the cpu resource"),
        "memory" => (BYTE_DIVISORS, "memory"),
        "ephemeral-storage" => (BYTE_DIVISORS, "local ephemeral storage"),
        _ if kind.starts_with("hugepages-") => (BYTE_DIVISORS, "hugepages"),
        _ => return,
    };
    if allowed.contains(&amount.to_string().as_str()) {
        return;
    }
    let detail = if kind == "cpu" {
        format!("only divisor's values {subject}")
    } else {
        format!("only divisor's values {} are supported with the {subject} resource", BYTE_DIVISORS.join(", "))
    };
    errors.invalid_value(&divisor, resource, detail);
}

/// Whole ConfigMaps and Secrets as environment.
pub(super) fn sources(env_from: &At<'_>, errors: &mut Errors) {
    for source in env_from.items() {
        let prefix = source.field("prefix");
        if !prefix.is_empty() {
            errors.invalid_each(&prefix, names::relaxed_env_var_name(prefix.text()));
        }
        let mut count = 0;
        for field in ["configMapRef", "secretRef"] {
            let reference = source.field(field);
            if !reference.is_set() {
                continue;
            }
            count += 1;
            let name = reference.field("name");
            if errors.need(&name) {
                errors.invalid_each(&name, names::name_is_dns_subdomain(name.text(), true));
            }
        }
        match count {
            0 => errors.invalid_value(env_from, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid_value(env_from, "", "may not have more than one field specified at a time"),
        }
    }
}
