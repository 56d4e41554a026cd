//! Reading a run's log: from its beginning, from its end, and as it grows.
//!
//! Every reader skips incomplete lines, so that a log can be read while it is written and
//! after its writer was killed. Readers from the end stop after a given number of bytes.
//!
//! Limits: writes nothing.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::log_line::{FILE_NAME, Head, LineKind, LogLine};
use super::run_files::Entry;
use crate::process::files;

/// Read at once, from either end.
const BLOCK: u64 = 64 * 1024;

/// The longest line that is read whole: an agent's record of 16 MiB, escaped.
const MAX_LINE: usize = 64 << 20;

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// The length up to the end of the last whole line.
    pub whole: u64,
    /// What comes after it.
    pub unfinished: Unfinished,
    /// The number of the last line; 0 where there is none.
    pub last_seq: u64,
}

/// What follows the last newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// Nothing, as it should be.
    Nothing,
    /// A whole line that lacks its newline.
    Newline,
    /// A part of a line.
    Torn,
}

/// How the log in this file ends.
///
/// # Errors
/// When it cannot be read.
pub fn end_of(path: &Path) -> io::Result<LogEnd> {
    let mut backwards = Backwards::open(path, u64::MAX)?;
    let rest = backwards.next_chunk()?.unwrap_or_default();
    let whole = backwards.length - rest.len() as u64;
    let unfinished = match (rest.is_empty(), parse(&rest)) {
        (true, _) => Unfinished::Nothing,
        (false, Some(_)) => Unfinished::Newline,
        (false, None) => Unfinished::Torn,
    };
    let mut last = parse(&rest);
    while last.is_none()
        && let Some(line) = backwards.next_chunk()?
    {
        last = parse(&line);
    }
    Ok(LogEnd { whole, unfinished, last_seq: last.map_or(0, |line| line.seq) })
}

fn open(path: &Path) -> io::Result<File> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    files::open_private(path).map_err(named)
}

fn parse(line: &[u8]) -> Option<LogLine> {
    serde_json::from_slice(line).ok()
}

/// The newest line of a kind in a run's log, among its last `most` bytes.
///
/// # Errors
/// When the log cannot be read.
pub fn newest(directory: &Path, kind: LineKind, most: u64) -> io::Result<Option<LogLine>> {
    newest_that(directory, most, |_| true, &[kind])
}

/// The newest line of these kinds that is wanted, among the last `most` bytes of a run's
/// log. Lines of other kinds are not even parsed.
///
/// # Errors
/// When the log cannot be read.
pub(crate) fn newest_that(
    directory: &Path,
    most: u64,
    wanted: impl Fn(&LogLine) -> bool,
    kinds: &[LineKind],
) -> io::Result<Option<LogLine>> {
    let mut backwards = Backwards::of_lines(directory, most)?;
    let is_wanted = |line: &LogLine| kinds.contains(&line.kind) && wanted(line);
    while let Some(line) = backwards.next_chunk()? {
        // Without a head, the line must be parsed.
        let may_be = Head::of(&line).is_none_or(|head| kinds.contains(&head.kind));
        if may_be && let Some(line) = parse(&line).filter(is_wanted) {
            return Ok(Some(line));
        }
    }
    Ok(None)
}

/// The text of the line with this number, without its newline.
///
/// # Errors
/// When the log cannot be read.
pub fn text_of(directory: &Path, seq: u64) -> io::Result<Option<Vec<u8>>> {
    let mut backwards = Backwards::of_lines(directory, u64::MAX)?;
    while let Some(line) = backwards.next_chunk()? {
        let head = Head::of(&line).map(|head| head.seq);
        let number = head.or_else(|| parse(&line).map(|line| line.seq));
        if number.is_some_and(|number| number <= seq) {
            return Ok((number == Some(seq)).then_some(line));
        }
    }
    Ok(None)
}

/// The last lines of a run's log, oldest first: `count` of them, among its last `most`
/// bytes.
///
/// # Errors
/// When the log cannot be read.
pub fn tail(directory: &Path, count: usize, most: u64) -> io::Result<Vec<LogLine>> {
    let mut backwards = Backwards::of_lines(directory, most)?;
    let mut lines = Vec::new();
    while lines.len() < count
        && let Some(line) = backwards.next_chunk()?
    {
        lines.extend(parse(&line));
    }
    lines.reverse();
    Ok(lines)
}

/// A file's lines from the end. The first chunk is what follows the last newline.
struct Backwards {
    file: File,
    length: u64,
    /// Where the bytes that are not yet in `held` end.
    before: u64,
    /// Nothing before this is looked at.
    stop: u64,
    held: Vec<u8>,
    is_over: bool,
}

impl Backwards {
    /// The whole lines of a run's log: what follows the last newline is not a line yet.
    fn of_lines(directory: &Path, most: u64) -> io::Result<Backwards> {
        let mut backwards = Backwards::open(&directory.join(FILE_NAME), most)?;
        backwards.next_chunk()?;
        Ok(backwards)
    }

    fn open(path: &Path, most: u64) -> io::Result<Backwards> {
        let file = open(path)?;
        let length = file.metadata()?.len();
        Ok(Backwards {
            file,
            length,
            before: length,
            stop: length.saturating_sub(most),
            held: Vec::new(),
            is_over: false,
        })
    }

    /// The next line towards the beginning, without its newline; `None` at the beginning,
    /// or where a line is longer than any may be.
    fn next_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
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
                // Where reading stops before the file's start, this is only part of a line.
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

    /// Puts the block before what is held in front of it; its length.
    fn read_block(&mut self) -> io::Result<usize> {
        // Blocks grow with the line, since each one moves what was read before.
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

/// Reads a log as it grows, also after it was replaced by a shorter one of the same run.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    reader: BufReader<File>,
    /// The number of the last line that was read.
    seq: u64,
    /// Lines up to this one were read before the log was replaced, if it was.
    known: Option<u64>,
    /// What there is of a line that has no end yet.
    begun: Vec<u8>,
    /// The rest of the line is passed over: it is too long.
    passing: bool,
}

impl Follower {
    /// Opens a run's log at its beginning.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(directory: &Path) -> io::Result<Follower> {
        let path = directory.join(FILE_NAME);
        let file = open(&path)?;
        Ok(Follower {
            path,
            reader: BufReader::with_capacity(BLOCK as usize, file),
            seq: 0,
            known: None,
            begun: Vec::new(),
            passing: false,
        })
    }

    /// The next whole line; `None` when there is none yet.
    ///
    /// # Errors
    /// When the log cannot be read.
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
                // What was written to the old one before that is read first.
                is_final = !is_final;
                continue;
            }
            let newline = memchr::memchr(b'\n', buffer);
            let taken = newline.map_or(buffer.len(), |at| at + 1);
            if !self.passing {
                self.begun.extend_from_slice(buffer.get(..taken).unwrap_or_default());
            }
            self.reader.consume(taken);
            if self.begun.len() > MAX_LINE {
                self.begun = Vec::new();
                self.passing = true;
            }
            if newline.is_some() {
                self.passing = false;
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
        self.passing = false;
        self.known = Some(self.seq);
        Ok(())
    }
}

/// The history according to a log's state changes, oldest first.
///
/// # Errors
/// When it cannot be read.
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

    /// What a log may hold: whole lines, parts of them, and what is none.
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
        fn a_log_is_the_same_from_either_end(log in any_log(), most in 0u64..8_000) {
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
            // A part of the log has its last lines and no others.
            let near = tail(directory.path(), usize::MAX, most).unwrap();
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
