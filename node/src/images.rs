//! Getting images: pull policy, bounded parallel pulls, credentials from pull secrets, and the events that tell of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Container as ContainerSpec, Pod, Secret};
use quorate_env::Env;
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::events::{Level, Recorder};
use crate::objects::Objects;
use crate::pod::memory::Cause;
use crate::runtime::{Image, Runtime, proto::AuthConfig};

/// Pulls that run at the same time; others wait.
const PULLS_MAX: usize = 5;
/// The registry that names without one mean, under the names credentials are stored by.
const DEFAULT_REGISTRY: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

#[derive(Clone, Debug)]
pub struct Images {
    runtime: Runtime,
    objects: Objects,
    events: Recorder,
    env: Env,
    pulls: Arc<Semaphore>,
}

/// Why an image cannot be used, in the words of the container's waiting state.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ImageError {
    pub cause: Cause,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    /// The policy the specification names, else the one its image's tag implies.
    pub fn of(container: &ContainerSpec) -> Self {
        match container.image_pull_policy.as_deref() {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            Some("IfNotPresent") => Self::IfNotPresent,
            Some(_) | None => {
                let image = container.image.as_deref().unwrap_or_default();
                let last = image.rsplit('/').next().unwrap_or_default();
                let moving = !last.contains('@') && last.rsplit_once(':').is_none_or(|(_, tag)| tag == "latest");
                if moving { Self::Always } else { Self::IfNotPresent }
            }
        }
    }
}

impl Images {
    pub fn new(runtime: Runtime, objects: Objects, events: Recorder, env: Env) -> Self {
        Self { runtime, objects, events, env, pulls: Arc::new(Semaphore::new(PULLS_MAX)) }
    }

    /// The image of a container, pulled if its policy asks for it.
    pub async fn ensure(&self, pod: &Pod, container: &ContainerSpec, field: &str) -> Result<Image, ImageError> {
        let name = container.image.as_deref().unwrap_or_default();
        if !is_reference(name) {
            let message = format!(
                "Failed to apply default image tag \"{name}\": couldn't parse image name \"{name}\": invalid reference format"
            );
            self.events.container(pod, field, Level::Warning, "InspectFailed", message.clone());
            return Err(ImageError { cause: Cause::InvalidImageName, message });
        }
        let policy = PullPolicy::of(container);
        let present = self.present(name).await?;
        match (policy, present) {
            (PullPolicy::IfNotPresent | PullPolicy::Never, Some(image)) => {
                let message =
                    format!("Container image \"{name}\" already present on machine and can be accessed by the pod");
                self.events.container(pod, field, Level::Normal, "Pulled", message);
                Ok(image)
            }
            (PullPolicy::Never, None) => {
                let message = format!("Container image \"{name}\" is not present with pull policy of Never");
                self.events.container(pod, field, Level::Warning, "ErrImageNeverPull", message.clone());
                Err(ImageError { cause: Cause::ErrImageNeverPull, message })
            }
            (PullPolicy::Always, _) | (PullPolicy::IfNotPresent, None) => self.pull(pod, name, field).await,
        }
    }

    async fn present(&self, name: &str) -> Result<Option<Image>, ImageError> {
        self.runtime.image_status(name).await.map_err(|error| ImageError {
            cause: Cause::CreateContainerError,
            message: format!("Failed to inspect image \"{name}\": {error}"),
        })
    }

    async fn pull(&self, pod: &Pod, name: &str, field: &str) -> Result<Image, ImageError> {
        let asked = self.env.clock.now();
        self.events.container(pod, field, Level::Normal, "Pulling", format!("Pulling image \"{name}\""));
        let _slot = self.pulls.acquire().await;
        let began = self.env.clock.now();
        let auth = self.credentials(pod, name).await;
        let outcome = self.runtime.pull_image(name, auth).await;
        let failed = |message: String| {
            let text = format!("Failed to pull image \"{name}\": {message}");
            self.events.container(pod, field, Level::Warning, "Failed", text);
            ImageError { cause: Cause::ErrImagePull, message }
        };
        let reference = outcome.map_err(|error| failed(error.to_string()))?;
        let image = self.present(&reference).await?.or(self.present(name).await?);
        let image = image.ok_or_else(|| failed(format!("image \"{name}\" is not there after it was pulled")))?;
        let now = self.env.clock.now();
        let message = format!(
            "Successfully pulled image \"{name}\" in {} ({} including waiting). Image size: {} bytes.",
            millis(now - began),
            millis(now - asked),
            image.size
        );
        self.events.container(pod, field, Level::Normal, "Pulled", message);
        Ok(image)
    }

    /// The first credentials for the image's registry among the pod's pull secrets.
    async fn credentials(&self, pod: &Pod, image: &str) -> Option<AuthConfig> {
        let namespace = pod.metadata.namespace.as_deref()?;
        let secrets = pod.spec.as_ref()?.image_pull_secrets.as_deref()?;
        for reference in secrets {
            match self.objects.secret(namespace, &reference.name).await {
                Ok(secret) => {
                    let found = docker_config(&secret).and_then(|config| config.credentials(registry_of(image)));
                    if found.is_some() {
                        return found;
                    }
                }
                Err(error) => {
                    let message = format!(
                        "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                        reference.name
                    );
                    tracing::debug!(%error, "pull secret");
                    self.events.pod(pod, Level::Warning, "FailedToRetrieveImagePullSecret", message);
                }
            }
        }
        None
    }
}

