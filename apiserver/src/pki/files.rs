//! Private files that are either whole or absent, whatever happens while they are written.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use quorate_env::Env;

use super::PkiError;

/// Only the owner may read keys and kubeconfigs.
const PRIVATE: u32 = 0o600;
const PRIVATE_DIR: u32 = 0o700;

/// Writes `content` to `path` (mode 0600): durable when this returns, and never seen half-written.
pub fn write_private(path: &Path, content: &[u8], env: &Env) -> Result<(), PkiError> {
    let temporary = sibling(path, env);
    let outcome =
        write_new(&temporary, content).and_then(|()| fs::rename(&temporary, path)).and_then(|()| sync_parent(path));
    outcome.map_err(|source| {
        // The error that matters is the one above; a left-over is only untidy.
        drop(fs::remove_file(&temporary));
        PkiError::Write { path: path.to_owned(), source }
    })
}

/// Makes `dir` with all `files` at once; refuses when it exists and is not empty.
pub(super) fn create_dir_with(dir: &Path, files: &[(String, String)], env: &Env) -> Result<(), PkiError> {
    let write_error = |source| PkiError::Write { path: dir.to_owned(), source };
    if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(PkiError::AlreadyExists { path: dir.to_owned() });
    }
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).map_err(write_error)?;
    }
    let temporary = sibling(dir, env);
    let outcome = fill(&temporary, files).and_then(|()| fs::rename(&temporary, dir)).and_then(|()| sync_parent(dir));
    outcome.map_err(|source| {
        // As above: the left-over is only untidy.
        drop(fs::remove_dir_all(&temporary));
        match source.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => PkiError::AlreadyExists { path: dir.to_owned() },
            _ => write_error(source),
        }
    })
}

fn fill(dir: &Path, files: &[(String, String)]) -> std::io::Result<()> {
    fs::create_dir(dir)?;
    fs::set_permissions(dir, Permissions::from_mode(PRIVATE_DIR))?;
    for (name, content) in files {
        write_new(&dir.join(name), content.as_bytes())?;
    }
    File::open(dir)?.sync_all()
}

fn write_new(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn sync_parent(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn sibling(path: &Path, env: &Env) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", env.random.suffix(8)));
    path.with_file_name(name)
}

pub(super) fn read(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => PkiError::Missing { path: path.to_owned() },
        _ => PkiError::Read { path: path.to_owned(), source },
    })
}
