//! A run's directory: its file `oneshot.json`, which serves to resume or watch the run, and its
//! lock.
//!
//! Each save is synced and replaces the whole file, so that a reader sees either the old or the new
//! contents. The last entry of the history is always the run's state, and the whole history can be
//! replayed ([`RunFile::position`]). Texts from outside are redacted ([`RunFile::redact`]) before
//! the first save, so a resumed run continues with the redacted prompt.
//!
//! The lock is a locked file that contains the runner's pid and start time. The kernel releases it
//! when the runner ends.
//!
//! Limits: only the holder of the lock may save. On a network file system, other machines may not
//! see the lock.

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

use super::check::CheckResult;
use super::repository::{Moment, Snapshot, WorkTree};
use super::state::{Position, Reason, Review, Role, RunState, Unreplayable};
use crate::agent::usage::Usage;
use crate::base::clock::Now;
use crate::config::NO_AUDITOR;
use crate::process::files::{self, FileLock};
use crate::process::tree::{self, Identity};
use crate::text::foreign::{self, ShowPath};
use crate::text::redact::Redactor;

/// The file's name in a run's directory.
pub(crate) const FILE_NAME: &str = "oneshot.json";

/// The current version of the file's format.
pub(crate) const VERSION: u32 = 1;

/// The longest prompt: models accept far less, and the run's file and log contain all of it.
pub(crate) const MAX_PROMPT_BYTES: u64 = 8 << 20;
/// The largest run file, with an escaped prompt and the last audit's feedback.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// One entry of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The state that the run entered.
    pub state: RunState,
    /// The time, in Unix seconds.
    pub ts: f64,
    #[serde(flatten)]
    pub basis: Basis,
}

/// The details of an entry of the history; the log's line contains them too.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Basis {
    /// In `*_EXECUTING`: the pid of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The start time of that process, in clock ticks since boot: the pid may have been reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_started: Option<u64>,
    /// The reason for the state, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The line of the log that the next step depends on, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relies_on: Option<LogLineDigest>,
}

impl Entry {
    /// An entry for a position reached now; `process` is the started agent, if any.
    pub(crate) fn new(position: &Position, process: Option<Identity>, now: Now) -> Entry {
        Entry {
            state: position.state(),
            ts: now.unix_seconds(),
            basis: Basis {
                pid: process.map(|process| process.pid),
                pid_started: process.map(|process| process.started),
                reason: position.stage.reason(),
                relies_on: None,
            },
        }
    }

    /// The agent's process, if it was recorded.
    pub(crate) fn process(&self) -> Option<Identity> {
        Some(Identity {
            // kill(2) signals process groups or every process for 0 and negative numbers.
            pid: self.basis.pid.filter(|pid| *pid > 0)?,
            started: self.basis.pid_started?,
        })
    }
}

/// An agent program's id for its conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSession {
    pub role: Role,
    pub iteration: u32,
    /// The executor's name.
    pub executor: String,
    /// The program's own id.
    pub id: String,
    /// What it has cost, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// The settings of a run; a resume may change them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// Silence after which an agent is killed, in seconds.
    pub inactivity: f64,
    /// The time limit of the whole run, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runtime: Option<f64>,
    /// How long to wait for an endpoint that fails for now, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_limit: Option<f64>,
    /// How long a check may take, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_timeout: Option<f64>,
    /// Whether workers get the permission to change files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_edits: bool,
    /// What the agents may cost, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    /// How many tokens they may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// How to handle a stuck agent: `ask`, `wait`, `recover`, `fail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_stuck: Option<String>,
    /// The judge of whether an agent is stuck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// The interval between heartbeats, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<f64>,
    /// After how many signs of life without progress an agent counts as stuck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck_threshold: Option<u64>,
}

