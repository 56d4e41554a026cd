//! `oneshot-log.json`: what went on in an agent run, one strict JSON object a line.
//!
//! A line is written before anybody learns of what it tells, and before the run's file is
//! saved. Lines that the run's course depends on are synced as well ([`Kind::is_synced`]):
//! they outlive the machine; the others outlive this process. Whoever opens a log for
//! writing mends its end: what a killed writer left of a line goes.
//!
//! Limits: the run's lock ([`super::lock`]) keeps writers apart; reading is
//! [`super::log_reader`]'s. Takes [`Redacted`] data only.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use super::log_line::{FILE_NAME, Heartbeat, Kind, Line, Origin, StateChange};
use super::log_reader;
use super::redaction::Redacted;
use crate::process::files;

/// A line that is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct NewLine {
    /// When: Unix seconds.
    pub ts: f64,
    /// What it tells of.
    pub kind: Kind,
    /// Whose it is.
    pub origin: Origin,
    /// The rest.
    pub data: Redacted,
}

/// Why nothing more can be written to a log, or nothing read.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {path}: {source}")]
pub struct LogError {
    /// `open`, `write`, …
    pub doing: &'static str,
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// A log that is open for writing.
#[derive(Debug)]
pub struct RunLog {
    path: PathBuf,
    file: File,
    /// The length up to the end of the last whole line.
    end: u64,
    last_seq: u64,
}

impl RunLog {
    /// Opens the log in a run's directory, or makes it, and mends its end: a line that a
    /// killed writer left unfinished goes, one that lacks its newline alone gets it.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn open(directory: &Path) -> Result<RunLog, LogError> {
        let path = directory.join(FILE_NAME);
        let failed = |doing| {
            let path = path.clone();
            move |source| LogError {
                doing,
                path,
                source,
            }
        };
        let mut file = files::append_private(&path).map_err(failed("open"))?;
        let end = log_reader::end_of(&path).map_err(failed("read"))?;
        match end.unfinished {
            log_reader::Unfinished::Nothing => {}
            log_reader::Unfinished::Newline => file.write_all(b"\n").map_err(failed("mend"))?,
            log_reader::Unfinished::Torn => file.set_len(end.whole).map_err(failed("mend"))?,
        }
        let end_of_file = file.metadata().map_err(failed("read"))?.len();
        Ok(RunLog {
            end: end_of_file,
            last_seq: end.last_seq,
            path,
            file,
        })
    }

    /// Its directory has another name from now on.
    pub fn moved_to(&mut self, directory: &Path) {
        self.path = directory.join(FILE_NAME);
    }

    /// The number of the last line; 0 where there is none.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Writes a line; its number.
    ///
    /// # Errors
    /// When the disk refuses; nothing of the line is in the log then.
    pub fn append(&mut self, line: NewLine) -> Result<u64, LogError> {
        self.append_all(std::iter::once(line))
    }

    /// Writes lines in one go; the number of the last one.
    ///
    /// # Errors
    /// When the disk refuses; none of the lines is in the log then.
    pub fn append_all(
        &mut self,
        lines: impl IntoIterator<Item = NewLine>,
    ) -> Result<u64, LogError> {
        let mut text = Vec::new();
        let mut seq = self.last_seq;
        let mut is_synced = false;
        for line in lines {
            seq = seq.saturating_add(1);
            is_synced |= line.kind.is_synced();
            let line = Line {
                ts: line.ts,
                seq,
                kind: line.kind,
                origin: line.origin,
                data: line.data.into_value(),
            };
            serde_json::to_writer(&mut text, &line)
                .map_err(|error| self.failed("write", error.into()))?;
            text.push(b'\n');
        }
        self.write(&text, is_synced)?;
        self.last_seq = seq;
        Ok(seq)
    }

    fn write(&mut self, text: &[u8], is_synced: bool) -> Result<(), LogError> {
        let written = self.file.write_all(text).and_then(|()| match is_synced {
            true => self.file.sync_data(),
            false => Ok(()),
        });
        if let Err(error) = written {
            // A part of a line would spoil the next one; if this fails too, whoever opens
            // the log next mends it.
            let _ = self.file.set_len(self.end);
            return Err(self.failed("write", error));
        }
        self.end += text.len() as u64;
        Ok(())
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> LogError {
        LogError {
            doing,
            path: self.path.clone(),
            source,
        }
    }
}
