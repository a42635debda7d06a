//! Where a container mounts the pod's volumes, as file systems and as block devices.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::super::rules::{At, Errors};
use super::{Context, paths};

const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const RECURSIVE_READ_ONLY: &[&str] = &["Disabled", "Enabled", "IfPossible"];
const BLOCK_SOURCES: [&str; 2] = ["persistentVolumeClaim", "ephemeral"];

pub(super) fn mounts(container: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let all = container.field("volumeMounts");
    let devices: Vec<At<'_>> = container.field("volumeDevices").items().collect();
    let mut taken = BTreeSet::new();
    for mount in all.items() {
        let name = mount.field("name");
        let path = mount.field("mountPath");
        errors.need(&name);
        let volume = context.volumes.get(name.text());
        if volume.is_none() {
            errors.not_found(&name);
        }
        errors.need(&path);
        if !taken.insert(path.text()) {
            errors.invalid(&path, "must be unique");
        }
        if devices.iter().any(|device| device.field("name").text() == name.text()) {
            errors.invalid(&name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| device.field("devicePath").text() == path.text()) {
            errors.invalid(&path, "must not already exist as a path in volumeDevices");
        }
        let of_image = volume.is_some_and(|volume| volume.get("image").is_some_and(|image| !image.is_null()));
        sub_path(&all, &mount, of_image, errors);
        propagation(&all, &mount, container, errors);
        recursive_read_only(&all, &mount, errors);
    }
}

fn sub_path(all: &At<'_>, mount: &At<'_>, of_image: bool, errors: &mut Errors) {
    let (plain, expression) = (mount.field("subPath"), mount.field("subPathExpr"));
    if of_image {
        for at in [&plain, &expression] {
            if !at.is_empty() {
                errors.invalid(at, "not allowed in image volume sources");
            }
        }
    }
    if !plain.is_empty() {
        paths::descending(&plain.filed_under(&all.field("subPath")), errors);
    }
    if !expression.is_empty() {
        if !plain.is_empty() {
            errors.invalid(&expression, "subPathExpr and subPath are mutually exclusive");
        }
        paths::descending(&expression.filed_under(&all.field("subPathExpr")), errors);
    }
}

fn propagation(all: &At<'_>, mount: &At<'_>, container: &At<'_>, errors: &mut Errors) {
    let mode = mount.field("mountPropagation");
    if !mode.is_set() {
        return;
    }
    let at = mode.filed_under(&all.field("mountPropagation"));
    errors.one_of(&at, PROPAGATIONS);
    if mode.text() == "Bidirectional" && !container.field("securityContext").field("privileged").truth() {
        errors.forbidden(&at, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn recursive_read_only(all: &At<'_>, mount: &At<'_>, errors: &mut Errors) {
    let mode = mount.field("recursiveReadOnly");
    let at = mode.filed_under(&all.field("recursiveReadOnly"));
    match mode.text() {
        _ if !mode.is_set() => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.field("readOnly").truth() {
                errors.forbidden(&at, "may only be specified when readOnly is true");
            }
            if !matches!(mount.field("mountPropagation").text(), "" | "None") {
                errors.forbidden(&at, "may only be specified when mountPropagation is None or not specified");
            }
        }
        _ => errors.not_supported(&at, RECURSIVE_READ_ONLY),
    }
}

pub(super) fn devices(container: &At<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mounts: Vec<At<'_>> = container.field("volumeMounts").items().collect();
    let (mut names, mut device_paths) = (BTreeSet::new(), BTreeSet::new());
    for device in container.field("volumeDevices").items() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        errors.need(&name);
        if names.contains(name.text()) {
            errors.invalid(&name, "must be unique");
        }
        match context.volumes.get(name.text()) {
            Some(volume) if !can_be_block(volume) => errors
                .invalid(&name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"),
            Some(_) => {}
            None => errors.not_found(&name),
        }
        errors.need(&path);
        if device_paths.contains(path.text()) {
            errors.invalid(&path, "must be unique");
        }
        if paths::has_backsteps(path.text()) {
            errors.invalid(&path, "can not contain backsteps ('..')");
        } else {
            device_paths.insert(path.text());
        }
        if mounts.iter().any(|mount| mount.field("name").text() == name.text()) {
            errors.invalid(&name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| mount.field("mountPath").text() == path.text()) {
            errors.invalid(&path, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name.text());
        }
    }
}

fn can_be_block(volume: &Value) -> bool {
    BLOCK_SOURCES.iter().any(|source| volume.get(source).is_some_and(|source| !source.is_null()))
}
