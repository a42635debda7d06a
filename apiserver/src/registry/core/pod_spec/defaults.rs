//! What upstream fills into a pod spec: for every owner, and more for pods themselves.

use quorate_api::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::super::super::defaulting::{
    default_number, default_text, default_value, each, ensure, remove, set, text, with,
};
use super::super::super::rules::At;
use super::resources::{amount, container_requests, may_overcommit};
use quorate_api::field::FieldPath;

const GRACE_SECONDS: i64 = 30;
/// Octal 644.
const FILE_MODE: i64 = 0o644;
const TOKEN_SECONDS: i64 = 3600;
const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// The defaults of every pod spec, in a Pod or in a template.
pub(crate) fn spec(spec: &mut Value) {
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "restartPolicy", "Always");
    default_text(spec, "schedulerName", "default-scheduler");
    default_value(spec, "securityContext", json!({}));
    default_value(spec, "terminationGracePeriodSeconds", GRACE_SECONDS);
    service_account(spec);
    each(spec, "volumes", volume);
    for list in CONTAINER_LISTS {
        each(spec, list, container);
    }
}

/// The old name of the service account's field goes along with the new one.
pub(crate) fn service_account(spec: &mut Value) {
    if text(spec, "serviceAccountName").is_empty() {
        let old = text(spec, "serviceAccount").to_owned();
        if old.is_empty() {
            return;
        }
        set(spec, "serviceAccountName", old);
    }
    let name = text(spec, "serviceAccountName").to_owned();
    set(spec, "serviceAccount", name);
}

/// What a Pod gets beyond its spec's defaults: these must not appear in templates.
pub(crate) fn pod_only(spec: &mut Value) {
    for list in ["containers", "initContainers"] {
        each(spec, list, |container| with(container, "resources", requests_from_limits));
    }
    pod_level_requests(spec);
    default_value(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
        for list in ["containers", "initContainers"] {
            each(spec, list, |container| each(container, "ports", host_port));
        }
    }
}

fn host_port(port: &mut Value) {
    if let Some(number) = port.get("containerPort").and_then(Value::as_i64) {
        default_number(port, "hostPort", number);
    }
}

