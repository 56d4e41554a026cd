//! Reads a task's output by byte offset, from this process's spool or from the files in
//! another server's directory.
//!
//! Output dropped for the quota is a gap of known length. Limits: output that another server keeps
//! only in memory cannot be read. To follow output, see `events`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::readable;
use crate::process::files;
use crate::task::journal;
use crate::task::registry::TaskHandle;
use crate::task::snapshot::Snapshot;
use crate::task::stream::StreamName;
use crate::text::ansi::{self, Colours};
use crate::text::foreign::ShowPath;
use crate::text::lines::{LinePosition, Position, elide_middle};

/// Bytes read for one event.
const PIECE_BYTES: u64 = 32 * 1024;
/// Bytes at the end of the output that are searched for its last lines.
const TAIL_BYTES: u64 = 8 * 1024;
/// Characters of a line that a tail shows.
const TAIL_LINE_CHARS: usize = 400;

/// Where a task's output is stored.
#[derive(Debug, Clone)]
pub(crate) enum OutputSource {
    /// In this process.
    Own(Arc<TaskHandle>),
    /// In another server's directory.
    Files { directory: PathBuf, task: String },
}

/// A piece of output as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Bytes before the piece that are lost.
    pub(crate) gap: u64,
    pub(crate) text: String,
    /// The offset after the piece, from which to continue.
    pub(crate) end: u64,
}

/// The output that can be read now.
enum Retained {
    Own(Arc<TaskHandle>),
    /// In the order of their offsets.
    Files(Vec<OutputFile>),
}

/// One file of an output.
struct OutputFile {
    path: PathBuf,
    start: u64,
    end: u64,
}

impl OutputSource {
    /// The end of the readable output.
    pub(crate) fn end(&self, snapshot: &Snapshot) -> u64 {
        self.retained(snapshot).end()
    }

    /// The next piece after `from`, of bounded size; `None` if there is none yet. `is_all` means
    /// that no more output will come.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn next(
        &self,
        snapshot: &Snapshot,
        from: u64,
        is_all: bool,
    ) -> io::Result<Option<Chunk>> {
        let retained = self.retained(snapshot);
        let Some(start) = retained.next_readable_offset(from) else {
            return Ok(None);
        };
        let to = retained.end().min(start.saturating_add(PIECE_BYTES));
        let bytes = retained.read(start, to)?;
        let end = start + bytes.len() as u64;
        // If a piece ends early, its rest is lost, so its last character is final.
        let is_all = end < to || (is_all && to == retained.end());
        let read = readable::read(&bytes, is_all, snapshot.output.columns);
        let gap = start - from;
        let is_empty = read.bytes == 0 && gap == 0;
        Ok((!is_empty).then(|| Chunk { gap, text: read.text, end: start + read.bytes as u64 }))
    }

    /// At most `limit` of the last lines, each of bounded length; none if they cannot be read.
    pub(crate) fn tail(&self, snapshot: &Snapshot, limit: usize) -> Vec<String> {
        let retained = self.retained(snapshot);
        let to = retained.end();
        let from = retained.next_readable_offset(to.saturating_sub(TAIL_BYTES));
        let bytes = from.and_then(|from| retained.read(from, to).ok());
        let bytes = bytes.unwrap_or_default();
        let mut lines: Vec<String> = bytes
            .split(|byte| *byte == b'\n')
            .rev()
            .map(|line| ansi::readable(line, Colours::Drop, snapshot.output.columns))
            .filter(|line| !line.trim().is_empty())
            .take(limit)
            .map(|line| elide_middle(&line, TAIL_LINE_CHARS))
            .collect();
        lines.reverse();
        lines
    }

    fn retained(&self, snapshot: &Snapshot) -> Retained {
        match self {
            OutputSource::Own(task) => Retained::Own(Arc::clone(task)),
            OutputSource::Files { directory, task } => {
                Retained::Files(spans(directory, task, &snapshot.output.kept.starts))
            }
        }
    }
}

impl Retained {
    fn end(&self) -> u64 {
        match self {
            Retained::Own(task) => task.live.state().streams.output.end.offset,
            Retained::Files(files) => files.last().map_or(0, |file| file.end),
        }
    }

    /// Where the output continues: at `from`, or after the gap that contains it.
    fn next_readable_offset(&self, from: u64) -> Option<u64> {
        match self {
            Retained::Own(task) => {
                Some(task.spools.output.next_retained(position(from))?.at.offset)
            }
            Retained::Files(files) => {
                let next = files.iter().find(|file| file.end > from)?;
                Some(next.start.max(from))
            }
        }
    }

    /// The output between `from` and `to`, up to the first gap.
    fn read(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        match self {
            Retained::Own(task) => {
                let pieces = task.spools.output.read(position(from), to)?;
                let first = pieces.into_iter().next();
                let begins_there = first.filter(|piece| piece.start.at.offset == from);
                Ok(begins_there.map_or_else(Vec::new, |piece| piece.bytes))
            }
            Retained::Files(files) => read_files(files, from, to),
        }
    }
}

