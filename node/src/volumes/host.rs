//! Directories and files of the host.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::VolumeError;

/// Check, or make, a path by the type that the volume names.
pub(super) fn check(path: &Path, kind: &str) -> Result<(), VolumeError> {
    let io = |source| VolumeError::io(path, source);
    match kind {
        "DirectoryOrCreate" => std::fs::create_dir_all(path).map_err(io)?,
        "FileOrCreate" if !path.exists() => {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(io)?;
            }
            std::fs::write(path, b"").map_err(io)?;
        }
        _ => {}
    }
    let file_type = || std::fs::metadata(path).ok().map(|metadata| metadata.file_type());
    let (fits, expected) = match kind {
        "Directory" | "DirectoryOrCreate" => (file_type().is_some_and(|t| t.is_dir()), "a directory"),
        "File" | "FileOrCreate" => (file_type().is_some_and(|t| t.is_file()), "a file"),
        "Socket" => (file_type().is_some_and(|t| t.is_socket()), "a socket file"),
        "CharDevice" => (file_type().is_some_and(|t| t.is_char_device()), "a character device"),
        "BlockDevice" => (file_type().is_some_and(|t| t.is_block_device()), "a block device"),
        // Without a type nothing is checked: the runtime makes a directory where nothing is.
        _ => {
            if !path.exists() {
                std::fs::create_dir_all(path).map_err(io)?;
            }
            (true, "")
        }
    };
    if fits { Ok(()) } else { Err(VolumeError::HostPath { path: path.display().to_string(), expected }) }
}
