//! `oneshot.json`: what is known of an agent run, for whoever resumes or watches it.
//!
//! It is replaced as a whole, so that a reader sees one save or the next, and synced, so
//! that no save is lost. The last entry of the history always is the state, and all of
//! the history replays ([`RunFile::position`]).
//!
//! Limits: says what stands in the file; who may change it has the run's lock
//! ([`super::lock`]). Texts from outside are redacted by [`RunFile::redact`] before the
//! first save: a run that is resumed goes on with the redacted prompt.

use std::io::{self, Read};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::state::{Position, Reason, Role, State, Unreplayable};
use crate::base::clock::Now;
use crate::process::files;
use crate::process::tree::Identity;
use crate::text::redact::Redactor;

/// The file's name in a run's directory.
pub const FILE_NAME: &str = "oneshot.json";

/// The present version of the file's format.
pub const VERSION: u32 = 1;

/// What is larger is no prompt: models take far less, and all of it stands in the run's
/// file and in its log.
pub const MAX_PROMPT_BYTES: u64 = 8 << 20;
/// No file of a run is larger, the prompt's characters escaped and the last audit's
/// feedback included.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// One entry of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The state that the run came to.
    pub state: State,
    /// When: Unix seconds.
    pub ts: f64,
    /// In `*_EXECUTING`: the agent's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The start time of that process, in clock ticks since boot: a pid alone may mean
    /// another process by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_started: Option<u64>,
    /// Why, where the state has a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

impl Entry {
    /// The agent's process, if it was noted.
    pub fn process(&self) -> Option<Identity> {
        Some(Identity {
            // Others stand for groups and sessions of processes.
            pid: self.pid.filter(|pid| *pid > 0)?,
            started: self.pid_started?,
        })
    }
}

/// What an agent program calls a conversation of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSession {
    /// Whose.
    pub role: Role,
    /// In which iteration.
    pub iteration: u32,
    /// The executor's name.
    pub executor: String,
    /// The program's own id.
    pub id: String,
}

/// How a run was asked to go on; a resume may ask for something else.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// Silence after which an agent is given up, in seconds.
    pub inactivity: f64,
    /// How long all of the run may take, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runtime: Option<f64>,
    /// What is done about a stuck agent: `ask`, `wait`, `recover`, `fail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_stuck: Option<String>,
    /// Who judges whether an agent is stuck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// How often evidence is taken, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<f64>,
    /// Signs of life without anything new after which an agent counts as stuck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck_threshold: Option<u64>,
}

/// A run, as its file tells of it. Fields of later versions are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// The format's version; a file without one is of the first.
    #[serde(default = "first_version")]
    pub version: u32,
    /// The run's id, a UUID.
    pub oneshot_id: String,
    /// Where it is.
    pub state: State,
    /// The number of its iteration ([`Position::iteration`]).
    pub iteration_count: u32,
    /// How many iterations it may have.
    pub max_iterations: NonZeroU32,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// RFC 3339, UTC.
    pub updated_at: String,
    /// The states that it has been in, oldest first.
    pub history: Vec<Entry>,
    /// The number of the log's line that tells of the last entry of the history.
    #[serde(default)]
    pub log_seq: u64,
    /// What the worker is to do, redacted.
    #[serde(default)]
    pub prompt: String,
    /// Where the agents work.
    #[serde(default)]
    pub directory: PathBuf,
    /// The worker's executor.
    #[serde(default)]
    pub executor: String,
    /// The auditor's executor.
    #[serde(default)]
    pub auditor: String,
    /// The worker's model, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The auditor's model, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auditor_model: Option<String>,
    /// How it was asked to go on.
    #[serde(default)]
    pub options: RunOptions,
    /// What the last auditor wants to be done, redacted.
    #[serde(default)]
    pub feedback: Option<String>,
    /// The agents' own ids.
    #[serde(default)]
    pub agent_sessions: Vec<AgentSession>,
    /// What other versions have put there.
    #[serde(flatten)]
    pub others: serde_json::Map<String, serde_json::Value>,
}

fn first_version() -> u32 {
    1
}

/// What a new run is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// What the worker is to do.
    pub prompt: String,
    /// Where the agents work.
    pub directory: PathBuf,
    /// The worker's executor.
    pub executor: String,
    /// The auditor's executor.
    pub auditor: String,
    /// The worker's model.
    pub model: Option<String>,
    /// The auditor's model.
    pub auditor_model: Option<String>,
    /// How many iterations it may have.
    pub max_iterations: NonZeroU32,
    /// How it is to go on.
    pub options: RunOptions,
}

