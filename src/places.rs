//! Where things are when no flag says otherwise.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

const ROOT_DATA_DIR: &str = "/var/lib/quorate";

/// `--data-dir`, else /var/lib/quorate as root, else the XDG data directory.
pub(crate) fn data_dir(flag: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(dir) = flag {
        return std::path::absolute(dir).with_context(|| format!("--data-dir {}", dir.display()));
    }
    if nix::unistd::geteuid().is_root() {
        return Ok(PathBuf::from(ROOT_DATA_DIR));
    }
    match (std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME")) {
        (Some(data), _) if !data.is_empty() => Ok(PathBuf::from(data).join("quorate")),
        (_, Some(home)) if !home.is_empty() => Ok(PathBuf::from(home).join(".local/share/quorate")),
        _ => bail!("neither XDG_DATA_HOME nor HOME is set: say where to keep data with --data-dir"),
    }
}

/// `--name`, else the host name up to its first dot, as nodes and members are named.
pub(crate) fn name(flag: Option<&str>) -> anyhow::Result<String> {
    if let Some(name) = flag {
        return Ok(name.to_owned());
    }
    let host = nix::unistd::gethostname().context("the host name")?;
    let host = host.to_string_lossy().to_lowercase();
    Ok(host.split('.').next().unwrap_or("localhost").to_owned())
}

/// `--kubeconfig`, else $KUBECONFIG, else the one in the data directory.
pub(crate) fn kubeconfig(flag: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = flag {
        return Ok(path.to_owned());
    }
    match std::env::var_os("KUBECONFIG") {
        Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
        _ => Ok(data_dir(None)?.join("kubeconfig")),
    }
}

/// A directory only its owner may enter.
pub(crate) fn create_private_dir(dir: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(dir).with_context(|| format!("{} cannot be created", dir.display()))
}
