//! What a content volume holds: gathered from config maps, secrets, the pod itself and tokens.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, ServiceAccountTokenProjection, Volume, VolumeProjection,
};

use super::{KeptToken, VolumeError, Volumes};
use crate::objects::ObjectError;
use crate::pod::PodKey;
use crate::pod::fields::{self, Addresses};

const DEFAULT_MODE: i32 = 0o644;
/// Life of a token that names none, in seconds.
const DEFAULT_TOKEN_SECONDS: i64 = 3600;
/// A token is renewed when this many hundredths of its life have passed, or when it is a day old.
const RENEW_AT_PERCENT: i32 = 80;
const RENEW_AT_MOST: SignedDuration = SignedDuration::from_hours(24);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub bytes: Vec<u8>,
    pub mode: u32,
}

/// Files by path below the volume's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    pub files: BTreeMap<String, File>,
    /// Must not reach a disk.
    pub secret: bool,
}

impl Payload {
    fn put(&mut self, path: &str, bytes: Vec<u8>, mode: i32) {
        self.files.insert(path.to_owned(), File { bytes, mode: mode.unsigned_abs() & 0o777 });
    }
}

/// The volume that something is projected into.
#[derive(Clone, Copy)]
struct Place<'a> {
    pod: &'a Pod,
    volume: &'a str,
    mode: i32,
    addresses: &'a Addresses,
}

pub(super) fn is_content(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

impl Volumes {
    /// None for volumes that are not made of content.
    pub(super) async fn payload(
        &self,
        pod: &Pod,
        volume: &Volume,
        addresses: &Addresses,
    ) -> Result<Option<Payload>, VolumeError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let mut payload = Payload::default();
        if let Some(source) = &volume.config_map {
            let found = self.objects.config_map(namespace, &source.name).await;
            if let Some(object) = optional(found, source.optional)? {
                let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
                select(
                    "configmap",
                    config_map_data(object),
                    source.items.as_deref(),
                    source.optional,
                    mode,
                    &mut payload,
                )?;
            }
        } else if let Some(source) = &volume.secret {
            payload.secret = true;
            let found = self.objects.secret(namespace, source.secret_name.as_deref().unwrap_or_default()).await;
            if let Some(object) = optional(found, source.optional)? {
                let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
                select("secret", secret_data(object), source.items.as_deref(), source.optional, mode, &mut payload)?;
            }
        } else if let Some(source) = &volume.downward_api {
            let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
            for item in source.items.iter().flatten() {
                self.downward(pod, item, mode, addresses, &mut payload)?;
            }
        } else if let Some(source) = &volume.projected {
            payload.secret = true;
            let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
            for projection in source.sources.iter().flatten() {
                let place = Place { pod, volume: &volume.name, mode, addresses };
                self.project(&place, projection, &mut payload).await?;
            }
        } else {
            return Ok(None);
        }
        Ok(Some(payload))
    }

    async fn project(
        &self,
        place: &Place<'_>,
        projection: &VolumeProjection,
        payload: &mut Payload,
    ) -> Result<(), VolumeError> {
        let Place { pod, volume, mode, addresses } = *place;
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        if let Some(source) = &projection.config_map {
            let found = self.objects.config_map(namespace, &source.name).await;
            if let Some(object) = optional(found, source.optional)? {
                select("configmap", config_map_data(object), source.items.as_deref(), source.optional, mode, payload)?;
            }
        }
        if let Some(source) = &projection.secret {
            let found = self.objects.secret(namespace, &source.name).await;
            if let Some(object) = optional(found, source.optional)? {
                select("secret", secret_data(object), source.items.as_deref(), source.optional, mode, payload)?;
            }
        }
        if projection.cluster_trust_bundle.is_some() {
            return Err(VolumeError::Projection("clusterTrustBundle"));
        }
        if projection.pod_certificate.is_some() {
            return Err(VolumeError::Projection("podCertificate"));
        }
        for item in projection.downward_api.iter().flat_map(|source| source.items.iter().flatten()) {
            self.downward(pod, item, mode, addresses, payload)?;
        }
        if let Some(source) = &projection.service_account_token {
            let token = self.token(pod, volume, source).await?;
            payload.put(&source.path, token.into_bytes(), mode);
        }
        Ok(())
    }

    fn downward(
        &self,
        pod: &Pod,
        item: &DownwardAPIVolumeFile,
        mode: i32,
        addresses: &Addresses,
        payload: &mut Payload,
    ) -> Result<(), VolumeError> {
        let text = match (&item.field_ref, &item.resource_field_ref) {
            (Some(reference), _) => fields::field(pod, &reference.field_path, addresses)?,
            (None, Some(selector)) => fields::resource(pod, "", selector, &self.node)?,
            (None, None) => String::new(),
        };
        payload.put(&item.path, text.into_bytes(), item.mode.unwrap_or(mode));
        Ok(())
    }

    /// The token in use, renewed before it expires.
    async fn token(
        &self,
        pod: &Pod,
        volume: &str,
        source: &ServiceAccountTokenProjection,
    ) -> Result<String, VolumeError> {
        let key = (PodKey::of(pod).uid, volume.to_owned(), source.path.clone());
        let seconds = source.expiration_seconds.unwrap_or(DEFAULT_TOKEN_SECONDS);
        let kept = self.tokens.lock().get(&key).cloned();
        if let Some(kept) = kept.filter(|kept| self.env.clock.wall() < kept.renew_at) {
            return Ok(kept.token.token);
        }
        let audience = source.audience.as_deref().filter(|audience| !audience.is_empty());
        let token = self.objects.token(pod, audience, seconds).await?;
        let text = token.token.clone();
        let renew_at = renew_at(token.expires, SignedDuration::from_secs(seconds), self.env.clock.wall());
        self.tokens.lock().insert(key, KeptToken { token, renew_at });
        Ok(text)
    }
}

fn renew_at(expires: Timestamp, life: SignedDuration, now: Timestamp) -> Timestamp {
    let began = expires.saturating_sub(life).unwrap_or(now);
    began.saturating_add((life * RENEW_AT_PERCENT / 100).min(RENEW_AT_MOST)).unwrap_or(Timestamp::MAX)
}

fn optional<T>(found: Result<T, ObjectError>, optional: Option<bool>) -> Result<Option<T>, VolumeError> {
    match found {
        Ok(object) => Ok(Some(object)),
        Err(ObjectError::NotFound { .. }) if optional == Some(true) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn config_map_data(object: ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let text = object.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
    text.chain(object.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0))).collect()
}

fn secret_data(object: Secret) -> BTreeMap<String, Vec<u8>> {
    object.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
}

/// All keys as files of their own name, or the listed ones under the paths they name.
fn select(
    kind: &'static str,
    data: BTreeMap<String, Vec<u8>>,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    mode: i32,
    payload: &mut Payload,
) -> Result<(), VolumeError> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        for (key, bytes) in data {
            payload.put(&key, bytes, mode);
        }
        return Ok(());
    };
    for item in items {
        match data.get(&item.key) {
            Some(bytes) => payload.put(&item.path, bytes.clone(), item.mode.unwrap_or(mode)),
            None if optional == Some(true) => {}
            None => return Err(VolumeError::Key { kind, key: item.key.clone() }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_renewed_late_in_their_life_and_at_least_daily() {
        let began: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let due = |seconds: i64| {
            let life = SignedDuration::from_secs(seconds);
            renew_at(began + life, life, began).as_second() - began.as_second()
        };
        assert_eq!([due(600), due(3600), due(365 * 24 * 3600)], [480, 2880, 24 * 3600]);
    }
}