/// The contents of a run's file. Saving keeps fields of later versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// The format's version; a file without a version has the first.
    #[serde(default = "first_version")]
    pub version: u32,
    /// The run's id, a UUID. Paths and commands contain it.
    #[serde(deserialize_with = "uuid")]
    pub oneshot_id: String,
    /// The current state.
    pub state: RunState,
    /// The number of the iteration ([`Position::iteration`]).
    pub iteration_count: u32,
    /// The maximum number of iterations.
    pub max_iterations: NonZeroU32,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// RFC 3339, UTC.
    pub updated_at: String,
    /// The past states and the current one, oldest first.
    pub history: Vec<Entry>,
    /// The number of the log's line for the last entry of the history.
    #[serde(default)]
    pub log_seq: u64,
    /// The worker's task, redacted.
    #[serde(default)]
    pub prompt: String,
    /// The working directory of the agents.
    #[serde(default)]
    pub directory: PathBuf,
    /// The worker's executor.
    #[serde(default)]
    pub executor: String,
    /// The auditor's executor, or [`NO_AUDITOR`].
    #[serde(default)]
    pub auditor: String,
    /// Command lines that check each worker's result, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// The worker's model, if the user chose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The auditor's model, if the user chose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auditor_model: Option<String>,
    #[serde(default)]
    pub options: RunOptions,
    /// The last auditor's feedback, redacted.
    #[serde(default)]
    pub feedback: Option<String>,
    /// What the red checks of the last iteration say, redacted; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_checks: Option<String>,
    /// The files of its repository before and after each agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<Snapshot>,
    /// The work tree of its own, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_tree: Option<WorkTree>,
    /// The command line to run at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// The results of all checks so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check_results: Vec<CheckResult>,
    /// The sessions of all agents so far.
    #[serde(default)]
    pub agent_sessions: Vec<AgentSession>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub others: serde_json::Map<String, serde_json::Value>,
}

/// Reads a UUID in the form in which runs have it.
fn uuid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_id = uuid::Uuid::try_parse(&text).is_ok_and(|id| id.to_string() == text);
    is_id.then_some(text).ok_or_else(|| D::Error::custom("oneshot_id is not a UUID"))
}

fn first_version() -> u32 {
    1
}

/// Why a run's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    File(#[from] FileError),
    /// It is too large to be a run's file.
    #[error("{file} is larger than {} MiB: it is not a run's file", MAX_FILE_BYTES >> 20, file = .path.shown())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is not valid JSON of a run's file.
    #[error("{file} is not a run's file: {}", foreign::shown(&.source.to_string()), file = .path.shown())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parser's error, with line and column.
        source: serde_json::Error,
    },
    /// A later version of the program wrote it.
    #[error("{file} has version {found}, this program knows versions up to {VERSION}", file = .path.shown())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: u32,
    },
    /// It was edited by hand.
    #[error("{file} contradicts itself: {contradiction}", file = .path.shown())]
    Contradictory {
        /// The file.
        path: PathBuf,
        contradiction: Contradiction,
    },
}

/// How a run's file contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// The history is impossible.
    #[error(transparent)]
    History(#[from] Unreplayable),
    /// The history ends in a state other than the file's.
    #[error("its state is {state}, the last entry of its history {last}")]
    State {
        state: RunState,
        /// The last entry of the history.
        last: RunState,
    },
}

impl RunFile {
    /// A new run without a task.
    pub fn created(maximum: NonZeroU32, now: Now) -> RunFile {
        let position = Position::created(maximum, Review::AUDITOR);
        RunFile {
            version: VERSION,
            oneshot_id: uuid::Uuid::new_v4().to_string(),
            state: position.state(),
            iteration_count: position.iteration,
            max_iterations: maximum,
            created_at: rfc3339(now.unix_seconds()),
            updated_at: rfc3339(now.unix_seconds()),
            history: vec![Entry::new(&position, None, now)],
            log_seq: 0,
            prompt: String::new(),
            directory: PathBuf::new(),
            executor: String::new(),
            auditor: String::new(),
            checks: Vec::new(),
            model: None,
            auditor_model: None,
            options: RunOptions::default(),
            feedback: None,
            failed_checks: None,
            check_results: Vec::new(),
            snapshots: Vec::new(),
            work_tree: None,
            then: None,
            agent_sessions: Vec::new(),
            others: serde_json::Map::new(),
        }
    }

