//! Replacing all files of a directory at once.
//!
//! The files live in a directory of their own with a new name each time; `..data` is a link to it, replaced by one
//! rename; the names that users see are links through `..data`, so they change all together.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use quorate_env::Env;

use super::VolumeError;
use super::content::File;

const DATA: &str = "..data";
const DATA_NEXT: &str = "..data_tmp";
/// Read (and search) for the group that a pod's volumes belong to.
const GROUP_READ: u32 = 0o440;

/// Make `directory` hold exactly `files`. Nothing is touched when it already does.
pub(super) fn write(
    directory: &Path,
    files: &BTreeMap<String, File>,
    group: Option<i64>,
    env: &Env,
) -> Result<(), VolumeError> {
    let data = directory.join(DATA);
    let current = std::fs::read_link(&data).ok();
    if current.is_some() && holds(&data, files, group) {
        return Ok(());
    }
    let stamp = env.clock.wall().strftime("%Y_%m_%d_%H_%M_%S").to_string();
    let version = format!("..{stamp}.{}", env.random.below(1_000_000_000));
    let version_dir = directory.join(&version);
    create_dir(&version_dir, group)?;
    for (path, file) in files {
        let Some(relative) = safe(path) else { continue };
        write_file(&version_dir, &relative, file, group)?;
    }
    let next = directory.join(DATA_NEXT);
    remove_if_there(&next)?;
    std::os::unix::fs::symlink(&version, &next).map_err(|source| VolumeError::io(&next, source))?;
    std::fs::rename(&next, &data).map_err(|source| VolumeError::io(&data, source))?;
    link_names(directory, files)?;
    if let Some(old) = current {
        let old = directory.join(old);
        std::fs::remove_dir_all(&old).map_err(|source| VolumeError::io(&old, source))?;
    }
    Ok(())
}

fn write_file(base: &Path, relative: &Path, file: &File, group: Option<i64>) -> Result<(), VolumeError> {
    let path = base.join(relative);
    if let Some(parent) = relative.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        let mut directory = base.to_owned();
        for part in parent.components() {
            directory.push(part);
            if !directory.exists() {
                create_dir(&directory, group)?;
            }
        }
    }
    std::fs::write(&path, &file.bytes).map_err(|source| VolumeError::io(&path, source))?;
    own(&path, mode_of(file, group), group)
}

fn mode_of(file: &File, group: Option<i64>) -> u32 {
    if group.is_some() { file.mode | GROUP_READ } else { file.mode }
}

fn create_dir(path: &Path, group: Option<i64>) -> Result<(), VolumeError> {
    std::fs::create_dir_all(path).map_err(|source| VolumeError::io(path, source))?;
    own(path, 0o755, group)
}

fn own(path: &Path, mode: u32, group: Option<i64>) -> Result<(), VolumeError> {
    let io = |source| VolumeError::io(path, source);
    if let Some(group) = group.and_then(|group| u32::try_from(group).ok()) {
        std::os::unix::fs::chown(path, None, Some(group)).map_err(io)?;
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(io)
}

/// A path that stays below its directory.
fn safe(path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    let stays = path.components().all(|part| matches!(part, Component::Normal(_)));
    (stays && !path.as_os_str().is_empty()).then(|| path.to_owned())
}

fn holds(data: &Path, files: &BTreeMap<String, File>, group: Option<i64>) -> bool {
    let mut found = BTreeSet::new();
    if !list(data, Path::new(""), &mut found) {
        return false;
    }
    let wanted: BTreeSet<PathBuf> = files.keys().filter_map(|path| safe(path)).collect();
    found == wanted
        && files.iter().filter_map(|(path, file)| Some((safe(path)?, file))).all(|(path, file)| {
            let path = data.join(path);
            let same_mode = std::fs::metadata(&path)
                .is_ok_and(|metadata| metadata.permissions().mode() & 0o777 == mode_of(file, group));
            same_mode && std::fs::read(&path).is_ok_and(|bytes| bytes == file.bytes)
        })
}

/// Whether all of the tree could be read.
fn list(base: &Path, below: &Path, found: &mut BTreeSet<PathBuf>) -> bool {
    let Ok(entries) = std::fs::read_dir(base.join(below)) else { return false };
    entries.flatten().all(|entry| {
        let path = below.join(entry.file_name());
        if entry.path().is_dir() {
            list(base, &path, found)
        } else {
            found.insert(path);
            true
        }
    })
}

/// One link per name at the top of the volume; names that are gone lose theirs.
fn link_names(directory: &Path, files: &BTreeMap<String, File>) -> Result<(), VolumeError> {
    let names: BTreeSet<String> = files
        .keys()
        .filter_map(|path| safe(path))
        .filter_map(|path| path.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned()))
        .collect();
    let entries = std::fs::read_dir(directory).map_err(|source| VolumeError::io(directory, source))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_link = entry.path().symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        if is_link && name != DATA && !names.contains(&name) {
            remove_if_there(&entry.path())?;
        }
    }
    for name in names {
        let link = directory.join(&name);
        if link.symlink_metadata().is_err() {
            std::os::unix::fs::symlink(Path::new(DATA).join(&name), &link)
                .map_err(|source| VolumeError::io(&link, source))?;
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> Result<(), VolumeError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(VolumeError::io(path, source)),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> BTreeMap<String, File> {
        let file = |text: &str| File { bytes: text.as_bytes().to_vec(), mode: 0o640 };
        list.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
    }

    fn read(directory: &Path, name: &str) -> Option<String> {
        std::fs::read_to_string(directory.join(name)).ok()
    }

    #[test]
    fn a_swap_replaces_all_and_leaves_one_version() {
        let env = Env::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        write(at, &files(&[("a", "1"), ("sub/b", "2")]), None, &env).unwrap();
        assert_eq!((read(at, "a"), read(at, "sub/b")), (Some("1".into()), Some("2".into())));
        let first = std::fs::read_link(at.join(DATA)).unwrap();

        write(at, &files(&[("a", "1"), ("sub/b", "2")]), None, &env).unwrap();
        assert_eq!(std::fs::read_link(at.join(DATA)).unwrap(), first, "unchanged content is not touched");

        write(at, &files(&[("a", "3"), ("c", "4"), ("../out", "5")]), None, &env).unwrap();
        assert_eq!((read(at, "a"), read(at, "sub/b"), read(at, "c")), (Some("3".into()), None, Some("4".into())));
        assert!(!at.join(&first).exists());
        assert!(!at.parent().unwrap().join("out").exists());
        let mode = std::fs::metadata(at.join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }
}
