//! Which host paths a container sees where.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container as ContainerSpec, Pod, Volume, VolumeMount};

use super::subpath::{self, SubPathError};
use super::{Volumes, content};
use crate::pod::PodKey;
use crate::pod::expansion::expand;
use crate::runtime::proto::{Mount, MountPropagation};

#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("cannot find volume \"{volume}\" to mount into container \"{container}\"")]
    NoVolume { volume: String, container: String },
    #[error("subPath \"{path}\" must stay below volume \"{volume}\"")]
    Outside { path: String, volume: String },
    #[error("failed to prepare subPath for volumeMount \"{volume}\" of container \"{container}\"")]
    SubPath {
        volume: String,
        container: String,
        #[source]
        source: std::io::Error,
    },
}

impl Volumes {
    pub fn mounts(
        &self,
        pod: &Pod,
        container: &ContainerSpec,
        environment: &[(String, String)],
    ) -> Result<Vec<Mount>, MountError> {
        let known: BTreeMap<String, String> = environment.iter().cloned().collect();
        let listed = container.volume_mounts.iter().flatten();
        listed.enumerate().map(|(index, mount)| self.mount(pod, container, (index, mount), &known)).collect()
    }

    fn mount(
        &self,
        pod: &Pod,
        container: &ContainerSpec,
        (index, mount): (usize, &VolumeMount),
        known: &BTreeMap<String, String>,
    ) -> Result<Mount, MountError> {
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let volume = volumes
            .iter()
            .find(|volume| volume.name == mount.name)
            .ok_or_else(|| MountError::NoVolume { volume: mount.name.clone(), container: container.name.clone() })?;
        let base = self.host_path(pod, volume);
        let sub_path = match (&mount.sub_path_expr, &mount.sub_path) {
            (Some(text), _) if !text.is_empty() => Some(expand(text, known)),
            (_, Some(text)) if !text.is_empty() => Some(text.clone()),
            (_, _) => None,
        };
        let host_path = match sub_path {
            Some(sub_path) => {
                let target = self.sub_path_dir(&PodKey::of(pod).uid).join(&container.name).join(index.to_string());
                below(&base, &sub_path, target).map_err(|source| match source {
                    SubPathError::Outside => MountError::Outside { path: sub_path, volume: mount.name.clone() },
                    SubPathError::Io(source) => {
                        MountError::SubPath { volume: mount.name.clone(), container: container.name.clone(), source }
                    }
                })?
            }
            None => base,
        };
        let mut out = Mount {
            container_path: absolute(&mount.mount_path),
            host_path: host_path.display().to_string(),
            // What the agent fills, containers may only read.
            readonly: mount.read_only.unwrap_or(false) || content::is_content(volume),
            ..Default::default()
        };
        out.set_propagation(match mount.mount_propagation.as_deref() {
            Some("HostToContainer") => MountPropagation::PropagationHostToContainer,
            Some("Bidirectional") => MountPropagation::PropagationBidirectional,
            Some(_) | None => MountPropagation::PropagationPrivate,
        });
        Ok(out)
    }

    fn host_path(&self, pod: &Pod, volume: &Volume) -> PathBuf {
        match &volume.host_path {
            Some(source) => PathBuf::from(&source.path),
            None => self.volume_dir(&PodKey::of(pod).uid, &volume.name),
        }
    }
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// What the runtime is to mount for a path inside a volume.
fn below(base: &Path, path: &str, target: PathBuf) -> Result<PathBuf, SubPathError> {
    let opened = subpath::open_below(base, path)?;
    // Without the right to mount no container runs that could exchange anything.
    if !nix::unistd::geteuid().is_root() {
        return subpath::path_of(&opened);
    }
    subpath::bind(&opened, &target)?;
    Ok(target)
}
