//! Which host paths a container sees where.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container as ContainerSpec, Pod, Volume, VolumeMount};

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
        listed.map(|mount| self.mount(pod, container, mount, &known)).collect()
    }

    fn mount(
        &self,
        pod: &Pod,
        container: &ContainerSpec,
        mount: &VolumeMount,
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
            Some(sub_path) => below(&base, &sub_path, mount, container)?,
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

/// A path inside a volume, made as a directory if nothing is there. Links that lead out of the volume are refused.
fn below(base: &Path, path: &str, mount: &VolumeMount, container: &ContainerSpec) -> Result<PathBuf, MountError> {
    let outside = || MountError::Outside { path: path.to_owned(), volume: mount.name.clone() };
    let io = |source| MountError::SubPath { volume: mount.name.clone(), container: container.name.clone(), source };
    let stays = Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !stays {
        return Err(outside());
    }
    let base = base.canonicalize().map_err(io)?;
    let full = base.join(path);
    // The deepest part that exists must be inside before anything is made below it.
    let existing = full.ancestors().find(|part| part.exists()).unwrap_or(&base);
    if !existing.canonicalize().map_err(io)?.starts_with(&base) {
        return Err(outside());
    }
    if !full.exists() {
        std::fs::create_dir_all(&full).map_err(io)?;
    }
    let resolved = full.canonicalize().map_err(io)?;
    if resolved.starts_with(&base) { Ok(resolved) } else { Err(outside()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_paths_stay_inside() {
        let volume = tempfile::tempdir().unwrap();
        let (mount, container) = (VolumeMount { name: "v".into(), ..Default::default() }, ContainerSpec::default());
        let get = |path: &str| below(volume.path(), path, &mount, &container);
        assert!(get("a/b").unwrap().is_dir());
        assert!(matches!(get("../x"), Err(MountError::Outside { .. })));
        std::os::unix::fs::symlink("/", volume.path().join("out")).unwrap();
        assert!(matches!(get("out/tmp"), Err(MountError::Outside { .. })));
        assert!(matches!(get("out/not-there-at-all"), Err(MountError::Outside { .. })));
    }
}