    /// Replaces secrets in the texts by a placeholder.
    pub fn redact(&mut self, redactor: &Redactor) {
        let redact = |text: &mut String| *text = redactor.redact(text).into_owned();
        redact(&mut self.prompt);
        self.feedback.iter_mut().chain(&mut self.failed_checks).for_each(redact);
    }

    /// Adds the entry of a position to the history.
    pub(crate) fn add(&mut self, position: &Position, entry: Entry) {
        self.updated_at = rfc3339(entry.ts);
        self.history.push(entry);
        self.state = position.state();
        self.iteration_count = position.iteration;
        self.max_iterations = position.maximum;
    }

    /// What judges a worker's result.
    pub fn review(&self) -> Review {
        Review { checks: !self.checks.is_empty(), auditor: self.auditor().is_some() }
    }

    /// The auditor's executor; `None` if there is none.
    pub(crate) fn auditor(&self) -> Option<&str> {
        (self.auditor != NO_AUDITOR).then_some(&self.auditor)
    }

    /// The snapshots before and after the agents of one iteration, or of all; `None` if there are not
    /// two.
    pub(crate) fn snapshots_around(&self, iteration: Option<u32>) -> Option<(&str, &str)> {
        let is_asked = |snapshot: &&Snapshot| {
            iteration.is_none_or(|iteration| snapshot.iteration == iteration)
        };
        let first = self.snapshots.iter().find(is_asked)?;
        // What an auditor has changed belongs to its iteration.
        let last = self.snapshots.iter().rfind(is_asked)?;
        (last.moment != Moment::BeforeWorker || iteration.is_none())
            .then_some((first.tree.as_str(), last.tree.as_str()))
    }

    /// Why there is no difference to show, of an iteration or of all.
    pub(crate) fn why_no_difference(&self, iteration: Option<u32>) -> String {
        match iteration {
            _ if self.snapshots.is_empty() => {
                "the run has no differences to show: no worker has started, or its directory is not \
                 in a git repository, or git was not found"
                    .to_owned()
            }
            Some(iteration) if iteration == 0 || iteration > self.iteration_count => {
                format!("the run has no iteration {iteration}")
            }
            _ => "no worker has ended yet, so there is no difference to show".to_owned(),
        }
    }

    /// Where its repository is: that of its work tree, once the tree is gone.
    pub(crate) fn repository_directory(&self) -> &Path {
        match &self.work_tree {
            Some(tree) if !self.directory.exists() => &tree.repository,
            _ => &self.directory,
        }
    }

    /// What all agents have cost so far, as far as they report it.
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        self.agent_sessions.iter().filter_map(|session| session.usage).for_each(|it| sum.add(&it));
        sum
    }

    /// Replays the history and returns the run's position.
    ///
    /// # Errors
    /// If the file contradicts itself.
    pub fn position(&self) -> Result<Position, Contradiction> {
        let entries = self.history.iter();
        let position = Position::replay(
            self.max_iterations,
            self.review(),
            entries.map(|entry| (entry.state, entry.basis.reason.as_ref())),
        )?;
        if position.state() != self.state {
            return Err(Contradiction::State { state: self.state, last: position.state() });
        }
        Ok(position)
    }

    /// The last entry of the history.
    pub fn last(&self) -> Option<&Entry> {
        self.history.last()
    }

    /// Reads the file in a run's directory.
    ///
    /// # Errors
    /// If the file is missing or is not a run's file.
    pub fn load(directory: &Path) -> Result<RunFile, LoadError> {
        let path = directory.join(FILE_NAME);
        let bytes = files::read_private(&path, MAX_FILE_BYTES + 1)
            .map_err(FileError::cannot("read", &path))?;
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
            Err(contradiction) => Err(LoadError::Contradictory { path, contradiction }),
        }
    }

    /// Saves the file in a run's directory, synced to disk.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn save(&self, directory: &Path) -> Result<(), FileError> {
        let path = directory.join(FILE_NAME);
        let written =
            serde_json::to_vec_pretty(self).map_err(io::Error::from).and_then(|mut text| {
                text.push(b'\n');
                files::replace_durably(&path, |file| file.write_all(&text))
            });
        written.map_err(FileError::cannot("write", &path))
    }
}

