//! One segment of a spool: a stretch of output in a file, or in memory.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::process::files;
use crate::text::lines::Position;

/// What holds a segment's bytes.
#[derive(Debug, Clone)]
pub(super) enum Medium {
    /// A file of the state directory.
    File(PathBuf),
    /// Memory, where the disk failed or is not wanted.
    Memory(Arc<Mutex<Vec<u8>>>),
}

/// A stretch of a task's output in one place.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// Counted from 0; a file's extension.
    pub number: u64,
    /// Where it begins in the output.
    pub start: Position,
    /// Bytes in it.
    pub length: u64,
    /// What holds them.
    pub medium: Medium,
}

impl Segment {
    /// Where it ends in the output.
    pub fn end(&self) -> u64 {
        self.start.offset + self.length
    }

    /// Reads bytes `from` to `to` of the output, which must lie in it.
    ///
    /// # Errors
    /// When the file is gone or cannot be read.
    pub fn read(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let start = from - self.start.offset;
        let length = usize::try_from(to - from).unwrap_or(usize::MAX);
        match &self.medium {
            Medium::File(path) => {
                let file = files::open_private(path).map_err(|error| {
                    io::Error::new(
                        error.kind(),
                        format!("cannot read {}: {error}", path.display()),
                    )
                })?;
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, start)?;
                Ok(bytes)
            }
            Medium::Memory(memory) => {
                let memory = memory.lock();
                let start = usize::try_from(start).unwrap_or(usize::MAX);
                Ok(memory
                    .get(start..start.saturating_add(length))
                    .unwrap_or_default()
                    .to_vec())
            }
        }
    }
}

/// A segment's file.
pub(super) fn segment_path(base: &Path, number: u64) -> PathBuf {
    base.with_extension(number.to_string())
}

/// Writes until all is written or the disk refuses.
pub(super) fn write_as_much_as_possible(
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