fn requests_from_limits(resources: &mut Value) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let Some(fields) = resources.as_object_mut() else { return };
    if let Some(requests) = ensure(fields, "requests").as_object_mut() {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// A pod with limits of its own requests what its containers do, and where they are silent what it may use.
fn pod_level_requests(spec: &mut Value) {
    let limits = spec.pointer("/resources/limits").and_then(Value::as_object).cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let wanted: Vec<(String, Quantity)> = container_requests(&At::with_path(Some(spec), FieldPath::root()))
        .into_iter()
        .filter(|(name, _)| matches!(*name, "cpu" | "memory") && may_overcommit(name))
        .map(|(name, total)| (name.to_owned(), total))
        .collect();
    let Some(resources) = spec.get_mut("resources").and_then(Value::as_object_mut) else { return };
    if let Some(requests) = ensure(resources, "requests").as_object_mut() {
        for (name, total) in wanted {
            requests.entry(name).or_insert_with(|| Value::from(total.to_string()));
        }
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

fn container(container: &mut Value) {
    if text(container, "imagePullPolicy").is_empty() {
        set(container, "imagePullPolicy", pull_policy(text(container, "image")));
    }
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    default_value(container, "resources", json!({}));
    with(container, "resources", |resources| {
        for list in ["limits", "requests"] {
            with(resources, list, amounts);
        }
    });
    each(container, "ports", |port| default_text(port, "protocol", "TCP"));
    each(container, "env", |variable| {
        with(variable, "valueFrom", |from| {
            with(from, "fieldRef", |field| default_text(field, "apiVersion", "v1"));
            with(from, "resourceFieldRef", |field| default_value(field, "divisor", "0"));
            with(from, "fileKeyRef", |file| default_value(file, "optional", false));
        });
    });
    for name in PROBES {
        with(container, name, probe);
    }
    with(container, "lifecycle", |lifecycle| {
        for hook in ["postStart", "preStop"] {
            with(lifecycle, hook, http_get);
        }
    });
}

/// Always for the moving tag `latest`, which is also what an image without tag and digest means.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        None if digest.is_none() && !image.is_empty() => "Always",
        Some(_) | None => "IfNotPresent",
    }
}

fn probe(probe: &mut Value) {
    default_number(probe, "timeoutSeconds", 1);
    default_number(probe, "periodSeconds", 10);
    default_number(probe, "successThreshold", 1);
    default_number(probe, "failureThreshold", 3);
    http_get(probe);
    with(probe, "grpc", |grpc| default_value(grpc, "service", ""));
}

fn http_get(handler: &mut Value) {
    with(handler, "httpGet", |get| {
        default_text(get, "path", "/");
        default_text(get, "scheme", "HTTP");
    });
}

/// Amounts below a thousandth are rounded up to it.
pub(crate) fn amounts(list: &mut Value) {
    for value in list.as_object_mut().into_iter().flat_map(Map::values_mut) {
        let Some(exact) = amount(value) else { continue };
        let milli = exact.milli_value();
        let rounded = Quantity::from_milli(milli, exact.format());
        if milli != i64::MAX && rounded != exact {
            *value = Value::from(rounded.to_string());
        }
    }
}

fn volume(volume: &mut Value) {
    let has_source =
        volume.as_object().is_some_and(|fields| fields.iter().any(|(name, value)| name != "name" && !value.is_null()));
    if !has_source {
        set(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        with(volume, source, |source| default_value(source, "defaultMode", FILE_MODE));
    }
    with(volume, "downwardAPI", downward_files);
    with(volume, "projected", |projected| each(projected, "sources", projection));
    with(volume, "image", |image| {
        if text(image, "pullPolicy").is_empty() {
            set(image, "pullPolicy", pull_policy(text(image, "reference")));
        }
    });
    with(volume, "ephemeral", |ephemeral| {
        with(ephemeral, "volumeClaimTemplate", |template| {
            with(template, "spec", |spec| default_value(spec, "volumeMode", "Filesystem"));
        });
    });
    volume_source(volume);
}

/// The defaults that persistent volumes share.
pub(crate) fn volume_source(source: &mut Value) {
    with(source, "hostPath", |path| default_value(path, "type", ""));
    with(source, "iscsi", |iscsi| default_text(iscsi, "iscsiInterface", "default"));
    with(source, "rbd", |rbd| {
        default_text(rbd, "pool", "rbd");
        default_text(rbd, "user", "admin");
        default_text(rbd, "keyring", "/etc/ceph/keyring");
    });
    with(source, "azureDisk", |disk| {
        default_value(disk, "cachingMode", "ReadWrite");
        default_value(disk, "kind", "Shared");
        default_value(disk, "fsType", "ext4");
        default_value(disk, "readOnly", false);
    });
    with(source, "scaleIO", |scale_io| {
        default_text(scale_io, "storageMode", "ThinProvisioned");
        default_text(scale_io, "fsType", "xfs");
    });
}

fn downward_files(source: &mut Value) {
    each(source, "items", |file| {
        with(file, "fieldRef", |field| default_text(field, "apiVersion", "v1"));
        with(file, "resourceFieldRef", |field| default_value(field, "divisor", "0"));
    });
}

fn projection(source: &mut Value) {
    with(source, "downwardAPI", downward_files);
    with(source, "serviceAccountToken", |token| default_value(token, "expirationSeconds", TOKEN_SECONDS));
}

/// The defaults of a template; what is meant for its pods only is not there yet.
pub(crate) fn template(template: &mut Value) {
    if let Some(fields) = template.as_object_mut() {
        spec(ensure(fields, "spec"));
    }
    with(template, "metadata", |metadata| {
        remove(metadata, "creationTimestamp");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moving_images_are_pulled_always() {
        let cases = [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("registry:5000/nginx", "Always"),
            ("registry:5000/nginx:1.7.9", "IfNotPresent"),
            ("nginx:1.7.9", "IfNotPresent"),
            ("nginx@sha256:0123", "IfNotPresent"),
            ("", "IfNotPresent"),
        ];
        for (image, expected) in cases {
            assert_eq!(pull_policy(image), expected, "{image}");
        }
    }
}
