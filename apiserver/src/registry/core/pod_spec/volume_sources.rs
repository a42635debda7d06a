//! What each kind of volume source must say. Shared by the volumes of pods and by persistent volumes.

use quorate_api::quantity::Quantity;
use quorate_api::validate as names;

use super::super::super::rules::{At, Errors};
use super::super::persistent_volume_claim;
use super::{containers, paths, projected, resources};

pub(super) const MAX_ISCSI_NAME: usize = 64;
pub(super) const ISCSI_NAME_TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 \
                                              characters if iscsi.initiatorName is specified.";
const MAX_CSI_DRIVER: usize = 63;
const MAX_QUOBYTE_TENANT: usize = 64;
const HOST_PORT_PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const AZURE_CACHING: &[&str] = &["None", "ReadOnly", "ReadWrite"];
const AZURE_KINDS: &[&str] = &["Dedicated", "Managed", "Shared"];
const AZURE_MANAGED_URI: &str =
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
const AZURE_BLOB_URI: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";

pub(crate) type Rule = fn(&At<'_>, &mut Errors);

/// The sources that a pod's volume may have, in the order in which upstream counts them.
pub(super) const POD: &[(&str, Rule)] = &[
    ("emptyDir", empty_dir),
    ("hostPath", host_path),
    ("gitRepo", git_repo),
    ("gcePersistentDisk", gce_disk),
    ("awsElasticBlockStore", aws_disk),
    ("secret", |at, errors| keyed(at, "secretName", errors)),
    ("nfs", nfs),
    ("iscsi", iscsi),
    ("glusterfs", |at, errors| needs(at, &["endpoints", "path"], errors)),
    ("flocker", flocker),
    ("persistentVolumeClaim", |at, errors| needs(at, &["claimName"], errors)),
    ("rbd", |at, errors| needs(at, &["monitors", "image"], errors)),
    ("cinder", cinder),
    ("cephfs", |at, errors| needs(at, &["monitors"], errors)),
    ("quobyte", quobyte),
    ("downwardAPI", projected::downward_api),
    ("fc", fibre_channel),
    ("flexVolume", flex),
    ("configMap", |at, errors| keyed(at, "name", errors)),
    ("azureFile", |at, errors| needs(at, &["secretName", "shareName"], errors)),
    ("vsphereVolume", |at, errors| needs(at, &["volumePath"], errors)),
    ("photonPersistentDisk", |at, errors| needs(at, &["pdID"], errors)),
    ("portworxVolume", |at, errors| needs(at, &["volumeID"], errors)),
    ("azureDisk", azure_disk),
    ("storageos", storage_os),
    ("projected", projected::projected),
    ("scaleIO", |at, errors| needs(at, &["gateway", "system", "volumeName"], errors)),
    ("csi", csi),
    ("ephemeral", ephemeral),
    ("image", |at, errors| errors.need_one_of(&at.field("pullPolicy"), containers::PULL_POLICIES)),
];

/// The sources that a persistent volume may have.
pub(crate) const PERSISTENT: &[(&str, Rule)] = &[
    ("hostPath", host_path),
    ("gcePersistentDisk", gce_disk),
    ("awsElasticBlockStore", aws_disk),
    ("glusterfs", |at, errors| needs(at, &["endpoints", "path"], errors)),
    ("flocker", flocker),
    ("nfs", nfs),
    ("rbd", |at, errors| needs(at, &["monitors", "image"], errors)),
    ("quobyte", quobyte),
    ("cephfs", |at, errors| needs(at, &["monitors"], errors)),
    ("iscsi", iscsi),
    ("cinder", cinder),
    ("fc", fibre_channel),
    ("flexVolume", flex),
    ("azureFile", |at, errors| needs(at, &["secretName", "shareName"], errors)),
    ("vsphereVolume", |at, errors| needs(at, &["volumePath"], errors)),
    ("photonPersistentDisk", |at, errors| needs(at, &["pdID"], errors)),
    ("portworxVolume", |at, errors| needs(at, &["volumeID"], errors)),
    ("azureDisk", azure_disk),
    ("scaleIO", |at, errors| needs(at, &["gateway", "system", "volumeName"], errors)),
    ("local", local),
    ("storageos", storage_os),
    ("csi", persistent_csi),
];

pub(crate) fn is_source(field: &str) -> bool {
    PERSISTENT.iter().any(|(source, _)| *source == field)
}

fn local(at: &At<'_>, errors: &mut Errors) {
    if errors.need(&at.field("path")) {
        paths::no_backsteps(&at.field("path"), errors);
    }
}

fn persistent_csi(at: &At<'_>, errors: &mut Errors) {
    csi_driver_name(&at.field("driver"), errors);
    errors.need(&at.field("volumeHandle"));
    for secret in ["controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"] {
        let reference = at.field(&format!("{secret}SecretRef"));
        if reference.is_set() {
            needs(&reference, &["name", "namespace"], errors);
        }
    }
}

fn needs(at: &At<'_>, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        errors.need(&at.field(field));
    }
}

