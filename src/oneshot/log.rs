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

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::Entry;
use super::log_reader;
use super::redaction::Redacted;
use super::state::{Reason, Role, State};
use crate::process::files;
use crate::process::tree::Identity;

/// The file's name in a run's directory.
pub const FILE_NAME: &str = "oneshot-log.json";

/// What a line tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something that the agent put out.
    Activity,
    /// The run came to another state: [`StateChange`].
    StateChange,
    /// The agent lives: [`Heartbeat`].
    Heartbeat,
    /// A judge was asked whether the agent gets on.
    StatusCheck,
    /// What the agent was asked to do.
    Prompt,
    /// The agent's final text.
    Result,
    /// Something that a recovery found.
    Recovered,
}

impl Kind {
    /// The word for it in the file.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Activity => "activity",
            Kind::StateChange => "state_change",
            Kind::Heartbeat => "heartbeat",
            Kind::StatusCheck => "status_check",
            Kind::Prompt => "prompt",
            Kind::Result => "result",
            Kind::Recovered => "recovered",
        }
    }

    /// Whether such a line is on the disk, not only with the kernel, before it counts. An
    /// agent's stream may come by hundreds of megabytes; what has to outlive a crash of
    /// the machine is what a resume builds on.
    pub fn is_synced(self) -> bool {
        match self {
            Kind::StateChange | Kind::Prompt | Kind::Result | Kind::Recovered => true,
            Kind::Activity | Kind::Heartbeat | Kind::StatusCheck => false,
        }
    }
}

/// Whose line it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The executor's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// Which agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// In which iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When: Unix seconds.
    pub ts: f64,
    /// Its number, from 1; each is larger than the one before.
    pub seq: u64,
    /// What it tells of.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Whose it is.
    #[serde(flatten)]
    pub origin: Origin,
    /// The rest, which depends on the kind.
    pub data: Value,
}

impl Line {
    /// The change that it tells of, if it does.
    pub fn state_change(&self) -> Option<StateChange> {
        let is_change = self.kind == Kind::StateChange;
        is_change.then(|| serde_json::from_value(self.data.clone()).ok())?
    }

    /// The sign of life that it tells of, if it does.
    pub fn heartbeat(&self) -> Option<Heartbeat> {
        let is_heartbeat = self.kind == Kind::Heartbeat;
        is_heartbeat.then(|| serde_json::from_value(self.data.clone()).ok())?
    }
}

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

/// The data of [`Kind::StateChange`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    /// Where the run was; null before its creation.
    pub from: Option<State>,
    /// Where it is.
    pub to: State,
    /// As in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// As in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_started: Option<u64>,
    /// As in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// How many iterations the run may have from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<std::num::NonZeroU32>,
}

impl StateChange {
    /// The entry of the history that goes with it.
    pub fn entry(&self, ts: f64) -> Entry {
        Entry {
            state: self.to,
            ts,
            pid: self.pid,
            pid_started: self.pid_started,
            reason: self.reason.clone(),
        }
    }

    /// The agent's process.
    pub fn process(&self) -> Option<Identity> {
        self.entry(0.0).process()
    }
}

/// The data of [`Kind::Heartbeat`]: what the newest one says is how the agent is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// The tracker's word: `progressing`, …
    pub status: String,
    /// How many there have been of this agent.
    pub heartbeats: u64,
    /// How often something new was seen of it.
    pub state_changes: u64,
    /// What was new last.
    pub last_change: Option<String>,
    /// When that was: Unix seconds.
    pub last_change_ts: Option<f64>,
    /// `worker`, `auditor`, `recovery`, …
    pub phase: String,
    /// The iteration.
    pub iteration: u32,
    /// What was seen, in words.
    pub evidence: Vec<String>,
    /// Whether it lives.
    pub alive: bool,
    /// Whether it seems stuck.
    pub stuck: bool,
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
            seq += 1;
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
