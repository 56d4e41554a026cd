//! The state directory: where a server's spools lie, and a small file per task that
//! other processes read (`zsh-tool tasks`, `zsh-tool log`).
//!
//! Each server has a directory of its own, locked while it lives. It goes with the
//! server; what a killed server left is removed at the next start. Command lines are
//! redacted before they are written.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::live::{Input, LiveTask};
use super::spool::Spool;
use super::state::Outcome;
use crate::process::files::{self, PrivateDirError};
use crate::text::redact::Redactor;

const SERVERS: &str = "servers";
const LOCK: &str = "lock";
/// A task's file is written so long after its start: most commands are over by then, and
/// other processes, which the file is for, can wait.
const AFTER_START: Duration = Duration::from_millis(5);
/// … and so long after its end: the client waits for the answer, which needs the
/// processor first.
const AFTER_END: Duration = Duration::from_millis(1);
/// A directory that is still being made is left alone for so long.
const MAKING: Duration = Duration::from_secs(60);

/// A task as the state directory tells of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// 8 lower-case hex digits.
    pub id: String,
    /// The command line, secrets redacted.
    pub command: String,
    /// What it is for, if the caller said so.
    pub description: Option<String>,
    /// Where it started.
    pub directory: String,
    /// The shell's pid.
    pub pid: i32,
    /// Unix seconds.
    pub started: f64,
    /// Whether it has a terminal.
    pub pty: bool,
    /// `None` while it runs.
    pub outcome: Option<RecordedOutcome>,
    /// The exit code, once it has ended.
    pub exit_code: Option<i32>,
    /// The command's own time in milliseconds, once it has ended.
    pub duration_ms: Option<u64>,
    /// Processes that live on after its end.
    pub leftovers: Vec<i32>,
    /// The files that hold its output.
    pub output: Vec<PathBuf>,
}

/// An [`Outcome`] in the words of the state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)]
pub enum RecordedOutcome {
    Success,
    Failure,
    Timeout,
    Killed,
    Interrupted,
}

impl From<Outcome> for RecordedOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success => RecordedOutcome::Success,
            Outcome::Failure => RecordedOutcome::Failure,
            Outcome::Timeout => RecordedOutcome::Timeout,
            Outcome::Killed => RecordedOutcome::Killed,
            Outcome::Interrupted => RecordedOutcome::Interrupted,
        }
    }
}

/// A server's directory, locked for as long as this lives.
#[derive(Debug)]
pub struct ServerDir {
    path: PathBuf,
    _lock: File,
}

