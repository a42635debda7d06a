//! Volumes in memory, and finding what is mounted below a directory.

use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags};

use super::VolumeError;

/// Mount a file system in memory at `path`, unless something is mounted there already.
pub(super) fn mount(path: &Path, size: Option<i64>) -> Result<(), VolumeError> {
    if mounts_below(path)?.iter().any(|mount| mount == path) {
        return Ok(());
    }
    // Without the right to mount, memory-backed volumes live on disk: their content is the same.
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let data = size.map_or_else(|| "mode=0777".to_owned(), |size| format!("mode=0777,size={size}"));
    nix::mount::mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(data.as_str()))
        .map_err(|source| VolumeError::Mount { path: path.display().to_string(), source })
}

/// Unmount all that is mounted at or below `path`, innermost first.
pub(super) fn unmount_below(path: &Path) -> Result<(), VolumeError> {
    let mut mounts = mounts_below(path)?;
    mounts.sort();
    for mount in mounts.iter().rev() {
        nix::mount::umount2(mount, MntFlags::MNT_DETACH)
            .map_err(|source| VolumeError::Mount { path: mount.display().to_string(), source })?;
    }
    Ok(())
}

fn mounts_below(path: &Path) -> Result<Vec<PathBuf>, VolumeError> {
    let table = Path::new("/proc/self/mountinfo");
    let text = std::fs::read_to_string(table).map_err(|source| VolumeError::io(table, source))?;
    Ok(text.lines().filter_map(mount_point).filter(|mount| mount.starts_with(path)).collect())
}

/// The fifth column; the kernel writes white space in it as octal escapes.
fn mount_point(line: &str) -> Option<PathBuf> {
    let text = line.split(' ').nth(4)?;
    Some(PathBuf::from(text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")))
}
