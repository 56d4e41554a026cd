//! Writes `oneshot-log.json`, the events of an agent run: one strict JSON object per line.
//!
//! A line is written before its content is reported anywhere and before the run's file is saved.
//! Lines that the run depends on are also synced ([`LineKind::is_synced`]), so that they survive a
//! crash of the machine; other lines survive this process. Opening a log for writing repairs its
//! end by removing the incomplete line of a killed writer.
//!
//! A log that reaches its quota is shortened. Its beginning and its newest lines are kept, with the
//! lines between them that a resume depends on; state changes are never removed. A mark in place of
//! the first removed line records how much is missing. The shorter log replaces the longer one by a
//! rename, so that readers see one or the other.
//!
//! Limits: the run's lock ensures a single writer; [`super::log_reader`] reads. Takes [`Redacted`]
//! data only. Lines written after the last save of the run's file are not checked.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

pub(super) use super::log_line::{FILE_NAME, result_data};
use super::log_line::{HEAD_BYTES, Head, Omitted};
pub(crate) use super::log_line::{Heartbeat, LineKind, LogLine, Origin, StateChange};
use super::log_reader;
use super::redaction::Redacted;
use super::run_files::{Entry, FileError, LogLineDigest, RunFile};
use super::state::{Role, RunState};
use crate::process::files;
use crate::text::foreign::ShowPath;

/// A line to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewLine {
    /// The time, in Unix seconds.
    pub(crate) ts: f64,
    pub(crate) kind: LineKind,
    /// The agent that it is about.
    pub(crate) origin: Origin,
    pub(crate) data: Redacted,
}

/// A log that is open for writing.
#[derive(Debug)]
pub(crate) struct RunLog {
    path: PathBuf,
    file: File,
    /// The length up to the end of the last complete line.
    end: u64,
    last_seq: u64,
    quota: Quota,
    /// The digest of the last line with a worker's result.
    last_result: Option<LogLineDigest>,
}

impl RunLog {
    /// Opens or creates the log in a run's directory and repairs its end: removes an incomplete
    /// line, and completes a line that only lacks its newline.
    ///
    /// # Errors
    /// If the file cannot be opened, read or written.
    pub(crate) fn open(directory: &Path) -> Result<RunLog, FileError> {
        let path = directory.join(FILE_NAME);
        let failed = |doing| FileError::cannot(doing, &path);
        let mut file = files::append_private(&path).map_err(failed("open"))?;
        let end = log_reader::end_of(&path).map_err(failed("read"))?;
        match end.unfinished {
            log_reader::Unfinished::Nothing => {}
            log_reader::Unfinished::MissingNewline => {
                file.write_all(b"\n").map_err(failed("repair"))?
            }
            log_reader::Unfinished::PartialLine => {
                file.set_len(end.whole).map_err(failed("repair"))?
            }
        }
        let end_of_file = file.metadata().map_err(failed("read"))?.len();
        Ok(RunLog {
            end: end_of_file,
            last_seq: end.last_seq,
            path,
            file,
            quota: QUOTA,
            last_result: None,
        })
    }

    /// Makes the numbers of all further lines larger than this.
    pub(super) fn number_above(&mut self, seq: u64) {
        self.last_seq = self.last_seq.max(seq);
    }

    /// The last line with a worker's result, if this process has written one.
    pub(super) fn last_result(&self) -> Option<&LogLineDigest> {
        self.last_result.as_ref()
    }

    /// Records that the log's directory was renamed.
    pub(crate) fn moved_to(&mut self, directory: &Path) {
        self.path = directory.join(FILE_NAME);
    }

    /// The number of the last line; 0 if there is none.
    pub(crate) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Writes a line and returns its number.
    ///
    /// # Errors
    /// When the disk refuses; the log is then unchanged.
    pub(crate) fn append(&mut self, line: NewLine) -> Result<u64, FileError> {
        self.append_all(std::iter::once(line))
    }

