//! Reads a run's log: from its beginning, from its end, and while it grows.
//!
//! Every reader skips incomplete lines, so that a log can be read while another process writes it
//! and after the writer was killed. Readers from the end stop after a given number of bytes.
//!
//! Limits: read-only.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::log_line::{FILE_NAME, Head, LineKind, LogLine};
use super::run_files::Entry;
use crate::process::files;
use crate::text::foreign::ShowPath;

/// How many bytes to read at a time.
const BLOCK: u64 = 64 * 1024;

/// The longest line: an agent's record of 16 MiB, escaped. Longer lines are skipped.
const MAX_LINE: usize = 64 << 20;

/// The end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// The length up to the end of the last complete line.
    pub(crate) whole: u64,
    /// What follows that line.
    pub(crate) unfinished: Unfinished,
    /// The number of the last line; 0 if there is none.
    pub(crate) last_seq: u64,
}

/// What follows the last newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfinished {
    Nothing,
    /// A complete line that lacks its newline.
    MissingNewline,
    /// A part of a line.
    PartialLine,
}

/// Examines the end of a log.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn end_of(path: &Path) -> io::Result<LogEnd> {
    let mut backwards = Backwards::open(path, u64::MAX)?;
    let rest = backwards.previous_line()?.unwrap_or_default();
    let whole = backwards.length - rest.len() as u64;
    let unfinished = match (rest.is_empty(), parse(&rest)) {
        (true, _) => Unfinished::Nothing,
        (false, Some(_)) => Unfinished::MissingNewline,
        (false, None) => Unfinished::PartialLine,
    };
    let mut last = parse(&rest);
    while last.is_none()
        && let Some(line) = backwards.previous_line()?
    {
        last = parse(&line);
    }
    Ok(LogEnd { whole, unfinished, last_seq: last.map_or(0, |line| line.seq) })
}

fn open(path: &Path) -> io::Result<File> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.shown()));
    files::open_private(path).map_err(named)
}

fn parse(line: &[u8]) -> Option<LogLine> {
    serde_json::from_slice(line).ok()
}

/// The newest line of a kind in the last `max_bytes` of a run's log.
///
/// # Errors
/// If the log cannot be read.
pub fn newest(directory: &Path, kind: LineKind, max_bytes: u64) -> io::Result<Option<LogLine>> {
    newest_that(directory, max_bytes, |_| true, &[kind])
}

/// The newest line of these kinds that `wanted` accepts, in the last `max_bytes` of a run's log.
/// Lines of other kinds are not parsed.
///
/// # Errors
/// If the log cannot be read.
pub(crate) fn newest_that(
    directory: &Path,
    max_bytes: u64,
    wanted: impl Fn(&LogLine) -> bool,
    kinds: &[LineKind],
) -> io::Result<Option<LogLine>> {
    let mut backwards = Backwards::of_lines(directory, max_bytes)?;
    let is_wanted = |line: &LogLine| kinds.contains(&line.kind) && wanted(line);
    while let Some(line) = backwards.previous_line()? {
        // A line without a head must be parsed.
        let may_be = Head::parse(&line).is_none_or(|head| kinds.contains(&head.kind));
        if may_be && let Some(line) = parse(&line).filter(is_wanted) {
            return Ok(Some(line));
        }
    }
    Ok(None)
}

/// The text of the line with this number, without its newline.
///
/// # Errors
/// If the log cannot be read.
pub(crate) fn text_of(directory: &Path, seq: u64) -> io::Result<Option<Vec<u8>>> {
    let mut backwards = Backwards::of_lines(directory, u64::MAX)?;
    while let Some(line) = backwards.previous_line()? {
        let head = Head::parse(&line).map(|head| head.seq);
        let number = head.or_else(|| parse(&line).map(|line| line.seq));
        if number.is_some_and(|number| number <= seq) {
            return Ok((number == Some(seq)).then_some(line));
        }
    }
    Ok(None)
}

