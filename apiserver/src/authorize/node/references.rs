//! What a pod refers to by name, read from its stored JSON without building the object.

use serde::Deserialize;

/// An object in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reference {
    Secret(Box<str>),
    ConfigMap(Box<str>),
    Claim(Box<str>),
    ServiceAccount(Box<str>),
}

/// The pod's node and references; `None` while it has no node (or cannot be read).
pub(super) fn read(json: &[u8]) -> Option<(String, Vec<Reference>)> {
    let pod: Pod = serde_json::from_slice(json).ok()?;
    let spec = pod.spec;
    let node = spec.node_name.filter(|node| !node.is_empty())?;
    let mut found = Vec::new();
    found.extend(named(spec.service_account_name, Reference::ServiceAccount));
    found.extend(
        spec.image_pull_secrets.into_iter().flatten().filter_map(|secret| named(secret.name, Reference::Secret)),
    );
    for volume in spec.volumes.into_iter().flatten() {
        volume.collect(&mut found, pod.metadata.name.as_deref().unwrap_or_default());
    }
    for containers in [spec.containers, spec.init_containers, spec.ephemeral_containers] {
        for container in containers.into_iter().flatten() {
            container.collect(&mut found);
        }
    }
    found.sort();
    found.dedup();
    Some((node, found))
}

fn named(name: Option<String>, reference: fn(Box<str>) -> Reference) -> Option<Reference> {
    name.filter(|name| !name.is_empty()).map(|name| reference(name.into()))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Pod {
    metadata: Named,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
    service_account_name: Option<String>,
    image_pull_secrets: Option<Vec<Named>>,
    volumes: Option<Vec<Volume>>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    ephemeral_containers: Option<Vec<Container>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    name: Option<String>,
    secret: Option<SecretVolume>,
    config_map: Option<Named>,
    persistent_volume_claim: Option<ClaimVolume>,
    ephemeral: Option<serde::de::IgnoredAny>,
    projected: Option<Projected>,
    csi: Option<Csi>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SecretVolume {
    secret_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimVolume {
    claim_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Projected {
    sources: Option<Vec<Source>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Source {
    secret: Option<Named>,
    config_map: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Csi {
    node_publish_secret_ref: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    env: Option<Vec<EnvVar>>,
    env_from: Option<Vec<EnvFrom>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EnvVar {
    value_from: Option<ValueFrom>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ValueFrom {
    secret_key_ref: Option<Named>,
    config_map_key_ref: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EnvFrom {
    secret_ref: Option<Named>,
    config_map_ref: Option<Named>,
}

impl Volume {
    fn collect(self, found: &mut Vec<Reference>, pod: &str) {
        let claim = self.persistent_volume_claim.and_then(|claim| claim.claim_name);
        found.extend(named(claim, Reference::Claim));
        if self.ephemeral.is_some() {
            found.extend(named(self.name.map(|volume| format!("{pod}-{volume}")), Reference::Claim));
        }
        found.extend(named(self.secret.and_then(|secret| secret.secret_name), Reference::Secret));
        found.extend(named(self.config_map.and_then(|map| map.name), Reference::ConfigMap));
        let published = self.csi.and_then(|csi| csi.node_publish_secret_ref);
        found.extend(named(published.and_then(|secret| secret.name), Reference::Secret));
        for source in self.projected.and_then(|projected| projected.sources).into_iter().flatten() {
            found.extend(named(source.secret.and_then(|secret| secret.name), Reference::Secret));
            found.extend(named(source.config_map.and_then(|map| map.name), Reference::ConfigMap));
        }
    }
}

impl Container {
    fn collect(self, found: &mut Vec<Reference>) {
        for value in self.env.into_iter().flatten().filter_map(|variable| variable.value_from) {
            found.extend(named(value.secret_key_ref.and_then(|key| key.name), Reference::Secret));
            found.extend(named(value.config_map_key_ref.and_then(|key| key.name), Reference::ConfigMap));
        }
        for all in self.env_from.into_iter().flatten() {
            found.extend(named(all.secret_ref.and_then(|secret| secret.name), Reference::Secret));
            found.extend(named(all.config_map_ref.and_then(|map| map.name), Reference::ConfigMap));
        }
    }
}