    /// Writes several lines at once and returns the number of the last one.
    ///
    /// # Errors
    /// When the disk refuses; the log is then unchanged.
    pub(crate) fn append_all(
        &mut self,
        lines: impl IntoIterator<Item = NewLine>,
    ) -> Result<u64, FileError> {
        let mut text = Vec::new();
        let mut seq = self.last_seq;
        let mut is_synced = false;
        let mut last_result = self.last_result.clone();
        for line in lines {
            seq = seq.saturating_add(1);
            is_synced |= line.kind.is_synced();
            let line = LogLine {
                ts: line.ts,
                seq,
                kind: line.kind,
                origin: line.origin,
                data: line.data.into_value(),
            };
            let start = text.len();
            serde_json::to_writer(&mut text, &line)
                .map_err(|error| self.failed("write", error.into()))?;
            let ends_a_worker = matches!(line.kind, LineKind::Result | LineKind::Recovered);
            if ends_a_worker && line.origin.role == Some(Role::Worker) {
                let written = text.get(start..).unwrap_or_default();
                last_result = Some(LogLineDigest::compute(seq, written));
            }
            text.push(b'\n');
        }
        self.write(&text, is_synced)?;
        self.last_seq = seq;
        self.last_result = last_result;
        Ok(seq)
    }

    fn write(&mut self, text: &[u8], is_synced: bool) -> Result<(), FileError> {
        if self.end.saturating_add(text.len() as u64) > self.quota.whole {
            self.shorten().map_err(|error| self.failed("shorten", error))?;
        }
        let written = self
            .file
            .write_all(text)
            .and_then(|()| if is_synced { self.file.sync_data() } else { Ok(()) });
        if let Err(error) = written {
            // Remove a partial line, which would corrupt the next one. If this fails too, opening
            // the log repairs it.
            let _ = self.file.set_len(self.end);
            return Err(self.failed("write", error));
        }
        self.end += text.len() as u64;
        Ok(())
    }

    fn shorten(&mut self) -> io::Result<()> {
        let relied_on = self.last_result.as_ref().map(|last_result| last_result.seq);
        shorten(&self.path, &self.quota, relied_on)?;
        self.file = files::append_private(&self.path)?;
        self.end = self.file.metadata()?.len();
        Ok(())
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> FileError {
        FileError::cannot(doing, &self.path)(source)
    }
}

const MIB: u64 = 1 << 20;

/// How many bytes of a log are kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quota {
    /// A log that would grow beyond this is shortened.
    pub(crate) whole: u64,
    /// The part kept at its beginning.
    pub(crate) first: u64,
    /// The part kept between, in addition to state changes.
    pub(crate) between: u64,
    /// The part kept at its end.
    pub(crate) newest: u64,
}

/// Large enough that output is written at most twice on average, and small enough that
/// shortening takes only a moment.
pub(super) const QUOTA: Quota =
    Quota { whole: 256 * MIB, first: 16 * MIB, between: 64 * MIB, newest: 64 * MIB };

/// A line of a log, with its position.
#[derive(Debug, Clone, Copy)]
struct LogSpan {
    start: u64,
    length: u64,
    head: Option<Head>,
}

impl LogSpan {
    fn end(self) -> u64 {
        self.start + self.length
    }

    fn is(self, kind: LineKind) -> bool {
        self.head.is_some_and(|head| head.kind == kind)
    }
}

/// Replaces a log by a shorter one, if any line can be removed. Keeps the line with the number
/// `relied_on`.
///
/// # Errors
/// If a file cannot be read or written; the log is then unchanged.
pub(super) fn shorten(path: &Path, quota: &Quota, relied_on: Option<u64>) -> io::Result<()> {
    let mut lines = Lines::open(path)?;
    let newest_from = lines.length.saturating_sub(quota.newest);
    let mut omitted = Omitted::default();
    // The head of the first removed line.
    let mut at = None;
    let mut first_ends = 0;
    let mut kept = Vec::new();
    let newest_begins = loop {
        let Some((line, text)) = lines.next()? else {
            break lines.length;
        };
        if line.is(LineKind::Omitted) {
            let before: LogLine = serde_json::from_slice(&text)?;
            let before = before.omitted().unwrap_or_default();
            omitted.lines += before.lines;
            omitted.bytes += before.bytes;
            at = at.or(line.head);
        } else if at.is_none() && line.end() <= quota.first {
            first_ends = line.end();
        } else if line.start >= newest_from {
            break line.start;
        } else if line.head.is_some_and(|head| head.kind.is_synced()) {
            kept.push(line);
        } else {
            omitted.add(line.length);
            at = at.or(line.head);
        }
    };
    for line in remove_oldest(&mut kept, quota.between, relied_on) {
        omitted.add(line.length);
        at = match (at, line.head) {
            (Some(at), Some(head)) if head.seq < at.seq => Some(head),
            (at, head) => at.or(head),
        };
    }
    let Some(at) = at else {
        return Ok(());
    };
    let mark = LogLine {
        ts: at.ts,
        seq: at.seq,
        kind: LineKind::Omitted,
        origin: Origin::default(),
        data: json!(omitted),
    };
    let mut mark = serde_json::to_vec(&mark)?;
    mark.push(b'\n');
    let is_before = |line: &&LogSpan| line.head.is_some_and(|head| head.seq < at.seq);
    let marked = kept.iter().take_while(is_before).count();
    let (before, after) = kept.split_at(marked);
    let mut log = lines.reader.into_inner();
    files::replace_durably(path, |new| {
        copy(&mut log, 0, first_ends, new)?;
        for line in before {
            copy(&mut log, line.start, line.end(), new)?;
        }
        new.write_all(&mark)?;
        for line in after {
            copy(&mut log, line.start, line.end(), new)?;
        }
        copy(&mut log, newest_begins, u64::MAX, new)
    })
}

