//! The data directory: one process at a time, one member, a known format.

use std::fs::{File, TryLockError};
use std::path::Path;

use bincode::{Decode, Encode};
use quorate_env::Random;

use crate::disk::DiskError;
use crate::disk::log::{LogDisk, LogOp};
use crate::disk::rocks_state::io_error;
use crate::envelope;
use crate::error::OpenError;

/// What this version writes; it reads none other.
const FORMAT: u32 = 1;
const FORMAT_FILE: &str = "FORMAT";
const LOCK_FILE: &str = "LOCK";
const IDENTITY: &str = "identity";

/// Whose data this is.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Identity {
    pub(crate) name: String,
    /// Drawn when the directory was made: tells it from an empty one that took its place.
    pub(crate) incarnation: u64,
}

/// Held while the directory is in use; the operating system releases it with the process.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held for its lock")] File);

/// Make the directory, lock it, and check or write its format.
pub(crate) fn lock(path: &Path) -> Result<Lock, OpenError> {
    let disk = |error| OpenError::of_disk(path, io_error(error));
    std::fs::create_dir_all(path).map_err(disk)?;
    let file = File::options().create(true).truncate(false).write(true).open(path.join(LOCK_FILE)).map_err(disk)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => return Err(disk(error)),
    }
    match std::fs::read_to_string(path.join(FORMAT_FILE)) {
        Ok(text) => {
            let damaged = |_invalid| DiskError::Corrupt(format!("file {FORMAT_FILE} holds no number"));
            let found: u32 = text.trim().parse().map_err(damaged).map_err(|error| OpenError::of_disk(path, error))?;
            if found != FORMAT {
                return Err(OpenError::NewerFormat { path: path.to_owned(), found, supported: FORMAT });
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            write_format(path).map_err(disk)?;
        }
        Err(error) => return Err(disk(error)),
    }
    Ok(Lock(file))
}

/// Whether the log is somebody's already.
pub(crate) fn is_identified(log: &dyn LogDisk) -> Result<bool, DiskError> {
    Ok(log.meta(IDENTITY)?.is_some())
}

/// Make the names in a directory durable.
pub(crate) fn sync(path: &Path) -> Result<(), DiskError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(io_error)
}

/// Whole or not at all: a half-written number would look like damage ever after.
fn write_format(path: &Path) -> std::io::Result<()> {
    let aside = path.join(format!("{FORMAT_FILE}.new"));
    std::fs::write(&aside, format!("{FORMAT}\n"))?;
    File::open(&aside)?.sync_all()?;
    std::fs::rename(&aside, path.join(FORMAT_FILE))?;
    File::open(path)?.sync_all()
}

/// Read whose data the log is, or make it this member's.
pub(crate) fn identify(log: &dyn LogDisk, path: &Path, name: &str, random: &Random) -> Result<Identity, OpenError> {
    let disk = |source: DiskError| OpenError::of_disk(path, source);
    if let Some(sealed) = log.meta(IDENTITY).map_err(disk)? {
        let identity: Identity = envelope::open(&sealed).map_err(disk)?;
        if identity.name != name {
            let (path, name) = (path.to_owned(), name.to_owned());
            return Err(OpenError::OtherMember { path, found: identity.name, name });
        }
        return Ok(identity);
    }
    // Never 0, which stands for "not on record".
    let identity = Identity { name: name.to_owned(), incarnation: random.u64() | 1 };
    log.write(&[LogOp::Meta { name: IDENTITY, value: envelope::seal(&identity) }]).map_err(disk)?;
    Ok(identity)
}
