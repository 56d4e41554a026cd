//! A task's output by its place in bytes, from the spool of this process or from the files
//! of another server's directory.
//!
//! What the quota has dropped is a gap of known length. Limits: what another server keeps
//! in memory alone cannot be read; nothing is followed here, see `events`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::readable;
use crate::process::files;
use crate::task::entry::Entry;
use crate::task::journal;
use crate::task::registry::TaskHandle;
use crate::text::ansi::{self, Colours};
use crate::text::lines::{Place, Position, clip};

/// Read for one event.
const PIECE_BYTES: u64 = 32 * 1024;
/// How much of the newest output is looked at for its last lines.
const TAIL_BYTES: u64 = 8 * 1024;
/// How much of a line a tail shows.
const TAIL_LINE_CHARS: usize = 400;

/// Where a task's output is.
#[derive(Debug, Clone)]
pub enum Source {
    /// In this process.
    Own(Arc<TaskHandle>),
    /// In the directory of another server.
    Files {
        /// The directory.
        directory: PathBuf,
        /// The task.
        task: String,
    },
}

/// A stretch of output as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Bytes before it that are gone.
    pub gap: u64,
    /// The text.
    pub text: String,
    /// The place behind it, to go on from.
    pub end: u64,
}

/// What of an output can be read at one moment.
enum Retained {
    Own(Arc<TaskHandle>),
    /// In their order.
    Files(Vec<Stretch>),
}

/// One file of an output.
struct Stretch {
    path: PathBuf,
    start: u64,
    end: u64,
}

impl Source {
    /// Where the output ends now, as far as it can be read.
    pub fn end(&self, entry: &Entry) -> u64 {
        self.retained(entry).end()
    }

    /// What comes behind `from`, a bounded piece of it; `None`: nothing that could be told
    /// yet. `is_all`: no more output comes.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn next(&self, entry: &Entry, from: u64, is_all: bool) -> io::Result<Option<Chunk>> {
        let retained = self.retained(entry);
        let Some(start) = retained.goes_on(from) else {
            return Ok(None);
        };
        let to = retained.end().min(start.saturating_add(PIECE_BYTES));
        let bytes = retained.read(start, to)?;
        let reaches = start + bytes.len() as u64;
        // Behind a piece that ends early the rest is gone.
        let is_all = reaches < to || (is_all && to == retained.end());
        let read = readable::read(&bytes, is_all, entry.columns);
        let gap = start - from;
        let is_empty = read.bytes == 0 && gap == 0;
        Ok((!is_empty).then(|| Chunk {
            gap,
            text: read.text,
            end: start + read.bytes as u64,
        }))
    }

    /// The last lines, at most so many, each of bounded length; none when they cannot be
    /// read.
    pub fn tail(&self, entry: &Entry, most: usize) -> Vec<String> {
        let retained = self.retained(entry);
        let to = retained.end();
        let from = retained.goes_on(to.saturating_sub(TAIL_BYTES));
        let bytes = from.and_then(|from| retained.read(from, to).ok());
        let bytes = bytes.unwrap_or_default();
        let mut lines: Vec<String> = bytes
            .split(|byte| *byte == b'\n')
            .rev()
            .map(|line| ansi::readable(line, Colours::Drop, entry.columns))
            .filter(|line| !line.trim().is_empty())
            .take(most)
            .map(|line| clip(&line, TAIL_LINE_CHARS))
            .collect();
        lines.reverse();
        lines
    }

    fn retained(&self, entry: &Entry) -> Retained {
        match self {
            Source::Own(task) => Retained::Own(Arc::clone(task)),
            Source::Files { directory, task } => {
                Retained::Files(stretches(directory, task, &entry.segments))
            }
        }
    }
}

impl Retained {
    fn end(&self) -> u64 {
        match self {
            Retained::Own(task) => task.live.state().output_end.offset,
            Retained::Files(files) => files.last().map_or(0, |file| file.end),
        }
    }

    /// Where it goes on: at `from`, or behind the gap that this lies in.
    fn goes_on(&self, from: u64) -> Option<u64> {
        match self {
            Retained::Own(task) => Some(task.spool.goes_on(place(from))?.at.offset),
            Retained::Files(files) => {
                let next = files.iter().find(|file| file.end > from)?;
                Some(next.start.max(from))
            }
        }
    }