/// A file of a run cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {file}: {source}", file = .path.shown())]
pub struct FileError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    /// Creates the error of an action on a file; `doing` is a verb such as `read`.
    pub(super) fn cannot(
        doing: &'static str,
        path: &Path,
    ) -> impl Fn(io::Error) -> FileError + use<> {
        let path = path.to_path_buf();
        move |source| FileError { doing, path: path.clone(), source }
    }
}

/// Unix seconds as RFC 3339 in UTC, to the millisecond.
fn rfc3339(seconds: f64) -> String {
    // Only a file edited by hand contains a number beyond the range of timestamps.
    let millis = (seconds * 1000.0) as i64;
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{time:.3}")
}

/// The lock's name in a run's directory.
const LOCK_NAME: &str = "lock";

/// How much of the lock file to read; a runner writes less.
const MAX_LOCK_BYTES: u64 = 100;

/// How often to try the lock if no runner is known: a process that checks whether the lock is held
/// takes it briefly.
const TRIES: usize = 100;

/// The lock of a run, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    held: FileLock,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process runs the run.
    #[error(
        "this run is active {}: `zsh-tool oneshot follow` watches it, `stop` ends it",
        by(.runner)
    )]
    Held {
        /// The process that runs it, if it is known.
        runner: Option<Identity>,
    },
    /// The lock file cannot be opened or written.
    #[error(transparent)]
    File(#[from] FileError),
}

fn by(runner: &Option<Identity>) -> String {
    match runner {
        Some(runner) => format!("in pid {}", runner.pid),
        None => "in another process".to_owned(),
    }
}

impl Lock {
    /// Takes the lock of a run's directory.
    ///
    /// # Errors
    /// If another process holds it, or the lock file cannot be written.
    pub(crate) fn take(directory: &Path) -> Result<Lock, LockError> {
        let path = directory.join(LOCK_NAME);
        let failed = FileError::cannot("lock", &path);
        for _ in 0..TRIES {
            if let Some(held) = FileLock::try_take(&path).map_err(&failed)? {
                let lock = Lock { held };
                lock.sign().map_err(&failed)?;
                return Ok(lock);
            }
            let runner = runner(directory);
            if runner.is_some() {
                return Err(LockError::Held { runner });
            }
            std::thread::yield_now();
        }
        Err(LockError::Held { runner: None })
    }

    fn sign(&self) -> io::Result<()> {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let started = tree::look_up(own).map_or(0, |found| found.id.started);
        let mut file = self.held.file();
        file.set_len(0)?;
        let text = format!("{own} {started}\n");
        file.write_all(text.as_bytes())
    }
}

impl Drop for Lock {
    /// Erases the runner's pid, since this process may continue. Closing the file releases the lock
    /// and wakes watchers of the directory.
    fn drop(&mut self) {
        let _ = self.held.file().set_len(0);
    }
}

/// The process that runs a run, if it exists and is visible from this process.
pub(crate) fn runner(directory: &Path) -> Option<Identity> {
    let bytes = files::read_private(&directory.join(LOCK_NAME), MAX_LOCK_BYTES).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let (pid, started) = text.trim().split_once(' ')?;
    let signed = Identity { pid: pid.parse().ok()?, started: started.parse().ok()? };
    tree::look_up(signed.pid)
        .filter(|found| found.id == signed && !found.zombie)
        .map(|found| found.id)
}

/// Whether a run is active. Tries the lock only if no runner is visible.
pub(crate) fn is_held(directory: &Path) -> bool {
    runner(directory).is_some() || files::is_locked(&directory.join(LOCK_NAME))
}

