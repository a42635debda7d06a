//! Loading image archives, by containerd's own client.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::ContainerdError;

/// The namespace that pods' images are in.
const NAMESPACE: &str = "k8s.io";

/// Load archives into the containerd at `address`; without a snapshotter, into its usual one.
pub async fn import_archives(
    address: &Path,
    snapshotter: Option<&str>,
    archives: &[PathBuf],
) -> Result<(), ContainerdError> {
    for archive in archives {
        let mut command = Command::new("ctr");
        command.arg("--address").arg(address).args(["--namespace", NAMESPACE, "images", "import"]);
        if let Some(snapshotter) = snapshotter {
            command.args(["--snapshotter", snapshotter]);
        }
        let output = command
            .arg(archive)
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|source| ContainerdError::Spawn { program: "ctr", source })?;
        if !output.status.success() {
            let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(ContainerdError::Import { archive: archive.display().to_string(), output });
        }
    }
    Ok(())
}