    /// What there is from `from` on without a gap, up to `to`.
    fn read(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        match self {
            Retained::Own(task) => {
                let pieces = task.spool.read(place(from), to)?;
                let first = pieces.into_iter().next();
                let begins_there = first.filter(|piece| piece.start.at.offset == from);
                Ok(begins_there.map_or_else(Vec::new, |piece| piece.bytes))
            }
            Retained::Files(files) => read_files(files, from, to),
        }
    }
}

/// A place by its offset alone: nobody asks for the number of its line.
fn place(offset: u64) -> Place {
    Place {
        at: Position { offset, line: 1 },
        inside_line: false,
    }
}

fn read_files(files: &[Stretch], from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut at = from;
    for file in files {
        if file.start > at || at >= to {
            break;
        }
        if file.end <= at {
            continue;
        }
        let Some(piece) = file.read(at, to.min(file.end))? else {
            break;
        };
        at += piece.len() as u64;
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

impl Stretch {
    /// `None`: it was dropped since it was seen.
    fn read(&self, from: u64, to: u64) -> io::Result<Option<Vec<u8>>> {
        let length = usize::try_from(to - from).unwrap_or(usize::MAX);
        let read = files::open_private(&self.path).and_then(|file: File| {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, from - self.start)?;
            Ok(bytes)
        });
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!("cannot read {}: {error}", self.path.display()),
            )),
        }
    }
}

/// The files of an output, as far as it is known where each begins: told by its server
/// (`known`), or by the whole file before it.
fn stretches(directory: &Path, task: &str, known: &[(u64, u64)]) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    let mut last: Option<(u64, u64)> = None;
    for (number, path) in journal::output_files(directory, task) {
        let Ok(length) = std::fs::metadata(&path).map(|file| file.len()) else {
            continue;
        };
        let told = known.iter().find(|(known, _)| *known == number);
        let follows = last.filter(|(before, _)| before.checked_add(1) == Some(number));
        let start = match (number, told, follows) {
            (0, _, _) => 0,
            (_, Some((_, start)), _) => *start,
            (_, None, Some((_, end))) => end,
            // Its server is about to tell.
            (_, None, None) => break,
        };
        let end = start.saturating_add(length);
        last = Some((number, end));
        found.push(Stretch { path, start, end });
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(files: &[Stretch], from: u64, to: u64) -> String {
        String::from_utf8(read_files(files, from, to).unwrap()).unwrap()
    }

    #[test]
    fn files_join_where_they_meet_and_end_at_a_gap() {
        let folder = tempfile::tempdir().unwrap();
        for (number, text) in [(0, "one "), (1, "two "), (4, "five "), (5, "six")] {
            std::fs::write(folder.path().join(format!("3dc8c9ee.{number}")), text).unwrap();
        }
        let found = stretches(folder.path(), "3dc8c9ee", &[(4, 100)]);
        let starts: Vec<u64> = found.iter().map(|file| file.start).collect();
        assert_eq!(starts, [0, 4, 100, 105]);
        assert_eq!(texts(&found, 2, 1000), "e two ");
        assert_eq!(texts(&found, 101, 107), "ive si");
        let retained = Retained::Files(found);
        assert_eq!(retained.goes_on(7), Some(7));
        assert_eq!(retained.goes_on(8), Some(100));
        assert_eq!(retained.goes_on(108), None);
        let unknown = stretches(folder.path(), "3dc8c9ee", &[]);
        assert_eq!(unknown.len(), 2, "nobody knows where the fifth begins");
    }

    proptest! {
        #[test]
        fn wherever_files_are_said_to_begin_what_is_read_is_theirs(
            lengths in prop::collection::vec(0usize..20, 0..5),
            known in prop::collection::vec(
                (prop_oneof![0..5u64, Just(u64::MAX)], prop_oneof![0..60u64, any::<u64>()]),
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
            let retained = Retained::Files(stretches(folder.path(), "3dc8c9ee", &known));
            let Some(start) = retained.goes_on(from) else {
                return Ok(());
            };
            prop_assert!(start >= from);
            let to = retained.end().min(start.saturating_add(PIECE_BYTES));
            let bytes = retained.read(start, to).unwrap_or_default();
            prop_assert!(bytes.len() <= all + 1);
        }
    }
}
