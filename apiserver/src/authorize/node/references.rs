//! What a pod refers to by name, read from its stored JSON without building the object.

use quorate_api::object::Object;
use serde::Deserialize;
use serde::de::IgnoredAny;

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
    let node = pod.spec.node_name.clone().filter(|node| !node.is_empty())?;
    // Nodes make mirror pods themselves: no such pod may open anything to its node. Admission refuses those that would.
    let mut found = if pod.metadata.annotations.mirror.is_some() { Vec::new() } else { pod.references() };
    found.sort();
    found.dedup();
    Some((node, found))
}

/// The first thing of the API that the pod refers to, in upstream's words.
pub(crate) fn first_of_the_api(pod: &Object) -> Option<&'static str> {
    // What cannot be read has failed validation before.
    let pod: Pod = serde_json::from_value(pod.to_value()).ok()?;
    let claims = pod.spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty());
    let in_volumes = pod.spec.volumes.iter().flatten().find_map(Volume::refers);
    let found = pod.references();
    let any = |kind: fn(&Reference) -> bool| found.iter().any(kind);
    if any(|reference| matches!(reference, Reference::ServiceAccount(_))) {
        Some("serviceaccounts")
    } else if any(|reference| matches!(reference, Reference::Secret(_))) {
        Some("secrets")
    } else if any(|reference| matches!(reference, Reference::ConfigMap(_))) {
        Some("configmaps")
    } else if claims {
        Some("resourceclaims")
    } else {
        in_volumes
    }
}

impl Pod {
    fn references(self) -> Vec<Reference> {
        let spec = self.spec;
        let mut found = Vec::new();
        found.extend(named(spec.service_account_name, Reference::ServiceAccount));
        found.extend(
            spec.image_pull_secrets.into_iter().flatten().filter_map(|secret| named(secret.name, Reference::Secret)),
        );
        for volume in spec.volumes.into_iter().flatten() {
            volume.collect(&mut found, self.metadata.name.as_deref().unwrap_or_default());
        }
        for containers in [spec.containers, spec.init_containers, spec.ephemeral_containers] {
            for container in containers.into_iter().flatten() {
                container.collect(&mut found);
            }
        }
        found
    }
}

fn named(name: Option<String>, reference: fn(Box<str>) -> Reference) -> Option<Reference> {
    name.filter(|name| !name.is_empty()).map(|name| reference(name.into()))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Pod {
    metadata: Metadata,
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
    resource_claims: Option<Vec<IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
    annotations: Annotations,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<IgnoredAny>,
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
    ephemeral: Option<IgnoredAny>,
    projected: Option<Projected>,
    csi: Option<Csi>,
    glusterfs: Option<IgnoredAny>,
    azure_file: Option<SecretVolume>,
    // Volumes that may need a secret to be mounted.
    cephfs: Option<WithSecret>,
    cinder: Option<WithSecret>,
    flex_volume: Option<WithSecret>,
    iscsi: Option<WithSecret>,
    rbd: Option<WithSecret>,
    #[serde(rename = "scaleIO")]
    scale_io: Option<WithSecret>,
    storageos: Option<WithSecret>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WithSecret {
    secret_ref: Option<Named>,
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
    service_account_token: Option<IgnoredAny>,
    cluster_trust_bundle: Option<IgnoredAny>,
    pod_certificate: Option<IgnoredAny>,
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
    /// What of the API the volume needs, whether or not it is named.
    fn refers(&self) -> Option<&'static str> {
        let alone = [
            (self.config_map.is_some(), "configmaps (via configmap volumes)"),
            (self.secret.is_some(), "secrets (via secret volumes)"),
            (self.csi.is_some(), "csidrivers (via CSI volumes)"),
            (self.glusterfs.is_some(), "endpoints (via glusterFS volumes)"),
            (self.persistent_volume_claim.is_some(), "persistentvolumeclaims"),
            (self.ephemeral.is_some(), "persistentvolumeclaims (via ephemeral volumes)"),
            (self.azure_file.is_some(), "secrets (via azureFile volumes)"),
        ];
        let sources = self.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        let found = alone.iter().find(|(is, _)| *is).map(|(_, what)| *what);
        found.or_else(|| sources.into_iter().find_map(|source: &Source| source.refers()))
    }

    fn collect(self, found: &mut Vec<Reference>, pod: &str) {
        let claim = self.persistent_volume_claim.and_then(|claim| claim.claim_name);
        found.extend(named(claim, Reference::Claim));
        if self.ephemeral.is_some() {
            found.extend(named(self.name.map(|volume| format!("{pod}-{volume}")), Reference::Claim));
        }
        found.extend(named(self.secret.and_then(|secret| secret.secret_name), Reference::Secret));
        found.extend(named(self.config_map.and_then(|map| map.name), Reference::ConfigMap));
        found.extend(named(self.azure_file.and_then(|file| file.secret_name), Reference::Secret));
        let with_secret =
            [self.cephfs, self.cinder, self.flex_volume, self.iscsi, self.rbd, self.scale_io, self.storageos];
        for secret in with_secret.into_iter().flatten().filter_map(|volume| volume.secret_ref) {
            found.extend(named(secret.name, Reference::Secret));
        }
        let published = self.csi.and_then(|csi| csi.node_publish_secret_ref);
        found.extend(named(published.and_then(|secret| secret.name), Reference::Secret));
        for source in self.projected.and_then(|projected| projected.sources).into_iter().flatten() {
            found.extend(named(source.secret.and_then(|secret| secret.name), Reference::Secret));
            found.extend(named(source.config_map.and_then(|map| map.name), Reference::ConfigMap));
        }
    }
}

impl Source {
    fn refers(&self) -> Option<&'static str> {
        let kinds = [
            (self.config_map.is_some(), "configmaps (via projected volumes)"),
            (self.secret.is_some(), "secrets (via projected volumes)"),
            (self.service_account_token.is_some(), "serviceaccounts (via projected volumes)"),
            (self.cluster_trust_bundle.is_some(), "clustertrustbundles"),
            (self.pod_certificate.is_some(), "podcertificates"),
        ];
        kinds.iter().find(|(is, _)| *is).map(|(_, what)| *what)
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