/// Removes the oldest lines until at most `max_bytes` remain, except state changes and the line
/// `relied_on`. Returns the removed lines.
fn remove_oldest(lines: &mut Vec<LogSpan>, max_bytes: u64, relied_on: Option<u64>) -> Vec<LogSpan> {
    let mut left = max_bytes;
    let mut removed = Vec::new();
    for line in std::mem::take(lines).into_iter().rev() {
        let is_relied_on = line.head.is_some_and(|head| Some(head.seq) == relied_on);
        let stays = is_relied_on || line.is(LineKind::StateChange);
        if stays || line.length <= left {
            lines.push(line)
        } else {
            removed.push(line)
        }
        if !stays {
            left = left.saturating_sub(line.length);
        }
    }
    lines.reverse();
    removed
}

fn copy(log: &mut File, from: u64, to: u64, new: &mut File) -> io::Result<()> {
    log.seek(SeekFrom::Start(from))?;
    io::copy(&mut io::Read::take(&*log, to - from), new)?;
    Ok(())
}

/// Iterates over a log's lines with their positions. Returns only the beginning of a long line.
struct Lines {
    reader: BufReader<File>,
    at: u64,
    length: u64,
}

/// How many bytes to read at a time.
const BLOCK: usize = 256 * 1024;

impl Lines {
    fn open(path: &Path) -> io::Result<Lines> {
        let file = files::open_private(path)?;
        Ok(Lines {
            at: 0,
            length: file.metadata()?.len(),
            reader: BufReader::with_capacity(BLOCK, file),
        })
    }

    /// The next line with its first bytes. Only the last line may lack a newline.
    fn next(&mut self) -> io::Result<Option<(LogSpan, Vec<u8>)>> {
        let mut text = Vec::new();
        let mut length = 0;
        loop {
            let block = self.reader.fill_buf()?;
            let newline = memchr::memchr(b'\n', block);
            let taken = newline.map_or(block.len(), |at| at + 1);
            let room = (2 * HEAD_BYTES).saturating_sub(text.len()).min(taken);
            text.extend_from_slice(block.get(..room).unwrap_or_default());
            self.reader.consume(taken);
            length += taken as u64;
            if newline.is_some() || taken == 0 {
                break;
            }
        }
        if length == 0 {
            return Ok(None);
        }
        let start = self.at;
        self.at += length;
        let head = Head::parse(&text);
        let span = LogSpan { start, length, head };
        Ok(Some((span, text)))
    }
}

/// Why a run cannot continue with its log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogCheckError {
    /// The log cannot be read.
    #[error("cannot read the log of the run: {0}")]
    Unreadable(io::Error),
    /// Lines are missing at the log's end.
    #[error(
        "{file} was cut: it ends with line {last}, and oneshot.json relies on line {needed}: \
         put the log back, or start a new run", file = .path.shown())]
    Cut {
        /// The log.
        path: PathBuf,
        /// The number of its last line; 0 if it has none.
        last: u64,
        /// The number of the line that the log must contain.
        needed: u64,
    },
    /// A line that the run depends on was changed.
    #[error(
        "{file} was changed: oneshot.json relies on line {}, of {} bytes, and that is not in \
         it: put the log back, or start a new run",
        .proof.seq,
        .proof.bytes, file = .path.shown())]
    Changed {
        /// The log.
        path: PathBuf,
        /// The line that the log must contain.
        proof: LogLineDigest,
    },
}

