//! Kinds of volumes that are gone, and files of volumes that are in each other's way.

use quorate_api::quote::quote;

use super::super::super::super::rules::At;

const OLD_KINDS: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// A file's path and where it comes from, which may be nowhere in particular.
#[derive(Clone, PartialEq, Eq)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn shown(&self) -> String {
        let path = quote(&self.path);
        if self.source.is_empty() { path } else { format!("{path} ({})", self.source) }
    }

    /// Whether one is the other, or would be a folder on the other's way.
    fn meets(&self, other: &Self) -> bool {
        let within = |one: &Self, other: &Self| format!("{}/", one.path).starts_with(&format!("{}/", other.path));
        !other.path.is_empty() && (within(self, other) || within(other, self))
    }
}

pub(super) fn warn(spec: &At<'_>, warnings: &mut Vec<String>) {
    for volume in spec.field("volumes").items() {
        for (kind, message) in OLD_KINDS {
            let at = volume.field(kind);
            if at.is_set() {
                // Upstream's path is by the name in Go here.
                let path = if kind == "storageos" { volume.field("storageOS") } else { at };
                warnings.push(format!("{}: {message}", path.path()));
            }
        }
    }
    for volume in spec.field("volumes").items() {
        overlaps(&volume, warnings);
    }
}

fn overlaps(volume: &At<'_>, warnings: &mut Vec<String>) {
    let name = quote(volume.field("name").text());
    let named = |kind: &str, name: &At<'_>| format!("{kind} {}", quote(name.text()));
    let (map, secret, downward) = (volume.field("configMap"), volume.field("secret"), volume.field("downwardAPI"));
    let plain = [
        (&map, named("ConfigMap", &map.field("name"))),
        (&secret, named("Secret", &secret.field("secretName"))),
        (&downward, "DownwardAPI".to_owned()),
    ];
    for (source, what) in plain {
        meet(&name, &what, items(source, ""), warnings);
    }
    let mut files = Vec::new();
    for source in volume.field("projected").field("sources").items() {
        match projection(&source) {
            Some(found) => files.extend(found),
            None => warnings.push(format!("volume {name} (Projected) has no sources provided")),
        }
    }
    meet(&name, "Projected", files, warnings);
}

fn items(source: &At<'_>, from: &str) -> Vec<File> {
    source.field("items").items().map(|item| file(&item.field("path"), from)).collect()
}

fn file(path: &At<'_>, from: &str) -> File {
    File { path: path.text().trim_end_matches('/').to_owned(), source: from.to_owned() }
}

/// The files of one source of a projected volume; `None` if it is no source at all.
fn projection(source: &At<'_>) -> Option<Vec<File>> {
    let (kind, at) = source.entries().find(|(_, at)| at.value().is_some_and(|value| !value.is_null()))?;
    let named = |kind: &str, field: &str| format!("{kind} {}", quote(at.field(field).text()));
    Some(match kind {
        "configMap" => items(&at, &named("ConfigMap", "name")),
        "secret" => items(&at, &named("Secret", "name")),
        "downwardAPI" => items(&at, "DownwardAPI"),
        "serviceAccountToken" => vec![file(&at.field("path"), "ServiceAccountToken")],
        "clusterTrustBundle" => {
            let by = if at.field("name").is_set() { "name" } else { "signerName" };
            vec![file(&at.field("path"), &named("ClusterTrustBundle", by))]
        }
        "podCertificate" => {
            [("certificateChainPath", "chain"), ("keyPath", "key"), ("credentialBundlePath", "credential bundle")]
                .map(|(field, what)| file(&at.field(field), &format!("PodCertificate {what}")))
                .into_iter()
                .filter(|file| !file.path.is_empty())
                .collect()
        }
        _ => Vec::new(),
    })
}

fn meet(volume: &str, what: &str, files: Vec<File>, warnings: &mut Vec<String>) {
    let mut before: Vec<File> = Vec::new();
    for file in files {
        if !file.path.is_empty() {
            for other in before.iter().filter(|other| file.meets(other)) {
                let (file, other) = (file.shown(), other.shown());
                warnings.push(format!("volume {volume} ({what}): overlapping paths: {file} with {other}"));
            }
        }
        before.push(file);
    }
}
