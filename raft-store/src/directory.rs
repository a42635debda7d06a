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
    let disk = |error| OpenError::Disk { path: path.to_owned(), source: io_error(error) };
    std::fs::create_dir_all(path).map_err(disk)?;
    let file = File::options().create(true).truncate(false).write(true).open(path.join(LOCK_FILE)).map_err(disk)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => return Err(disk(error)),
    }
    match std::fs::read_to_string(path.join(FORMAT_FILE)) {
        Ok(text) => {
            let found = text.trim().parse().unwrap_or(u32::MAX);
            if found != FORMAT {
                return Err(OpenError::NewerFormat { path: path.to_owned(), found, supported: FORMAT });
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::write(path.join(FORMAT_FILE), format!("{FORMAT}\n")).map_err(disk)?;
            File::open(path).and_then(|directory| directory.sync_all()).map_err(disk)?;
        }
        Err(error) => return Err(disk(error)),
    }
    Ok(Lock(file))
}

/// Read whose data the log is, or make it this member's.
pub(crate) fn identify(log: &dyn LogDisk, path: &Path, name: &str, random: &Random) -> Result<Identity, OpenError> {
    let disk = |source: DiskError| OpenError::Disk { path: path.to_owned(), source };
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