fn empty_dir(at: &At<'_>, errors: &mut Errors) {
    let limit = at.field("sizeLimit");
    if resources::quantity(&limit).is_some_and(|size| size < Quantity::zero()) {
        errors.forbidden(&limit, "SizeLimit field must be a valid resource quantity");
    }
}

fn host_path(at: &At<'_>, errors: &mut Errors) {
    if errors.need(&at.field("path")) {
        paths::no_backsteps(&at.field("path"), errors);
        errors.if_set_one_of(&at.field("type"), HOST_PATH_TYPES);
    }
}

fn git_repo(at: &At<'_>, errors: &mut Errors) {
    errors.need(&at.field("repository"));
    paths::descending(&at.field("directory"), errors);
}

fn gce_disk(at: &At<'_>, errors: &mut Errors) {
    errors.need(&at.field("pdName"));
    errors.within(&at.field("partition"), 0, 255);
}

fn aws_disk(at: &At<'_>, errors: &mut Errors) {
    errors.need(&at.field("volumeID"));
    errors.within(&at.field("partition"), 0, 255);
}

/// A ConfigMap or a Secret with some of its keys.
fn keyed(at: &At<'_>, name: &str, errors: &mut Errors) {
    errors.need(&at.field(name));
    paths::file_mode(&at.field("defaultMode"), errors);
    for item in at.field("items").items() {
        paths::key_to_path(&item, errors);
    }
}

fn nfs(at: &At<'_>, errors: &mut Errors) {
    needs(at, &["server", "path"], errors);
    let path = at.field("path");
    if !path.text().starts_with('/') {
        errors.invalid_value(&path, path.text(), "must be an absolute path");
    }
}

fn iscsi(at: &At<'_>, errors: &mut Errors) {
    errors.need(&at.field("targetPortal"));
    if errors.need(&at.field("iqn")) {
        iscsi_name(&at.field("iqn"), errors);
    }
    errors.within(&at.field("lun"), 0, 255);
    let chap = at.field("chapAuthDiscovery").truth() || at.field("chapAuthSession").truth();
    if chap && !at.field("secretRef").is_set() {
        errors.required(&at.field("secretRef"), "");
    }
    let initiator = at.field("initiatorName");
    if initiator.is_set() {
        iscsi_name(&initiator.filed_under(&at.field("initiatorname")), errors);
    }
}

