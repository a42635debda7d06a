//! Where things are when no flag says otherwise.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// An address in a range reserved for documentation: nothing is sent there, it only asks the kernel for a route.
const ROUTE_PROBE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);
const GROUP_AND_OTHERS: u32 = 0o077;

/// The address that the default route would use.
pub(crate) fn routed_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(ROUTE_PROBE).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

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

/// A directory only its owner may enter, also when it was there before: secrets and keys come into it.
pub(crate) fn create_private_dir(dir: &Path) -> anyhow::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(dir).with_context(|| format!("{} cannot be created", dir.display()))?;
    let permissions = std::fs::metadata(dir).with_context(|| format!("{}", dir.display()))?.permissions();
    if permissions.mode() & GROUP_AND_OTHERS != 0 {
        let private = std::fs::Permissions::from_mode(permissions.mode() & !GROUP_AND_OTHERS);
        std::fs::set_permissions(dir, private)
            .with_context(|| format!("{} is open to others and cannot be closed", dir.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_is_closed_to_others() {
        let dir = std::env::temp_dir().join(format!("quorate-places-{}", std::process::id()));
        let mode = || std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777;
        create_private_dir(&dir).unwrap();
        assert_eq!(mode(), 0o700);
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        create_private_dir(&dir).unwrap();
        assert_eq!(mode(), 0o700);
        std::fs::remove_dir(&dir).unwrap();
    }
}
