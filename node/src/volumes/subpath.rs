//! A path inside a volume, as a mount of its own.
//!
//! Containers that share a volume may exchange a directory in it for a link at any moment. So a path is opened once, by
//! a call in which the kernel itself refuses to leave the volume, and what was opened is what is mounted: the runtime
//! gets the mount's path, in which there is nothing left to exchange.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::mount::{MntFlags, MsFlags};
use nix::sys::stat::{Mode, mkdirat};

/// The kernel asks to try again when the volume changed under its hands.
const OPEN_TRIES: usize = 32;
const DIRECTORY_BITS: Mode = Mode::from_bits_truncate(0o755);

#[derive(Debug, thiserror::Error)]
pub(super) enum SubPathError {
    #[error("it leads out of the volume")]
    Outside,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<Errno> for SubPathError {
    fn from(error: Errno) -> Self {
        match error {
            // A link that leads out, or one of those that are not paths.
            Errno::EXDEV | Errno::ELOOP => Self::Outside,
            other => Self::Io(other.into()),
        }
    }
}

/// What is at `path` below `base`, made as a directory if nothing is there.
pub(super) fn open_below(base: &Path, path: &str) -> Result<OwnedFd, SubPathError> {
    let mut parts: Vec<&OsStr> = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => return Err(SubPathError::Outside),
        }
    }
    let root = open(base, OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_DIRECTORY, Mode::empty())?;
    let mut reached = PathBuf::from(".");
    let mut parent = beneath(&root, &reached)?;
    for part in parts {
        reached.push(part);
        parent = match beneath(&root, &reached) {
            Err(SubPathError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                match mkdirat(&parent, part, DIRECTORY_BITS) {
                    // Somebody else was faster.
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                beneath(&root, &reached)?
            }
            found => found?,
        };
    }
    Ok(parent)
}

fn beneath(root: &OwnedFd, path: &Path) -> Result<OwnedFd, SubPathError> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    for _ in 1..OPEN_TRIES {
        match openat2(root, path, how) {
            Err(Errno::EAGAIN) => {}
            outcome => return Ok(outcome?),
        }
    }
    Ok(openat2(root, path, how)?)
}

/// Mount what was opened at `target`, in the place of what an earlier container had there.
pub(super) fn bind(opened: &OwnedFd, target: &Path) -> Result<(), SubPathError> {
    // Nothing may be mounted there, or nothing be there at all; what goes is empty, or is in use and stays.
    let _nothing_mounted = nix::mount::umount2(target, MntFlags::MNT_DETACH);
    let _nothing_there = std::fs::remove_dir(target).or_else(|_| std::fs::remove_file(target));
    let link = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    if std::fs::metadata(&link)?.is_dir() {
        std::fs::create_dir_all(target)?;
    } else {
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        File::create(target)?;
    }
    nix::mount::mount(Some(&link), target, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    Ok(())
}

/// The present path of what was opened, for those who may not mount.
pub(super) fn path_of(opened: &OwnedFd) -> Result<PathBuf, SubPathError> {
    Ok(std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside_and_links_that_do_too_are_followed() {
        let home = tempfile::tempdir().unwrap();
        let volume = home.path().join("v");
        std::fs::create_dir(&volume).unwrap();
        std::fs::create_dir(home.path().join("secret")).unwrap();
        let get = |path: &str| open_below(&volume, path).and_then(|opened| path_of(&opened));
        assert_eq!(get("a/b").unwrap(), volume.join("a/b"));
        assert!(volume.join("a/b").is_dir());
        std::fs::write(volume.join("a/file"), "x").unwrap();
        assert_eq!(get("./a/file").unwrap(), volume.join("a/file"));
        std::os::unix::fs::symlink("a", volume.join("in")).unwrap();
        assert_eq!(get("in/b").unwrap(), volume.join("a/b"));
        assert_eq!(get("in/c").unwrap(), volume.join("a/c"));
        std::os::unix::fs::symlink("/", volume.join("out")).unwrap();
        std::os::unix::fs::symlink("../secret", volume.join("up")).unwrap();
        for path in ["../x", "/etc", "a/../../x", "out/tmp", "out/not-there-at-all", "up", "up/x"] {
            assert!(matches!(get(path), Err(SubPathError::Outside)), "{path}: {:?}", get(path));
        }
        assert_eq!(std::fs::read_dir(home.path().join("secret")).unwrap().count(), 0);
        assert!(matches!(get("a/file/x"), Err(SubPathError::Io(_))));
    }
}
