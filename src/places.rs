//! Where things are when no flag says otherwise.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

const ROOT_DATA_DIR: &str = "/var/lib/quorate";
/// What makes a data directory ours.
const OURS: [&str; 4] = ["store", "pki", "node", "membership.json"];
const PRIVATE: u32 = 0o700;
/// What group and others may do.
const OTHERS: u32 = 0o077;
/// An address in a range reserved for documentation: nothing is sent there, it only asks the kernel for a route.
const ROUTE_PROBE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);

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

/// Where others reach what listens on `listen`: for all addresses of the machine, the one that its default route uses.
pub(crate) fn advertised(listen: SocketAddr) -> anyhow::Result<SocketAddr> {
    if !listen.ip().is_unspecified() {
        return Ok(listen);
    }
    let routed = routed_address().with_context(|| {
        format!("--listen {listen}: the machine has no default route; name its address with --advertise")
    })?;
    Ok(SocketAddr::new(routed, listen.port()))
}

/// Where this machine reaches what listens on `listen`.
pub(crate) fn from_here(listen: SocketAddr) -> SocketAddr {
    let loopback = match listen.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    if listen.ip().is_unspecified() { SocketAddr::new(loopback, listen.port()) } else { listen }
}

/// The address that the default route would use.
pub(crate) fn routed_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(ROUTE_PROBE).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// A directory only its owner may enter. One that is there already and that others may enter is closed to them if it is
/// ours or empty: it holds secrets and keys.
pub(crate) fn create_private_dir(dir: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(PRIVATE);
    builder.create(dir).with_context(|| format!("{} cannot be created", dir.display()))?;
    let name = dir.display();
    let mode = std::fs::metadata(dir).with_context(|| format!("{name}"))?.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    if !is_ours(dir).with_context(|| format!("{name} cannot be read"))? {
        bail!(
            "{name} is open to others and holds other things: give quorate a directory of its own, or run `chmod 700 {name}`"
        );
    }
    let private = std::fs::Permissions::from_mode(PRIVATE);
    std::fs::set_permissions(dir, private).with_context(|| format!("{name} is open to others; run `chmod 700 {name}`"))
}

/// It is empty, or what quorate keeps is in it.
fn is_ours(dir: &Path) -> std::io::Result<bool> {
    let mut entries = std::fs::read_dir(dir)?.peekable();
    if entries.peek().is_none() {
        return Ok(true);
    }
    let ours = |name: &std::ffi::OsStr| OURS.iter().any(|own| name == *own);
    Ok(entries.collect::<Result<Vec<_>, _>>()?.iter().any(|entry| ours(&entry.file_name())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(dir: &Path) -> u32 {
        std::fs::metadata(dir).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn data_is_closed_to_others() {
        let root = tempfile::tempdir().unwrap();
        let (new, old, foreign) = (root.path().join("new/data"), root.path().join("old"), root.path().join("foreign"));
        create_private_dir(&new).unwrap();
        assert_eq!(mode(&new), 0o700);
        for dir in [&old, &foreign] {
            std::fs::create_dir(dir).unwrap();
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        create_private_dir(&old).unwrap();
        assert_eq!(mode(&old), 0o700, "empty, as a service manager makes it");
        std::fs::create_dir(old.join("store")).unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o750)).unwrap();
        create_private_dir(&old).unwrap();
        assert_eq!(mode(&old), 0o700);
        std::fs::write(foreign.join("letter"), "").unwrap();
        let refused = create_private_dir(&foreign).unwrap_err().to_string();
        assert!(refused.contains("chmod 700") && mode(&foreign) == 0o755, "{refused}");
    }

    #[test]
    fn all_addresses_are_none_to_advertise() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(advertised(parse("10.0.0.1:6443")).unwrap(), parse("10.0.0.1:6443"));
        match (advertised(parse("0.0.0.0:6443")), routed_address()) {
            (Ok(told), Some(routed)) => assert_eq!(told, SocketAddr::new(routed, 6443)),
            (Err(refused), None) => assert!(refused.to_string().contains("--advertise"), "{refused}"),
            (told, routed) => panic!("{told:?} with {routed:?}"),
        }
        assert_eq!(from_here(parse("0.0.0.0:6443")), parse("127.0.0.1:6443"));
        assert_eq!(from_here(parse("[::]:6443")), parse("[::1]:6443"));
        assert_eq!(from_here(parse("10.0.0.1:6443")), parse("10.0.0.1:6443"));
    }
}