/// The last `count` lines in the last `max_bytes` of a run's log, oldest first.
///
/// # Errors
/// If the log cannot be read.
pub fn tail(directory: &Path, count: usize, max_bytes: u64) -> io::Result<Vec<LogLine>> {
    let mut backwards = Backwards::of_lines(directory, max_bytes)?;
    let mut lines = Vec::new();
    while lines.len() < count
        && let Some(line) = backwards.previous_line()?
    {
        lines.extend(parse(&line));
    }
    lines.reverse();
    Ok(lines)
}

/// Reads a file's lines from the end. The first chunk is the text after the last newline.
struct Backwards {
    file: File,
    length: u64,
    /// The end of the bytes that are not yet in `held`.
    before: u64,
    /// Where reading stops; earlier bytes are ignored.
    stop: u64,
    held: Vec<u8>,
    is_over: bool,
}

impl Backwards {
    /// The complete lines of a run's log, without the text after the last newline.
    fn of_lines(directory: &Path, max_bytes: u64) -> io::Result<Backwards> {
        let mut backwards = Backwards::open(&directory.join(FILE_NAME), max_bytes)?;
        backwards.previous_line()?;
        Ok(backwards)
    }

    fn open(path: &Path, max_bytes: u64) -> io::Result<Backwards> {
        let file = open(path)?;
        let length = file.metadata()?.len();
        Ok(Backwards {
            file,
            length,
            before: length,
            stop: length.saturating_sub(max_bytes),
            held: Vec::new(),
            is_over: false,
        })
    }

    /// The previous line, without its newline; `None` at the beginning or at a line longer than
    /// [`MAX_LINE`].
    fn previous_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.is_over {
            return Ok(None);
        }
        let mut searched = self.held.len();
        loop {
            let unsearched = self.held.get(..searched).unwrap_or_default();
            if let Some(newline) = memchr::memrchr(b'\n', unsearched) {
                let line = self.held.split_off(newline + 1);
                self.held.pop();
                return Ok(Some(line));
            }
            if self.before == self.stop {
                self.is_over = true;
                // If reading stops after the file's start, this is only part of a line.
                let whole = (self.stop == 0).then(|| std::mem::take(&mut self.held));
                return Ok(whole);
            }
            if self.held.len() > MAX_LINE {
                self.is_over = true;
                return Ok(None);
            }
            searched = self.read_block()?;
        }
    }

    /// Prepends the previous block to `held` and returns the block's length.
    fn read_block(&mut self) -> io::Result<usize> {
        // Blocks grow with the line, since each one moves all bytes read so far.
        let size = BLOCK.max(self.held.len() as u64);
        let start = self.before.saturating_sub(size).max(self.stop);
        let length = usize::try_from(self.before - start).unwrap_or(usize::MAX);
        let mut block = vec![0; length];
        self.file.seek(SeekFrom::Start(start))?;
        self.file.read_exact(&mut block)?;
        block.append(&mut self.held);
        self.held = block;
        self.before = start;
        Ok(length)
    }
}

/// Reads a log while it grows, even if a shorter log of the same run replaces it.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    reader: BufReader<File>,
    /// The number of the last line read.
    seq: u64,
    /// The last line read before the log was replaced, if it was.
    known: Option<u64>,
    /// The beginning of an unfinished line.
    begun: Vec<u8>,
    /// Whether to skip the rest of the current line, because it is too long.
    skipping: bool,
}