/// Compares the log in a run's directory with the run's file.
///
/// # Errors
/// If they contradict each other, or the log cannot be read.
pub(crate) fn check(directory: &Path, file: &RunFile) -> Result<(), LogCheckError> {
    let path = directory.join(FILE_NAME);
    let end = log_reader::end_of(&path).map_err(LogCheckError::Unreadable)?;
    if end.last_seq < file.log_seq {
        let (last, needed) = (end.last_seq, file.log_seq);
        return Err(LogCheckError::Cut { path, last, needed });
    }
    let Some(proof) = relied_on(&file.history) else {
        return Ok(());
    };
    let line = log_reader::text_of(directory, proof.seq).map_err(LogCheckError::Unreadable)?;
    if line.is_some_and(|line| LogLineDigest::compute(proof.seq, &line) == *proof) {
        return Ok(());
    }
    let proof = proof.clone();
    Err(LogCheckError::Changed { path, proof })
}

/// The line that the next step of a run with this history depends on.
fn relied_on(history: &[Entry]) -> Option<&LogLineDigest> {
    // Checks and an audit that were cut off, or an audit without a verdict, are repeated with the
    // same result.
    let is_between = |state| {
        matches!(
            state,
            RunState::Interrupted
                | RunState::CheckPending
                | RunState::CheckExecuting
                | RunState::AuditPending
                | RunState::AuditorExecuting
                | RunState::Failed
        )
    };
    let mut entries = history.iter().rev();
    let decisive =
        entries.find(|entry| entry.basis.relies_on.is_some() || !is_between(entry.state));
    decisive?.basis.relies_on.as_ref()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::log_reader::{Follower, history, tail, text_of};
    use super::super::state::RunState;
    use super::*;
    use crate::text::redact::Redactor;

    const SMALL: Quota = Quota { whole: 16_000, first: 2_000, between: 3_000, newest: 4_000 };

    fn line(kind: LineKind, ts: f64, size: usize) -> NewLine {
        let data = match kind {
            LineKind::StateChange => json!({"from": null, "to": RunState::ReiterationPending}),
            _ => json!({"text": "x".repeat(size)}),
        };
        NewLine {
            ts,
            kind,
            origin: Origin { role: Some(Role::Worker), ..Origin::default() },
            data: Redacted::new(data, &Redactor::default()),
        }
    }

    fn any_kind() -> impl Strategy<Value = LineKind> {
        prop_oneof![
            20 => Just(LineKind::Activity),
            2 => Just(LineKind::Heartbeat),
            2 => Just(LineKind::StateChange),
            1 => Just(LineKind::Prompt),
            1 => Just(LineKind::Result),
        ]
    }

    proptest! {
        // Each case syncs to disk many times.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_log_at_its_quota_keeps_its_beginning_its_states_and_the_newest(
            written in prop::collection::vec((any_kind(), 0usize..900), 1..200),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let mut log = RunLog::open(directory.path()).unwrap();
            log.quota = SMALL;
            let mut follower = Follower::open(directory.path()).unwrap();
            for (number, (kind, size)) in (1..).zip(&written) {
                log.append(line(*kind, f64::from(number), *size)).unwrap();
                let length = std::fs::metadata(&log.path).unwrap().len();
                prop_assert!(length <= SMALL.whole && length == log.end);
                // A reader that keeps up misses no line.
                let read = follower.next_line().unwrap().unwrap();
                prop_assert_eq!((read.seq, read.kind), (number as u64, *kind));
                prop_assert_eq!(follower.next_line().unwrap(), None);
            }
            let lines = tail(directory.path(), usize::MAX, u64::MAX).unwrap();
            prop_assert!(lines.is_sorted_by(|a, b| a.seq < b.seq));
            let removed = lines.iter().find_map(LogLine::omitted).unwrap_or_default();
            let marks = lines.iter().filter(|line| line.kind == LineKind::Omitted).count();
            prop_assert!(marks <= 1);
            let total = removed.lines + (lines.len() - marks) as u64;
            prop_assert_eq!(total, written.len() as u64);
            let states = written.iter().filter(|(kind, _)| *kind == LineKind::StateChange);
            prop_assert_eq!(history(directory.path()).unwrap().len(), states.count());
            prop_assert_eq!(lines.last().unwrap().seq, written.len() as u64);
            prop_assert_eq!(lines.first().unwrap().seq, 1);
            if let Some(last_result) = log.last_result() {
                let text = text_of(directory.path(), last_result.seq).unwrap();
                prop_assert_eq!(&LogLineDigest::compute(last_result.seq, &text.unwrap()), last_result);
            }
            // A reopened log continues with the next number.
            drop(log);
            let log = RunLog::open(directory.path()).unwrap();
            prop_assert_eq!(log.last_seq(), written.len() as u64);
        }
    }
}
