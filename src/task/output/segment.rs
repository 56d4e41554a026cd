//! One segment of a spool: a stretch of output in a file, or in memory.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::budget::StorageKind;
use crate::process::files;
use crate::text::foreign::ShowPath;
use crate::text::lines::{LinePosition, Piece};

/// Where a segment's bytes are.
#[derive(Debug, Clone)]
pub(crate) enum Medium {
    /// A file of the state directory.
    File(PathBuf),
    /// Memory, if the disk failed or is not wanted.
    Memory(Arc<Mutex<Vec<u8>>>),
}

/// A part of a task's output in one place.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    /// Counted from 0; a file's extension.
    pub(crate) number: u64,
    /// Where it begins in the output.
    pub(crate) start: LinePosition,
    pub(crate) end: LinePosition,
    pub(crate) medium: Medium,
}

impl Segment {
    pub(crate) fn length(&self) -> u64 {
        self.end.at.offset - self.start.at.offset
    }

    pub(crate) fn store(&self) -> StorageKind {
        match self.medium {
            Medium::File(_) => StorageKind::Disk,
            Medium::Memory(_) => StorageKind::Memory,
        }
    }

    /// The part of it between `from` and `to`, which must overlap it. If that includes its
    /// beginning, the piece begins at the segment's own start.
    ///
    /// # Errors
    /// The file is gone or cannot be read.
    pub(crate) fn piece(&self, from: LinePosition, to: u64) -> io::Result<Piece> {
        let start = if from.at.offset <= self.start.at.offset { self.start } else { from };
        let bytes = self.read(start.at.offset, to.min(self.end.at.offset))?;
        Ok(Piece { start, bytes })
    }

    fn read(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let start = from.saturating_sub(self.start.at.offset);
        let length = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        match &self.medium {
            Medium::File(path) => {
                let file = files::open_private(path).map_err(|error| {
                    io::Error::new(error.kind(), format!("cannot read {}: {error}", path.shown()))
                })?;
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, start)?;
                Ok(bytes)
            }
            Medium::Memory(memory) => {
                let memory = memory.lock();
                let start = usize::try_from(start).unwrap_or(usize::MAX);
                Ok(memory.get(start..start.saturating_add(length)).unwrap_or_default().to_vec())
            }
        }
    }
}

pub(crate) fn segment_path(base: &Path, number: u64) -> PathBuf {
    base.with_extension(number.to_string())
}

/// Writes until everything is written or the disk fails; returns how many bytes were written.
pub(crate) fn write_as_much_as_possible(
    file: &mut File,
    bytes: &[u8],
) -> (usize, Option<io::Error>) {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match file.write(rest) {
            Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}
