//! Resource requirements: names, amounts, and how requests and limits fit together.

use std::collections::BTreeSet;

use quorate_api::quantity::Quantity;
use quorate_api::validate as names;
use serde_json::Value;

use super::super::super::rules::{At, Errors, NEGATIVE};
use super::containers::is_sidecar;

pub(crate) const HUGE_PAGES: &str = "hugepages-";
const NATIVE_DOMAIN: &str = "kubernetes.io/";
const QUOTA_PREFIX: &str = "requests.";
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
const FOR_CONTAINERS: &[&str] = &["cpu", "memory", "ephemeral-storage"];
const FOR_PODS: &[&str] = &["cpu", "hugepages-", "memory"];
const WHOLE: &[&str] = &[
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const NOT_WHOLE: &str = "must be an integer";

/// The amount written at a place; codecs have already refused what is no quantity.
pub(crate) fn quantity(at: &At<'_>) -> Option<Quantity> {
    amount(at.value()?)
}

pub(crate) fn amount(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// Requests and limits of one container.
pub(super) fn requirements(at: &At<'_>, claims: &BTreeSet<&str>, errors: &mut Errors) {
    requests_and_limits(at, container_resource_name, errors);
    claim_names(&at.field("claims"), claims, errors);
}

type NameRule = fn(&str, &At<'_>, &mut Errors);

fn requests_and_limits(at: &At<'_>, name_rule: NameRule, errors: &mut Errors) {
    let (limits, requests) = (at.field("limits"), at.field("requests"));
    for (name, limit) in limits.entries() {
        entry(name, &limit, name_rule, errors);
    }
    for (name, request) in requests.entries() {
        entry(name, &request, name_rule, errors);
        against_limit(name, &request, &requests, &limits, errors);
    }
    let names: Vec<&str> = limits.entries().chain(requests.entries()).map(|(name, _)| name).collect();
    let has_huge_pages = names.iter().any(|name| name.starts_with(HUGE_PAGES));
    if has_huge_pages && !names.iter().any(|name| matches!(*name, "cpu" | "memory")) {
        errors.forbidden(at, "HugePages require cpu or memory");
    }
}

fn entry(name: &str, at: &At<'_>, name_rule: NameRule, errors: &mut Errors) {
    name_rule(name, at, errors);
    resource_amount(name, at, errors);
    if let (Some(page), Some(total)) = (name.strip_prefix(HUGE_PAGES), quantity(at)) {
        let page = page.parse::<Quantity>().map_or(0, |size| size.value());
        if page == 0 || total.value() % page != 0 {
            errors.invalid_value(at, total.to_string(), format!("{total} is not positive integer multiple of {name}"));
        }
    }
}

fn against_limit(name: &str, request: &At<'_>, requests: &At<'_>, limits: &At<'_>, errors: &mut Errors) {
    let overcommit = may_overcommit(name);
    let (Some(wanted), Some(limit)) = (quantity(request), quantity(&limits.key(name))) else {
        if !overcommit && !limits.key(name).is_set() {
            errors.required(limits, "Limit must be set for non overcommitable resources");
        }
        return;
    };
    if wanted != limit && !overcommit {
        errors.invalid_value(requests, wanted.to_string(), format!("must be equal to {name} limit of {limit}"));
    } else if wanted > limit {
        let detail = format!("must be less than or equal to {name} limit of {limit}");
        errors.invalid_value(requests, wanted.to_string(), detail);
    }
}

/// The amount of a resource: not negative, and whole where the resource comes in pieces.
pub(crate) fn resource_amount(name: &str, at: &At<'_>, errors: &mut Errors) {
    let Some(amount) = quantity(at) else { return };
    if amount.is_negative() {
        errors.invalid_value(at, amount.to_string(), NEGATIVE);
    }
    if (WHOLE.contains(&name) || is_extended(name)) && amount.milli_value() % 1000 != 0 {
        errors.invalid_value(at, amount.to_string(), NOT_WHOLE);
    }
}

/// A resource name anywhere: standard, or qualified by a domain.
pub(crate) fn resource_name(name: &str, at: &At<'_>, errors: &mut Errors) -> bool {
    let before = errors.len();
    for message in names::qualified_name(name) {
        errors.invalid_value(at, name, message);
    }
    if errors.len() == before && !name.contains('/') && !is_standard(name) {
        errors.invalid_value(at, name, "must be a standard resource type or fully qualified");
    }
    errors.len() == before
}

pub(crate) fn container_resource_name(name: &str, at: &At<'_>, errors: &mut Errors) {
    resource_name(name, at, errors);
    if !name.contains('/') {
        if !FOR_CONTAINERS.contains(&name) && !name.starts_with(HUGE_PAGES) {
            errors.invalid_value(at, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid_value(at, name, "doesn't follow extended resource name standard");
    }
}

fn pod_resource_name(name: &str, at: &At<'_>, errors: &mut Errors) {
    let known = matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES);
    if resource_name(name, at, errors) && !known {
        let named = serde_json::json!(name);
        errors.not_supported(&At::with_path(Some(&named), at.path().clone()), FOR_PODS);
    }
}

fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || name.starts_with(HUGE_PAGES) || name.starts_with("requests.hugepages-")
}

/// Without a domain, or within the project's own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(NATIVE_DOMAIN)
}

/// A resource of somebody else's domain, such as a device.
pub(crate) fn is_extended(name: &str) -> bool {
    let quota_name = format!("{QUOTA_PREFIX}{name}");
    !is_native(name) && !name.starts_with(QUOTA_PREFIX) && names::qualified_name(&quota_name).is_empty()
}

pub(crate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

fn claim_names(claims: &At<'_>, known: &BTreeSet<&str>, errors: &mut Errors) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for claim in claims.items() {
        let (name, request) = (claim.field("name").text(), claim.field("request"));
        if name.is_empty() {
            errors.required(&claim, "");
            continue;
        }
        let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{}", request.text()) };
        if !request.is_empty() {
            errors.invalid_each(&request, names::dns1123_label(request.text()));
        }
        let whole_taken = taken.contains(name);
        let part_taken = request.is_empty() && taken.iter().any(|other| other.starts_with(&format!("{name}/")));
        if whole_taken || part_taken {
            errors.duplicate_value(&claim, name);
        } else if !taken.insert(key.clone()) {
            errors.duplicate_value(&claim, key);
        }
        if !known.contains(name) {
            errors.unknown_name(&claim, name, "must be one of the names in pod.spec.resourceClaims", known);
        }
    }
}

/// Resources of the pod as a whole: they bound those of its containers.
pub(super) fn pod_level(spec: &At<'_>, errors: &mut Errors) {
    let at = spec.field("resources");
    if !at.is_set() {
        return;
    }
    if at.field("claims").is_set() {
        errors.forbidden(&at.field("claims"), "claims cannot be set for Resources at pod-level");
    }
    requests_and_limits(&at, pod_resource_name, errors);
    for (name, total) in container_requests(spec) {
        let whole = at.field("requests").key(name);
        let pod = quantity(&whole).unwrap_or_else(Quantity::zero);
        if total > pod {
            let detail = format!("must be greater than or equal to aggregate container requests of {total}");
            errors.invalid_value(&whole, pod.to_string(), detail);
        }
    }
    for (index, container) in spec.field("containers").items().enumerate() {
        for (name, limit) in container.field("resources").field("limits").entries() {
            let (Some(limit), Some(pod)) = (quantity(&limit), quantity(&at.field("limits").key(name))) else {
                continue;
            };
            if limit > pod {
                let at = at.field("containers").index(index).key(name).field("limits");
                errors.invalid_value(
                    &at,
                    limit.to_string(),
                    format!("must be less than or equal to pod limits of {pod}"),
                );
            }
        }
    }
}

/// What the containers ask for together: the sum of those that run together, or the largest that runs before them.
pub(crate) fn container_requests<'a>(spec: &At<'a>) -> Vec<(&'a str, Quantity)> {
    let requests_of = |container: &At<'a>| container.field("resources").field("requests");
    let all = || spec.field("containers").items().chain(spec.field("initContainers").items());
    let names: BTreeSet<&str> = all().flat_map(|c| requests_of(&c).entries().map(|(name, _)| name)).collect();
    let of =
        |container: &At<'a>, name: &str| quantity(&requests_of(container).key(name)).unwrap_or_else(Quantity::zero);
    let effective = |name: &'a str| {
        let mut running = Quantity::zero();
        let mut starting = Quantity::zero();
        for container in spec.field("initContainers").items() {
            let own = of(&container, name);
            if is_sidecar(&container) {
                running = running.saturating_add(&own);
                starting = starting.max(running.clone());
            } else {
                starting = starting.max(running.saturating_add(&own));
            }
        }
        for container in spec.field("containers").items() {
            running = running.saturating_add(&of(&container, name));
        }
        (name, running.max(starting))
    };
    names.into_iter().map(effective).collect()
}

pub(crate) fn overhead(at: &At<'_>, errors: &mut Errors) {
    for (name, amount) in at.entries() {
        entry(name, &amount.filed_under(&at.field("limits").key(name)), container_resource_name, errors);
    }
}