/// A position with this offset; its line number is not used.
fn position(offset: u64) -> LinePosition {
    LinePosition { at: Position { offset, line: 1 }, inside_line: false }
}

/// Stops early at a gap and at a file that has been dropped since it was listed.
fn read_files(files: &[OutputFile], from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut at = from;
    for file in files {
        if file.start > at || at >= to {
            break;
        }
        if file.end <= at {
            continue;
        }
        let end = to.min(file.end);
        let mut piece = vec![0; usize::try_from(end - at).unwrap_or(usize::MAX)];
        let read = files::open_private(&file.path)
            .and_then(|open: File| open.read_exact_at(&mut piece, at - file.start));
        match read {
            Ok(()) => bytes.append(&mut piece),
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => {
                let text = format!("cannot read {}: {error}", file.path.shown());
                return Err(io::Error::new(error.kind(), text));
            }
        }
        at = end;
    }
    Ok(bytes)
}

/// The files of an output whose start offset is known, either from their server (`known`) or because
/// the file before is complete.
fn spans(directory: &Path, task: &str, known: &[(u64, Position)]) -> Vec<OutputFile> {
    let mut found: Vec<OutputFile> = Vec::new();
    let mut last: Option<(u64, u64)> = None;
    for (number, path) in journal::output_files(directory, task, StreamName::Output) {
        let Ok(length) = std::fs::metadata(&path).map(|file| file.len()) else {
            continue;
        };
        let recorded = known.iter().find(|(known, _)| *known == number);
        let follows = last.filter(|(before, _)| before.checked_add(1) == Some(number));
        let start = match (number, recorded, follows) {
            (0, _, _) => 0,
            (_, Some((_, start)), _) => start.offset,
            (_, None, Some((_, end))) => end,
            // Its server has not recorded the offset yet.
            (_, None, None) => break,
        };
        let end = start.saturating_add(length);
        last = Some((number, end));
        found.push(OutputFile { path, start, end });
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(offset: u64) -> Position {
        Position { offset, line: 1 }
    }

    fn texts(files: &[OutputFile], from: u64, to: u64) -> String {
        String::from_utf8(read_files(files, from, to).unwrap()).unwrap()
    }

    #[test]
    fn files_join_where_they_meet_and_end_at_a_gap() {
        let folder = tempfile::tempdir().unwrap();
        for (number, text) in [(0, "one "), (1, "two "), (4, "five "), (5, "six")] {
            std::fs::write(folder.path().join(format!("3dc8c9ee.{number}")), text).unwrap();
        }
        let found = spans(folder.path(), "3dc8c9ee", &[(4, at(100))]);
        let starts: Vec<u64> = found.iter().map(|file| file.start).collect();
        assert_eq!(starts, [0, 4, 100, 105]);
        assert_eq!(texts(&found, 2, 1000), "e two ");
        assert_eq!(texts(&found, 101, 107), "ive si");
        let retained = Retained::Files(found);
        assert_eq!(retained.next_readable_offset(7), Some(7));
        assert_eq!(retained.next_readable_offset(8), Some(100));
        assert_eq!(retained.next_readable_offset(108), None);
        let unknown = spans(folder.path(), "3dc8c9ee", &[]);
        assert_eq!(unknown.len(), 2, "the offset of the fifth is unknown");
    }

    proptest! {
        #[test]
        fn wherever_files_are_said_to_begin_what_is_read_is_theirs(
            lengths in prop::collection::vec(0usize..20, 0..5),
            known in prop::collection::vec(
                (
                    prop_oneof![0..5u64, Just(u64::MAX)],
                    prop_oneof![0..60u64, any::<u64>()].prop_map(at),
                ),
                0..6,
            ),
            from in prop_oneof![0..80u64, any::<u64>()],
        ) {
            let folder = tempfile::tempdir().unwrap();
            for (number, length) in lengths.iter().enumerate() {
                let path = folder.path().join(format!("3dc8c9ee.{number}"));
                std::fs::write(path, "x".repeat(*length)).unwrap();
            }
            std::fs::write(folder.path().join(format!("3dc8c9ee.{}", u64::MAX)), "y").unwrap();
            let all: usize = lengths.iter().sum();
            let retained = Retained::Files(spans(folder.path(), "3dc8c9ee", &known));
            let Some(start) = retained.next_readable_offset(from) else {
                return Ok(());
            };
            prop_assert!(start >= from);
            let to = retained.end().min(start.saturating_add(PIECE_BYTES));
            let bytes = retained.read(start, to).unwrap_or_default();
            prop_assert!(bytes.len() <= all + 1);
        }
    }
}