/// Why a server has no directory.
#[derive(Debug, thiserror::Error)]
pub enum ServerDirError {
    /// It cannot be private.
    #[error(transparent)]
    Private(#[from] PrivateDirError),
    /// The system refused.
    #[error("cannot use {path}: {source}")]
    Io {
        /// What.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ServerDir {
    /// Makes the directory of server `instance` below the state directory.
    ///
    /// # Errors
    /// When the directory cannot be made, is not private, or the disk refuses.
    pub fn create(state: &Path, instance: &str) -> Result<ServerDir, ServerDirError> {
        files::private_dir(state)?;
        let servers = state.join(SERVERS);
        files::private_dir(&servers)?;
        // Made aside, locked, then shown: nobody sees it without its lock.
        let making = servers.join(format!("{instance}.new"));
        files::private_dir(&making)?;
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| ServerDirError::Io { path, source }
        };
        let lock_path = making.join(LOCK);
        let mut lock = files::try_lock(&lock_path)
            .map_err(failed(&lock_path))?
            .ok_or_else(|| failed(&lock_path)(io::ErrorKind::WouldBlock.into()))?;
        writeln!(lock, "{}", std::process::id()).map_err(failed(&lock_path))?;
        let path = servers.join(instance);
        std::fs::rename(&making, &path).map_err(failed(&path))?;
        Ok(ServerDir { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The base of a task's spool files.
    pub fn spool_base(&self, task: &str) -> PathBuf {
        self.path.join(task)
    }

    /// Where a long command's script is written.
    pub fn script_path(&self, task: &str) -> PathBuf {
        self.path.join(format!("{task}.zsh"))
    }

    /// Removes it with all that is in it.
    pub fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories of servers that are gone.
pub fn remove_dead_servers(state: &Path) {
    let Ok(entries) = std::fs::read_dir(state.join(SERVERS)) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let young = entry
            .metadata()
            .and_then(|found| found.modified())
            .is_ok_and(|made| SystemTime::now().duration_since(made).unwrap_or_default() < MAKING);
        let making = path.extension().is_some();
        if making && young {
            continue;
        }
        // The lock goes with the handle; a living server holds its own.
        if let Ok(Some(_lock)) = files::try_lock(&path.join(LOCK)) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// The tasks of all servers that live, newest first, each with its server's directory.
pub fn read_all(state: &Path) -> Vec<(PathBuf, Entry)> {
    let mut found = Vec::new();
    let servers = std::fs::read_dir(state.join(SERVERS))
        .into_iter()
        .flatten()
        .flatten();
    for server in servers {
        let files = std::fs::read_dir(server.path())
            .into_iter()
            .flatten()
            .flatten();
        for file in files {
            let path = file.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
                && let Ok(text) = std::fs::read(&path)
                && let Ok(entry) = serde_json::from_slice::<Entry>(&text)
            {
                found.push((server.path(), entry));
            }
        }
    }
    found.sort_by(|(_, a), (_, b)| b.started.total_cmp(&a.started));
    found
}

/// One task of a server's directory; `None` when it is gone.
pub fn read(directory: &Path, task: &str) -> Option<Entry> {
    let text = std::fs::read(entry_path(directory, task)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Whether the server of this directory lives.
pub fn server_lives(directory: &Path) -> bool {
    files::is_locked(&directory.join(LOCK))
}

/// The pid of the server of this directory. It means something while the server lives,
/// and to processes that see the same pids.
pub fn server_pid(directory: &Path) -> Option<i32> {
    let text = std::fs::read_to_string(directory.join(LOCK)).ok()?;
    text.trim().parse().ok()
}

/// The files that hold a task's output now, by their numbers, in their order. A number
/// that is missing has been dropped for the quota.
pub fn output_files(directory: &Path, task: &str) -> Vec<(u64, PathBuf)> {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = files
        .filter_map(|file| {
            let path = file.path();
            let number = path.extension()?.to_str()?.parse().ok()?;
            (path.file_stem()? == task).then_some((number, path))
        })
        .collect();
    found.sort();
    found
}

fn entry_path(directory: &Path, task: &str) -> PathBuf {
    directory.join(format!("{task}.json"))
}

/// One task's file; nothing is written without a directory.
pub struct Journal {
    path: Option<PathBuf>,
    spool: Arc<Spool>,
    redactor: Arc<Redactor>,
    /// What stands in the file.
    written: Vec<u8>,
    due: Option<Instant>,
}

impl Journal {
    /// The journal of a task.
    pub fn new(
        directory: Option<&ServerDir>,
        task: &str,
        spool: Arc<Spool>,
        redactor: Arc<Redactor>,
    ) -> Journal {
        Journal {
            path: directory.map(|directory| entry_path(&directory.path, task)),
            spool,
            redactor,
            written: Vec::new(),
            due: None,
        }
    }

    /// The task has started.
    pub fn note_start(&mut self, now: Instant) {
        self.due = Some(now + AFTER_START);
    }

    /// The task has ended.
    pub fn note_end(&mut self, now: Instant) {
        self.due = Some(now + AFTER_END);
    }

    /// When the file is to be written; `None`: it says what is known.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Writes the task's present state, if it is not what stands in the file.
    pub fn write(&mut self, task: &LiveTask) {
        self.due = None;
        let Some(path) = &self.path else {
            return;
        };
        let text = serde_json::to_vec(&self.entry(task)).map_err(io::Error::from);
        let written = match text {
            Ok(text) if text == self.written => return,
            Ok(text) => files::replace_private(path, &text).map(|()| self.written = text),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::warn!("cannot write {}: {error}", path.display());
        }
    }

    fn entry(&self, task: &LiveTask) -> Entry {
        let facts = &task.facts;
        let output = self.spool.files();
        let state = task.state();
        let end = state.ended.as_ref();
        Entry {
            id: facts.id.clone(),
            command: self.redactor.redact(&facts.command).into_owned(),
            description: facts
                .description
                .as_ref()
                .map(|text| self.redactor.redact(text).into_owned()),
            directory: facts.directory.display().to_string(),
            pid: facts.pid,
            started: facts.started.unix_seconds(),
            pty: facts.input == Input::Terminal,
            outcome: end.map(|end| end.outcome.into()),
            exit_code: end.map(|end| end.exit.code()),
            duration_ms: end.map(|end| u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX)),
            leftovers: state.leftovers.iter().map(|left| left.pid).collect(),
            output,
        }
    }
}

/// Removes a task's file.
pub fn remove_entry(directory: &ServerDir, task: &str) {
    let _ = std::fs::remove_file(entry_path(&directory.path, task));
}