fn iscsi_name(at: &At<'_>, errors: &mut Errors) {
    let name = at.text();
    let hex = |prefix: &str, digits: usize| {
        let rest = name.strip_prefix(prefix).and_then(|rest| rest.get(1..)).unwrap_or_default();
        rest.len() == digits && rest.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    match name.get(..3) {
        Some("iqn") if is_iqn(name) => {}
        Some("eui") if hex("eui", 16) => {}
        Some("naa") if hex("naa", 32) => {}
        Some("iqn" | "eui" | "naa") => errors.invalid(at, "must be valid format"),
        _ => errors.invalid(at, "must be valid format starting with iqn, eui, or naa"),
    }
}

/// `iqn.YYYY-MM.domain:identifier`.
fn is_iqn(name: &str) -> bool {
    let Some((date, rest)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')) else { return false };
    let Some((domain, identifier)) = rest.split_once(':') else { return false };
    let date_fits =
        date.len() == 7 && date.bytes().enumerate().all(|(i, b)| if i == 4 { b == b'-' } else { b.is_ascii_digit() });
    let domain_fits =
        !domain.is_empty() && domain.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
    let bad = |c: char| matches!(c, ',' | ';' | '*' | '&' | '$' | '|') || c.is_whitespace();
    date_fits && domain_fits && !identifier.is_empty() && !identifier.contains(bad)
}

fn flocker(at: &At<'_>, errors: &mut Errors) {
    let (name, uuid) = (at.field("datasetName"), at.field("datasetUUID"));
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => errors.required(at, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            errors.invalid_value(at, "resource", "datasetName and datasetUUID can not be specified simultaneously");
        }
        (true, false) | (false, true) => {}
    }
    if name.text().contains('/') {
        errors.invalid(&name, "must not contain '/'");
    }
}

fn cinder(at: &At<'_>, errors: &mut Errors) {
    errors.need(&at.field("volumeID"));
    if at.field("secretRef").is_set() {
        errors.need(&at.field("secretRef").field("name"));
    }
}

fn quobyte(at: &At<'_>, errors: &mut Errors) {
    let registry = at.field("registry");
    if registry.is_empty() {
        errors.required(&registry, HOST_PORT_PAIRS);
    } else if at.field("tenant").text().len() > MAX_QUOBYTE_TENANT {
        errors.required(&at.field("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.text().split(',').filter(|pair| !pair.contains(':')) {
            errors.invalid(&registry, HOST_PORT_PAIRS);
        }
    }
    errors.need(&at.field("volume"));
}

fn fibre_channel(at: &At<'_>, errors: &mut Errors) {
    let (targets, wwids, lun) = (at.field("targetWWNs"), at.field("wwids"), at.field("lun"));
    match (targets.is_empty(), wwids.is_empty()) {
        (true, true) => errors.required(&targets, "must specify either targetWWNs or wwids, but not both"),
        (false, false) => errors.invalid(&targets, "targetWWNs and wwids can not be specified simultaneously"),
        (true, false) | (false, true) => {}
    }
    if !targets.is_empty() {
        if lun.is_set() {
            errors.within(&lun, 0, 255);
        } else {
            errors.required(&lun, "lun is required if targetWWNs is specified");
        }
    }
}

fn flex(at: &At<'_>, errors: &mut Errors) {
    errors.need(&at.field("driver"));
    for (key, option) in at.field("options").entries() {
        let domain = format!(".{}", key.split_once('/').map_or(key, |(domain, _)| domain).to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            errors.invalid_value(&option, key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn azure_disk(at: &At<'_>, errors: &mut Errors) {
    let (uri, kind) = (at.field("diskURI"), at.field("kind"));
    needs(at, &["diskName", "diskURI"], errors);
    errors.if_set_one_of(&at.field("cachingMode"), AZURE_CACHING);
    errors.if_set_one_of(&kind, AZURE_KINDS);
    if !kind.is_set() {
        return;
    }
    if kind.text() == "Managed" && !uri.text().starts_with("/subscriptions/") {
        errors.not_supported(&uri, &[AZURE_MANAGED_URI]);
    }
    if kind.text() != "Managed" && !uri.text().starts_with("https://") {
        errors.not_supported(&uri, &[AZURE_BLOB_URI]);
    }
}

fn storage_os(at: &At<'_>, errors: &mut Errors) {
    let (name, namespace) = (at.field("volumeName"), at.field("volumeNamespace"));
    if errors.need(&name) {
        errors.invalid_each(&name, names::dns1123_label(name.text()));
    }
    if !namespace.is_empty() {
        errors.invalid_each(&namespace, names::dns1123_label(namespace.text()));
    }
    if at.field("secretRef").is_set() {
        errors.need(&at.field("secretRef").field("name"));
    }
}

fn csi(at: &At<'_>, errors: &mut Errors) {
    csi_driver_name(&at.field("driver"), errors);
    let secret = at.field("nodePublishSecretRef");
    if secret.is_set() && errors.need(&secret.field("name")) {
        let name = secret.field("name").filed_under(&at.field("name"));
        errors.invalid_each(&name, names::name_is_dns_subdomain(name.text(), false));
    }
}

pub(crate) fn csi_driver_name(at: &At<'_>, errors: &mut Errors) {
    errors.need(at);
    if at.text().len() > MAX_CSI_DRIVER {
        errors.too_long(at, MAX_CSI_DRIVER);
    }
    errors.invalid_each(at, names::dns1123_subdomain(&at.text().to_lowercase()));
}

fn ephemeral(at: &At<'_>, errors: &mut Errors) {
    let template = at.field("volumeClaimTemplate");
    if !template.is_set() {
        return errors.required(&template, "");
    }
    super::template::embedded_metadata(&template.field("metadata"), errors);
    persistent_volume_claim::validate_spec(&template.field("spec"), errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iscsi_names_have_three_forms() {
        assert!(is_iqn("iqn.2001-04.com.example:storage.disk1"));
        assert!(!is_iqn("iqn.2001-4.com.example:storage"));
        assert!(!is_iqn("iqn.2001-04.com.example:a b"));
    }
}