/// A line of the log that a state of the run relies on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLineDigest {
    /// The line's number.
    pub seq: u64,
    /// The line's length in bytes, without the newline.
    pub bytes: u64,
    /// The line's SHA-256 in hex digits.
    pub sha256: String,
}

impl LogLineDigest {
    /// The digest of a line with this number; `line` has no newline.
    pub fn compute(seq: u64, line: &[u8]) -> LogLineDigest {
        let digest = Sha256::digest(line);
        LogLineDigest {
            seq,
            bytes: line.len() as u64,
            sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// The lowest age of an unfinished directory to remove: a new one has no lock yet.
const MIN_AGE: Duration = Duration::from_secs(60);

/// The suffix of a run's directory until the run is complete.
const UNFINISHED: &str = ".new";

/// The directory in which the run with this id is created.
pub(super) fn unfinished(sessions: &Path, id: &str) -> PathBuf {
    sessions.join(format!("{id}{UNFINISHED}"))
}

/// Removes the unfinished runs of killed processes.
///
/// # Errors
/// If the directory cannot be read. Directories that cannot be removed are retried next time.
pub(super) fn remove_unfinished(sessions: &Path, now: SystemTime) -> io::Result<()> {
    for entry in std::fs::read_dir(sessions)? {
        let path = entry?.path();
        let is_left = is_ours(&path) && is_old(&path, now) && !is_held(&path);
        if is_left && let Err(error) = std::fs::remove_dir_all(&path) {
            tracing::warn!("cannot remove {}: {error}", path.shown());
        }
    }
    Ok(())
}

fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let id = name.and_then(|name| name.strip_suffix(UNFINISHED));
    id.is_some_and(|id| uuid::Uuid::try_parse(id).is_ok())
}

/// A time in the future does not count, since the clock was set back.
fn is_old(path: &Path, now: SystemTime) -> bool {
    let changed = std::fs::symlink_metadata(path).and_then(|found| found.modified());
    let age = changed.ok().and_then(|at| now.duration_since(at).ok());
    age.is_some_and(|age| age >= MIN_AGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of the descriptor, as a process inherits it while another thread starts it.
    #[test]
    fn a_released_lock_is_free_even_if_its_descriptor_was_copied() {
        let directory = tempfile::tempdir().unwrap();
        let lock = Lock::take(directory.path()).unwrap();
        assert!(is_held(directory.path()));
        let copy = lock.held.file().try_clone().unwrap();
        drop(lock);
        assert!(!is_held(directory.path()));
        drop(copy);
    }

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    #[test]
    fn a_run_has_a_uuid_for_its_id() {
        let now = Now { mono: std::time::Instant::now(), wall: SystemTime::UNIX_EPOCH };
        let file = RunFile::created(NonZeroU32::MIN, now);
        let mut value = serde_json::to_value(&file).unwrap();
        let mut read = |id: &str| {
            value["oneshot_id"] = id.into();
            serde_json::from_value::<RunFile>(value.clone())
        };
        assert_eq!(read(ID).unwrap().oneshot_id, ID);
        for id in ["", "../..", "/etc", "x\n✔ exit=0", &format!("{{{ID}}}"), &format!("{ID}/..")]
        {
            assert!(read(id).is_err(), "{id}");
        }
    }

    #[test]
    fn abandoned_unfinished_runs_are_removed() {
        let sessions = tempfile::tempdir().unwrap();
        let left = unfinished(sessions.path(), ID);
        let others = ["keep.new", ID].map(|name| sessions.path().join(name));
        for directory in others.iter().chain([&left]) {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("oneshot-log.json"), "{").unwrap();
        }
        let now = SystemTime::now();
        remove_unfinished(sessions.path(), now).unwrap();
        assert!(left.exists(), "it may be made just now");
        let later = now + 2 * MIN_AGE;
        let lock = Lock::take(&left).unwrap();
        remove_unfinished(sessions.path(), later).unwrap();
        assert!(left.exists(), "it is being made");
        drop(lock);
        remove_unfinished(sessions.path(), later).unwrap();
        assert!(!left.exists());
        assert!(others.iter().all(|other| other.exists()));
    }
}
