//! Keeping logs within bounds: a large one is renamed and the runtime writes a new one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_env::{Env, Scope};

use crate::pod::PodKey;
use crate::pod::config::log_directory;
use crate::runtime::{ContainerState, Runtime};

/// How often logs are looked at.
const PERIOD: Duration = Duration::from_secs(10);
const LOG_MAX_BYTES: u64 = 10 << 20;
/// Files per container, the one being written among them.
const FILES_MAX: usize = 5;

pub fn start(runtime: Runtime, log_root: PathBuf, env: Env, scope: &Scope) {
    scope.spawn_until_cancelled("log-rotation", async move {
        loop {
            env.clock.sleep(PERIOD).await;
            let Ok(pods) = runtime.observe().await else { continue };
            for pod in pods.values() {
                let Some(sandbox) = pod.sandboxes.first() else { continue };
                let key = PodKey {
                    uid: sandbox.uid.clone(),
                    namespace: sandbox.namespace.clone(),
                    name: sandbox.name.clone(),
                };
                let directory = log_directory(&log_root, &key);
                for container in pod.containers.iter().filter(|c| c.state == ContainerState::Running) {
                    let path = directory.join(crate::pod::config::log_path(&container.name, container.attempt));
                    if let Err(error) = rotate_if_large(&path, &container.id, &runtime, &env).await {
                        tracing::warn!(%error, path = %path.display(), "log not rotated");
                    }
                }
            }
        }
    });
}

async fn rotate_if_large(path: &Path, id: &str, runtime: &Runtime, env: &Env) -> std::io::Result<()> {
    let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if size < LOG_MAX_BYTES {
        return Ok(());
    }
    let stamp = env.clock.wall().strftime("%Y%m%d-%H%M%S");
    let old = PathBuf::from(format!("{}.{stamp}", path.display()));
    std::fs::rename(path, &old)?;
    if let Err(error) = runtime.reopen_log(id).await {
        // The runtime goes on writing to the file it has: give it its name back.
        std::fs::rename(&old, path)?;
        return Err(std::io::Error::other(error));
    }
    remove_oldest(path)
}

fn remove_oldest(path: &Path) -> std::io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(());
    };
    let prefix = format!("{name}.");
    let mut old: Vec<PathBuf> = std::fs::read_dir(directory)?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect();
    old.sort();
    let surplus = old.len().saturating_sub(FILES_MAX - 1);
    old.iter().take(surplus).try_for_each(std::fs::remove_file)
}
