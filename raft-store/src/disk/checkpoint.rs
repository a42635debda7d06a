//! The files of a checkpoint, read and written piece by piece.

use std::io::{Read, Seek, SeekFrom, Write};

use bytes::Bytes;

use super::rocks_state::io_error;
use super::{Checkpoint, DiskError};

impl Checkpoint {
    /// The names of its files, in order.
    pub(crate) fn files(&self) -> Result<Vec<String>, DiskError> {
        match self {
            Self::Memory(files) => Ok(files.lock().keys().cloned().collect()),
            Self::Directory(directory) => {
                let mut names = Vec::new();
                for entry in std::fs::read_dir(&directory.path).map_err(io_error)? {
                    let name = entry.map_err(io_error)?.file_name().into_string();
                    names.push(name.map_err(|_name| DiskError::Corrupt("a checkpoint's file name".to_owned()))?);
                }
                names.sort();
                Ok(names)
            }
        }
    }

    /// At most `length` bytes of a file from `offset`; empty at its end.
    pub(crate) fn read(&self, name: &str, offset: u64, length: usize) -> Result<Bytes, DiskError> {
        match self {
            Self::Memory(files) => {
                let files = files.lock();
                let content = files.get(name).map_or(&[][..], Vec::as_slice);
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
                Ok(Bytes::copy_from_slice(&content[from..content.len().min(from + length)]))
            }
            Self::Directory(directory) => {
                let mut piece = Vec::with_capacity(length);
                let mut file = std::fs::File::open(directory.path.join(name)).map_err(io_error)?;
                file.seek(SeekFrom::Start(offset)).map_err(io_error)?;
                file.take(length as u64).read_to_end(&mut piece).map_err(io_error)?;
                Ok(piece.into())
            }
        }
    }

    /// Append to a file, which is made if there is none.
    pub(crate) fn append(&self, name: &str, piece: &[u8]) -> Result<(), DiskError> {
        if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(DiskError::Corrupt(format!("a checkpoint's file name {name:?}")));
        }
        match self {
            Self::Memory(files) => {
                files.lock().entry(name.to_owned()).or_default().extend_from_slice(piece);
                Ok(())
            }
            Self::Directory(directory) => {
                let path = directory.path.join(name);
                let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
                file.and_then(|mut file| file.write_all(piece)).map_err(io_error)
            }
        }
    }

    /// Make everything durable.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        let Self::Directory(directory) = self else { return Ok(()) };
        for name in self.files()? {
            let file = std::fs::File::open(directory.path.join(name));
            file.and_then(|file| file.sync_all()).map_err(io_error)?;
        }
        std::fs::File::open(&directory.path).and_then(|directory| directory.sync_all()).map_err(io_error)
    }
}