/// Why a run's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no file of a run.
    #[error("{path} is larger than {} MiB: this is no file of a run", MAX_FILE_BYTES >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is no JSON of the right form.
    #[error("{path} is no run's file: {source}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser said, with line and column.
        source: serde_json::Error,
    },
    /// A later version of the program wrote it.
    #[error("{path} has version {found}, this program knows versions up to {VERSION}")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The version that it has.
        found: u32,
    },
    /// Somebody has changed it, and not well.
    #[error("{path} contradicts itself: {contradiction}")]
    Contradictory {
        /// The file.
        path: PathBuf,
        /// How.
        contradiction: Contradiction,
    },
}

/// What cannot be of a run's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// The history.
    #[error(transparent)]
    History(#[from] Unreplayable),
    /// The history ends elsewhere.
    #[error("its state is {state}, the last entry of its history {last}")]
    State {
        /// The state.
        state: State,
        /// The last entry of the history.
        last: State,
    },
}

impl RunFile {
    /// A run that has just been created.
    pub fn new(id: String, run: NewRun, now: Now) -> RunFile {
        let position = Position::created(run.max_iterations);
        let mut file = RunFile {
            version: VERSION,
            oneshot_id: id,
            state: position.state(),
            iteration_count: position.iteration,
            max_iterations: run.max_iterations,
            created_at: rfc3339(now),
            updated_at: String::new(),
            history: Vec::new(),
            log_seq: 0,
            prompt: run.prompt,
            directory: run.directory,
            executor: run.executor,
            auditor: run.auditor,
            model: run.model,
            auditor_model: run.auditor_model,
            options: run.options,
            feedback: None,
            agent_sessions: Vec::new(),
            others: serde_json::Map::new(),
        };
        file.enter(&position, None, now);
        file
    }

    /// Puts the placeholder where its texts hold secrets.
    pub fn redact(&mut self, redactor: &Redactor) {
        let redact = |text: &mut String| *text = redactor.redact(text).into_owned();
        redact(&mut self.prompt);
        self.feedback.iter_mut().for_each(redact);
    }

    /// The run has come to a position.
    pub fn enter(&mut self, position: &Position, process: Option<Identity>, now: Now) {
        self.add(
            position,
            Entry {
                state: position.state(),
                ts: now.unix_seconds(),
                pid: process.map(|process| process.pid),
                pid_started: process.map(|process| process.started),
                reason: position.stage.reason(),
            },
        );
    }

    /// Adds the entry of a position to the history.
    pub fn add(&mut self, position: &Position, entry: Entry) {
        self.updated_at = rfc3339_of(entry.ts);
        self.history.push(entry);
        self.state = position.state();
        self.iteration_count = position.iteration;
        self.max_iterations = position.maximum;
    }

    /// Where the run is.
    ///
    /// # Errors
    /// When the file contradicts itself.
    pub fn position(&self) -> Result<Position, Contradiction> {
        let entries = self.history.iter();
        let position = Position::replay(
            self.max_iterations,
            entries.map(|entry| (entry.state, entry.reason.as_ref())),
        )?;
        match position.state() == self.state {
            true => Ok(position),
            false => Err(Contradiction::State {
                state: self.state,
                last: position.state(),
            }),
        }
    }

    /// The last entry of the history.
    pub fn last(&self) -> Option<&Entry> {
        self.history.last()
    }

    /// Reads the file in a run's directory.
    ///
    /// # Errors
    /// When it is not there, or no file of a run.
    pub fn load(directory: &Path) -> Result<RunFile, LoadError> {
        let path = directory.join(FILE_NAME);
        let unreadable = |source| LoadError::Unreadable {
            path: path.clone(),
            source,
        };
        let mut bytes = Vec::new();
        files::open_private(&path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
            .map_err(unreadable)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(LoadError::TooLarge { path });
        }
        let file: RunFile = serde_json::from_slice(&bytes).map_err(|source| {
            let path = path.clone();
            LoadError::Malformed { path, source }
        })?;
        if file.version > VERSION {
            let found = file.version;
            return Err(LoadError::TooNew { path, found });
        }
        match file.position() {
            Ok(_) => Ok(file),
            Err(contradiction) => Err(LoadError::Contradictory {
                path,
                contradiction,
            }),
        }
    }

    /// Writes the file into a run's directory; it is there for good when this returns.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn save(&self, directory: &Path) -> Result<(), SaveError> {
        let path = directory.join(FILE_NAME);
        let written = serde_json::to_vec_pretty(self)
            .map_err(io::Error::from)
            .and_then(|mut text| {
                text.push(b'\n');
                files::replace_durably(&path, &text)
            });
        written.map_err(|source| SaveError { path, source })
    }
}

/// A run's file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}")]
pub struct SaveError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

fn rfc3339(now: Now) -> String {
    rfc3339_of(now.unix_seconds())
}

/// Unix seconds as RFC 3339 in UTC, to the millisecond.
fn rfc3339_of(seconds: f64) -> String {
    // Beyond what a timestamp holds: only from a file that somebody has changed.
    let millis = (seconds * 1000.0) as i64;
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{time:.3}")
}