/// Of a secret of either of the types that hold one: the older one holds the registries without anything around them.
fn docker_config(secret: &Secret) -> Option<DockerConfig> {
    let data = secret.data.as_ref()?;
    match (data.get(".dockerconfigjson"), data.get(".dockercfg")) {
        (Some(whole), _) => serde_json::from_slice(&whole.0).ok(),
        (None, Some(registries)) => serde_json::from_slice(&registries.0).ok().map(|auths| DockerConfig { auths }),
        (None, None) => None,
    }
}

fn millis(duration: std::time::Duration) -> String {
    let millis = duration.as_millis();
    if millis < 1000 { format!("{millis}ms") } else { format!("{}.{:03}s", millis / 1000, millis % 1000) }
}

/// Whether a name has the form of an image reference: lower-case path, optional host before, tag or digest behind.
fn is_reference(name: &str) -> bool {
    let (path, _) = name.split_once('@').unwrap_or((name, ""));
    let last = path.rsplit('/').next().unwrap_or_default();
    let path = match last.rsplit_once(':') {
        Some((_, tag)) => &path[..path.len() - tag.len() - 1],
        None => path,
    };
    let host = registry_of(path);
    let path = path.strip_prefix(host).unwrap_or(path);
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '/');
    !name.is_empty() && !last.is_empty() && path.chars().all(is_part)
}

/// The host part of an image name.
fn registry_of(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        Some(_) | None => DEFAULT_REGISTRY[0],
    }
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, DockerAuth>,
}

#[derive(Deserialize)]
struct DockerAuth {
    username: Option<String>,
    password: Option<String>,
    auth: Option<String>,
    identitytoken: Option<String>,
}

impl DockerConfig {
    fn credentials(self, registry: &str) -> Option<AuthConfig> {
        let same = |key: &str| {
            let host = key.trim_start_matches("https://").trim_start_matches("http://").split('/').next();
            let host = host.unwrap_or_default();
            host == registry || (DEFAULT_REGISTRY.contains(&registry) && DEFAULT_REGISTRY.contains(&host))
        };
        let (_, entry) = self.auths.into_iter().find(|(key, _)| same(key))?;
        let mut auth = AuthConfig {
            username: entry.username.unwrap_or_default(),
            password: entry.password.unwrap_or_default(),
            identity_token: entry.identitytoken.unwrap_or_default(),
            ..Default::default()
        };
        let pair =
            entry.auth.and_then(|text| STANDARD.decode(text).ok()).and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some((username, password)) = pair.as_deref().and_then(|pair| pair.split_once(':')) {
            username.clone_into(&mut auth.username);
            password.clone_into(&mut auth.password);
        }
        Some(auth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(image: &str) -> PullPolicy {
        PullPolicy::of(&ContainerSpec { image: Some(image.into()), ..Default::default() })
    }

    #[test]
    fn a_moving_tag_is_always_pulled() {
        assert_eq!(policy("nginx"), PullPolicy::Always);
        assert_eq!(policy("localhost:5000/nginx"), PullPolicy::Always);
        assert_eq!(policy("nginx:latest"), PullPolicy::Always);
        assert_eq!(policy("nginx:1.7.9"), PullPolicy::IfNotPresent);
        assert_eq!(policy("nginx@sha256:abc"), PullPolicy::IfNotPresent);
    }

    #[test]
    fn both_forms_of_pull_secrets_are_read() {
        let secret = |key: &str, text: &str| Secret {
            data: Some(BTreeMap::from([(key.to_owned(), k8s_openapi::ByteString(text.into()))])),
            ..Default::default()
        };
        let auths = r#"{"registry.example": {"username": "ann", "password": "x"}}"#;
        for secret in [secret(".dockerconfigjson", &format!("{{\"auths\": {auths}}}")), secret(".dockercfg", auths)] {
            let found = docker_config(&secret).and_then(|config| config.credentials("registry.example"));
            assert_eq!(found.map(|auth| auth.username), Some("ann".to_owned()));
        }
        assert!(docker_config(&secret("other", auths)).is_none());
    }

    #[test]
    fn references_are_told_from_other_text() {
        for good in ["nginx", "nginx:1.7.9", "localhost:5000/a/b:X", "Host.example/a@sha256:abc", "library/nginx"] {
            assert!(is_reference(good), "{good}");
        }
        for bad in ["", "Nginx", "a b", "nginx:1/", "a$b"] {
            assert!(!is_reference(bad), "{bad}");
        }
    }

    #[test]
    fn credentials_are_found_by_registry() {
        let json = r#"{"auths":{"https://index.docker.io/v1/":{"auth":"YTpi"},"r.example:5000":{"username":"u","password":"p"}}}"#;
        let config = || serde_json::from_str::<DockerConfig>(json).unwrap();
        let of = |image: &str| config().credentials(registry_of(image)).map(|auth| (auth.username, auth.password));
        assert_eq!(of("nginx:1"), Some(("a".into(), "b".into())));
        assert_eq!(of("r.example:5000/x/y"), Some(("u".into(), "p".into())));
        assert_eq!(of("other.example/x"), None);
    }
}