impl Follower {
    /// Opens a run's log at its beginning.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(directory: &Path) -> io::Result<Follower> {
        let path = directory.join(FILE_NAME);
        let file = open(&path)?;
        Ok(Follower {
            path,
            reader: BufReader::with_capacity(BLOCK as usize, file),
            seq: 0,
            known: None,
            begun: Vec::new(),
            skipping: false,
        })
    }

    /// The next complete line; `None` if there is none yet.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn next_line(&mut self) -> io::Result<Option<LogLine>> {
        let mut is_final = false;
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                if is_final {
                    self.begin_again()?;
                } else if !self.is_replaced()? {
                    return Ok(None);
                }
                // Read first what the writer added to the old log before replacing it.
                is_final = !is_final;
                continue;
            }
            let newline = memchr::memchr(b'\n', buffer);
            let taken = newline.map_or(buffer.len(), |at| at + 1);
            if !self.skipping {
                self.begun.extend_from_slice(buffer.get(..taken).unwrap_or_default());
            }
            self.reader.consume(taken);
            if self.begun.len() > MAX_LINE {
                self.begun = Vec::new();
                self.skipping = true;
            }
            if newline.is_some() {
                self.skipping = false;
                let line = parse(&std::mem::take(&mut self.begun));
                let is_new = |line: &LogLine| self.known.is_none_or(|known| line.seq > known);
                if let Some(line) = line.filter(is_new) {
                    self.seq = line.seq;
                    return Ok(Some(line));
                }
            }
        }
    }

    fn is_replaced(&self) -> io::Result<bool> {
        let own = self.reader.get_ref().metadata()?;
        Ok(match std::fs::symlink_metadata(&self.path) {
            Ok(found) => (found.dev(), found.ino()) != (own.dev(), own.ino()),
            // The run was removed; its log has been read to the end.
            Err(_) => false,
        })
    }

    fn begin_again(&mut self) -> io::Result<()> {
        self.reader = BufReader::with_capacity(BLOCK as usize, open(&self.path)?);
        self.begun = Vec::new();
        self.skipping = false;
        self.known = Some(self.seq);
        Ok(())
    }
}

/// The history according to a log's state changes, oldest first.
///
/// # Errors
/// If it cannot be read.
pub fn history(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut follower = Follower::open(directory)?;
    let mut entries = Vec::new();
    while let Some(line) = follower.next_line()? {
        entries.extend(line.state_change().map(|change| change.entry(line.ts)));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOG: &str = include_str!("../../tests/fuzz/seeds/sessions/log");

    /// Any contents of a log: complete lines, parts of lines, and other bytes.
    fn any_log() -> impl Strategy<Value = Vec<u8>> {
        let lines: Vec<&str> = LOG.lines().collect();
        let line = prop::sample::select(lines);
        let whole = line.clone().prop_map(|line| format!("{line}\n").into_bytes());
        let part = (line, any::<prop::sample::Index>())
            .prop_map(|(line, end)| line.as_bytes()[..end.index(line.len())].to_vec());
        let other = prop::collection::vec(any::<u8>(), 0..6);
        let end = Just(b"\n".to_vec());
        let piece = prop_oneof![4 => whole, 1 => part, 1 => other, 1 => end];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_log_is_the_same_from_either_end(log in any_log(), max_bytes in 0u64..8_000) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(FILE_NAME);
            std::fs::write(&path, &log).unwrap();
            let mut follower = Follower::open(directory.path()).unwrap();
            let mut forwards = Vec::new();
            while let Some(line) = follower.next_line().unwrap() {
                forwards.push(line);
            }
            let backwards = tail(directory.path(), usize::MAX, u64::MAX).unwrap();
            prop_assert_eq!(&backwards, &forwards);
            let last = tail(directory.path(), 1, u64::MAX).unwrap();
            prop_assert_eq!(last.last(), forwards.last());
            // The end of the log contains only its last lines.
            let near = tail(directory.path(), usize::MAX, max_bytes).unwrap();
            prop_assert!(forwards.ends_with(&near));

            let end = end_of(&path).unwrap();
            prop_assert!(end.whole <= log.len() as u64);
            let is_whole = log.is_empty() || log.ends_with(b"\n");
            prop_assert_eq!(end.unfinished == Unfinished::Nothing, is_whole);
            if is_whole {
                prop_assert_eq!(end.last_seq, forwards.last().map_or(0, |line| line.seq));
            }
        }
    }
}
