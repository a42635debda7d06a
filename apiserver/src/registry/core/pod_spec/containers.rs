//! The three lists of containers: what they share, and what each may not have.

use std::collections::BTreeSet;

use quorate_api::validate as names;

use super::super::super::rules::{At, Errors};
use super::{Context, Owner, RESTART_POLICIES, env, mounts, probes, resources, security};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
pub(super) const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: &[&str] = &["File", "FallbackToLogsOnError"];
const RESIZABLE: &[&str] = &["cpu", "memory"];
const RESIZE_POLICIES: &[&str] = &["NotRequired", "RestartContainer"];
const RULE_ACTIONS: &[&str] = &["Restart", "RestartAllContainers"];
const EXIT_CODE_OPERATORS: &[&str] = &["In", "NotIn"];
/// What an ephemeral container may not have: it is for looking, not for serving.
const NOT_FOR_EPHEMERAL: [&str; 7] =
    ["ports", "resources", "resizePolicy", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];
const ONLY_FOR_SIDECARS: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

pub(super) fn regular(spec: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let all = spec.field("containers");
    if !errors.need(&all) {
        return;
    }
    let mut taken = BTreeSet::new();
    for container in all.items() {
        common(&container, context, errors);
        let name = container.field("name");
        if !taken.insert(name.text()) {
            errors.duplicate_value(&name, name.text());
        }
        probes::lifecycle(&container.field("lifecycle"), context, errors);
        probes::all(&container, context, errors);
        restart_policy(&container, RESTART_POLICIES, errors);
    }
    host_ports(all.items(), errors);
    pod_only(&all, context, errors);
}

pub(super) fn init(spec: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let all = spec.field("initContainers");
    let mut taken: BTreeSet<&str> = names_of(&spec.field("containers"));
    for container in all.items() {
        common(&container, context, errors);
        restart_policy(&container, RESTART_POLICIES, errors);
        let name = container.field("name");
        if !name.is_empty() && !taken.insert(name.text()) {
            errors.duplicate(&name);
        }
        // They run one after another, so each has the host's ports to itself.
        host_ports(std::iter::once(container.clone()), errors);
        if is_sidecar(&container) {
            probes::lifecycle(&container.field("lifecycle"), context, errors);
            probes::all(&container, context, errors);
        } else {
            for field in ONLY_FOR_SIDECARS.map(|field| container.field(field)) {
                if field.is_set() {
                    errors.forbidden(&field, "may not be set for init containers without restartPolicy=Always");
                }
            }
        }
    }
    pod_only(&all, context, errors);
}

pub(super) fn ephemeral(spec: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut others = names_of(&spec.field("containers"));
    others.extend(names_of(&spec.field("initContainers")));
    let mut taken = others.clone();
    for container in spec.field("ephemeralContainers").items() {
        common(&container, context, errors);
        image_whitespace(&container, errors);
        let name = container.field("name");
        if !taken.insert(name.text()) {
            errors.duplicate_value(&name, name.text());
        }
        let target = container.field("targetContainerName");
        if !target.is_empty() && !others.contains(target.text()) {
            errors.not_found(&target);
        }
        for field in NOT_FOR_EPHEMERAL.iter().map(|field| container.field(field)) {
            if !field.is_empty() {
                errors.forbidden(&field, "cannot be set for an Ephemeral Container");
            }
        }
        for mount in container.field("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"].map(|field| mount.field(field)) {
                if !field.is_empty() {
                    errors.forbidden(&field, "cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

/// Whether an init container keeps running beside the main ones.
pub(super) fn is_sidecar(container: &At<'_>) -> bool {
    container.field("restartPolicy").text() == "Always"
}

fn names_of<'a>(containers: &At<'a>) -> BTreeSet<&'a str> {
    containers.items().map(|container| container.field("name").text()).collect()
}

fn common(container: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let name = container.field("name");
    if errors.need(&name) {
        errors.invalid_each(&name, names::dns1123_label(name.text()));
    }
    errors.need(&container.field("image"));
    errors.need_one_of(&container.field("terminationMessagePolicy"), MESSAGE_POLICIES);
    ports(&container.field("ports"), errors);
    env::variables(&container.field("env"), errors);
    env::sources(&container.field("envFrom"), errors);
    mounts::mounts(container, context, errors);
    mounts::devices(container, context, errors);
    errors.need_one_of(&container.field("imagePullPolicy"), PULL_POLICIES);
    resources::requirements(&container.field("resources"), &context.claims, errors);
    resize_policy(&container.field("resizePolicy"), context, errors);
    security::container(&container.field("securityContext"), context, errors);
}

fn ports(all: &At<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for port in all.items() {
        let name = port.field("name");
        if !name.is_empty() {
            let messages = names::port_name(name.text());
            if !messages.is_empty() {
                errors.invalid_each(&name, messages);
            } else if !taken.insert(name.text()) {
                errors.duplicate(&name);
            }
        }
        let number = port.field("containerPort");
        if errors.need(&number) {
            errors.invalid_each(&number, names::port_number(number.number()));
        }
        let host = port.field("hostPort");
        if !host.is_empty() {
            errors.invalid_each(&host, names::port_number(host.number()));
        }
        errors.need_one_of(&port.field("protocol"), PROTOCOLS);
    }
}

/// No two containers may claim one port of the host.
fn host_ports<'a>(containers: impl Iterator<Item = At<'a>>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for container in containers {
        for port in container.field("ports").items() {
            let number = port.field("hostPort").number();
            if number == 0 {
                continue;
            }
            let claim = format!("{}/{}/{number}", port.field("protocol").text(), port.field("hostIP").text());
            if taken.contains(&claim) {
                errors.duplicate_value(&port.field("hostPort"), claim);
            } else {
                taken.insert(claim);
            }
        }
    }
}

fn restart_policy(container: &At<'_>, known: &[&str], errors: &mut Errors) {
    let policy = container.field("restartPolicy");
    errors.if_set_one_of(&policy, known);
    let rules = container.field("restartPolicyRules");
    if rules.is_empty() {
        return;
    }
    if !policy.is_set() {
        errors.required(&policy, "must specify restartPolicy when restart rules are used");
    }
    for rule in rules.items() {
        errors.need_one_of(&rule.field("action"), RULE_ACTIONS);
        let codes = rule.field("exitCodes");
        if codes.is_set() {
            errors.need_one_of(&codes.field("operator"), EXIT_CODE_OPERATORS);
        } else {
            errors.required(&codes, "must be specified");
        }
    }
}

fn resize_policy(policies: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for policy in policies.items() {
        let resource = policy.field("resourceName").filed_under(policies);
        if !taken.insert(resource.text()) {
            errors.duplicate_value(&policy, resource.text());
        }
        errors.need_one_of(&resource, RESIZABLE);
        let restart = policy.field("restartPolicy").filed_under(policies);
        errors.need_one_of(&restart, RESIZE_POLICIES);
        if context.restart_policy == "Never" && restart.text() != "NotRequired" {
            errors.invalid(&restart, "must be 'NotRequired' when `restartPolicy` is 'Never'");
        }
    }
}

fn pod_only(all: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    if matches!(context.owner, Owner::Pod(_)) {
        for container in all.items() {
            image_whitespace(&container, errors);
        }
    }
}

pub(super) fn image_whitespace(container: &At<'_>, errors: &mut Errors) {
    let image = container.field("image");
    if image.text().trim() != image.text() {
        errors.invalid(&image, "must not have leading or trailing whitespace");
    }
}
