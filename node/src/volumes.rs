//! The volumes of pods: directories made before the sandbox, filled from API objects, refreshed, and removed at the end.
//!
//! A content volume (config map, secret, downward API, projected) is swapped as a whole: a container sees either all of
//! the old files or all of the new ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Volume};
use parking_lot::Mutex;
use quorate_env::Env;

use crate::objects::{ObjectError, Objects, Token};
use crate::pod::PodKey;
use crate::pod::fields::{Addresses, Allocatable, FieldError};

mod atomic;
mod content;
mod host;
mod mounts;
mod subpath;
mod tmpfs;

pub use content::{File, Payload};
pub use mounts::MountError;

/// Permission bits of a volume's directory: any user of any container may use it.
const DIRECTORY_MODE: u32 = 0o777;

#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error("references non-existent {kind} key: {key}")]
    Key { kind: &'static str, key: String },
    #[error("hostPath type check failed: {path} is not {expected}")]
    HostPath { path: String, expected: &'static str },
    #[error("no plug-in for this kind of volume on this node")]
    Unsupported,
    #[error("this node cannot project a {0}")]
    Projection(&'static str),
    #[error("{path}")]
    Io {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} cannot be mounted: {source}")]
    Mount {
        path: String,
        #[source]
        source: nix::Error,
    },
}

impl VolumeError {
    fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.display().to_string(), source }
    }
}

/// Why a pod's volumes are not ready, with the volume's name.
#[derive(Debug, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume \"{volume}\" : {}", with_causes(.source))]
pub struct SetUpError {
    pub volume: String,
    pub source: VolumeError,
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

#[derive(Clone, Debug)]
pub struct Volumes {
    pods_dir: PathBuf,
    objects: Objects,
    env: Env,
    node: Allocatable,
    tokens: Arc<Mutex<BTreeMap<TokenKey, KeptToken>>>,
}

#[derive(Clone, Debug)]
struct KeptToken {
    token: Token,
    renew_at: Timestamp,
}

/// Pod uid, volume, path in the volume.
type TokenKey = (String, String, String);

impl Volumes {
    pub fn new(pods_dir: PathBuf, objects: Objects, env: Env, node: Allocatable) -> Self {
        Self { pods_dir, objects, env, node, tokens: Arc::default() }
    }

    fn pod_dir(&self, uid: &str) -> PathBuf {
        self.pods_dir.join(uid)
    }

    pub fn volume_dir(&self, uid: &str, volume: &str) -> PathBuf {
        self.pod_dir(uid).join("volumes").join(volume)
    }

    /// Mounts of paths inside volumes, by container and place in its list.
    fn sub_path_dir(&self, uid: &str) -> PathBuf {
        self.pod_dir(uid).join("subpaths")
    }

    /// Make and fill all volumes of a pod. Doing it again brings their content up to date.
    pub async fn set_up(&self, pod: &Pod, addresses: &Addresses) -> Result<(), SetUpError> {
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            self.set_up_one(pod, volume, addresses)
                .await
                .map_err(|source| SetUpError { volume: volume.name.clone(), source })?;
        }
        Ok(())
    }

    async fn set_up_one(&self, pod: &Pod, volume: &Volume, addresses: &Addresses) -> Result<(), VolumeError> {
        let uid = PodKey::of(pod).uid;
        let directory = self.volume_dir(&uid, &volume.name);
        let group = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref()).and_then(|c| c.fs_group);
        if let Some(source) = &volume.empty_dir {
            make_directory(&directory)?;
            if source.medium.as_deref() == Some("Memory") {
                let limit = source.size_limit.as_ref().and_then(|limit| {
                    quorate_api::quantity::Quantity::parse(&limit.0).ok().map(|quantity| quantity.value())
                });
                tmpfs::mount(&directory, limit)?;
            }
            return set_mode(&directory, DIRECTORY_MODE, group);
        }
        if let Some(source) = &volume.host_path {
            return host::check(Path::new(&source.path), source.type_.as_deref().unwrap_or_default());
        }
        if volume.persistent_volume_claim.is_some() {
            return Err(VolumeError::Unsupported);
        }
        let Some(payload) = self.payload(pod, volume, addresses).await? else {
            return Err(VolumeError::Unsupported);
        };
        make_directory(&directory)?;
        if payload.secret {
            tmpfs::mount(&directory, None)?;
        }
        set_mode(&directory, DIRECTORY_MODE, group)?;
        atomic::write(&directory, &payload.files, group, &self.env)
    }

    /// Bring content that may have changed up to date: new versions of objects, and tokens that grow old.
    pub async fn refresh(&self, pod: &Pod, addresses: &Addresses) -> Result<(), SetUpError> {
        let uid = PodKey::of(pod).uid;
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let directory = self.volume_dir(&uid, &volume.name);
            let named = |source| SetUpError { volume: volume.name.clone(), source };
            let Some(payload) = self.payload(pod, volume, addresses).await.map_err(named)? else { continue };
            let group = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref()).and_then(|c| c.fs_group);
            if directory.exists() {
                atomic::write(&directory, &payload.files, group, &self.env).map_err(named)?;
            }
        }
        Ok(())
    }

    /// When the first of the pod's tokens wants to be renewed.
    pub fn renew_at(&self, uid: &str) -> Option<Timestamp> {
        let tokens = self.tokens.lock();
        tokens.iter().filter(|((pod, _, _), _)| pod == uid).map(|(_, kept)| kept.renew_at).min()
    }

    /// Whether the pod has content that changes with API objects or with time.
    pub fn has_content(pod: &Pod) -> bool {
        pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).any(content::is_content)
    }

    /// Unmount and remove all volumes of a pod; what was in an `emptyDir` is lost then.
    pub async fn tear_down(&self, uid: &str) -> Result<(), VolumeError> {
        self.tokens.lock().retain(|(pod, _, _), _| pod != uid);
        // They lie over what is in the volumes.
        remove_tree(self.sub_path_dir(uid)).await?;
        remove_tree(self.pod_dir(uid).join("volumes")).await
    }

    /// Remove everything that is left of a pod.
    pub async fn remove_pod_dir(&self, uid: &str) -> Result<(), VolumeError> {
        remove_tree(self.pod_dir(uid)).await
    }
}

async fn remove_tree(directory: PathBuf) -> Result<(), VolumeError> {
    let shown = directory.clone();
    let removed = tokio::task::spawn_blocking(move || {
        tmpfs::unmount_below(&directory)?;
        match std::fs::remove_dir_all(&directory) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(VolumeError::io(&directory, source)),
            Ok(()) | Err(_) => Ok(()),
        }
    });
    removed.await.unwrap_or_else(|source| Err(VolumeError::io(&shown, std::io::Error::other(source))))
}

fn make_directory(path: &Path) -> Result<(), VolumeError> {
    std::fs::create_dir_all(path).map_err(|source| VolumeError::io(path, source))
}

/// Permission bits and, where the pod names one, the group that owns the volume and what is made in it.
fn set_mode(path: &Path, mode: u32, group: Option<i64>) -> Result<(), VolumeError> {
    use std::os::unix::fs::PermissionsExt;
    const SET_GROUP_ID: u32 = 0o2000;
    let mode = if group.is_some() { mode | SET_GROUP_ID } else { mode };
    if let Some(group) = group.and_then(|group| u32::try_from(group).ok()) {
        std::os::unix::fs::chown(path, None, Some(group)).map_err(|source| VolumeError::io(path, source))?;
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .map_err(|source| VolumeError::io(path, source))
}
