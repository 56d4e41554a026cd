//! A run that this process runs. Keeps its lock, its file and its log consistent.
//!
//! [`step`] decides every change of state; the change is then logged, then saved in the file. If
//! the process is killed in between, the log is one change ahead of the file; the next process that
//! opens the run adopts that change.
//!
//! Limits: starts and ends no processes.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::log::{self, LineKind, LogCheckError, NewLine, Origin, RunLog, StateChange};
use super::redaction::Redacted;
use super::run_files::{self, Entry, FileError, LoadError, Lock, LockError, RunFile};
use super::state::{
    Action, Invalid, NotResumable, Position, Reason, RunEvent, RunState, Unreplayable, resume, step,
};
use super::{log_line, log_reader};
use crate::base::clock::Now;
use crate::process::files::{self, PrivateDirError};
use crate::process::tree::Identity;
use crate::text::foreign::ShowPath;
use crate::text::redact::Redactor;

/// The directory of all runs, below the state directory.
pub(crate) const SESSIONS: &str = "sessions";

/// Why a run cannot be created or opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Private(#[from] PrivateDirError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// Why an event was not applied to a run.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    File(#[from] FileError),
}

/// A run that this process may change.
#[derive(Debug)]
pub struct OpenRun {
    directory: PathBuf,
    file: RunFile,
    position: Position,
    /// The run's log; the pipeline of an agent's output writes to it too.
    pub(crate) log: RunLog,
    /// Redacts all text that is written to the files.
    pub(crate) redactor: Arc<Redactor>,
    _lock: Lock,
}

impl OpenRun {
    /// Creates a run with this file below the state directory. It is invisible until it is
    /// complete.
    ///
    /// # Errors
    /// If the directory cannot be created or is not private, or a file cannot be written.
    pub fn create(
        state: &Path,
        file: RunFile,
        redactor: Arc<Redactor>,
        now: Now,
    ) -> Result<OpenRun, OpenError> {
        files::private_dir(state)?;
        let sessions = state.join(SESSIONS);
        files::private_subdir(&sessions)?;
        if let Err(error) = run_files::remove_unfinished(&sessions, now.wall) {
            tracing::warn!("cannot look through {}: {error}", sessions.shown());
        }
        let directory = sessions.join(&file.oneshot_id);
        let making = run_files::unfinished(&sessions, &file.oneshot_id);
        files::private_subdir(&making)?;
        // Where another process creates a run with this id at this moment, it has the lock.
        let lock = Lock::take(&making)?;
        // One that was killed meanwhile may have left a beginning.
        let _ = std::fs::remove_file(making.join(log_line::FILE_NAME));
        let created = OpenRun::fill(&making, file, redactor, lock).and_then(|mut run| {
            std::fs::rename(&making, &directory)
                .and_then(|()| files::sync_directory(&sessions))
                .map_err(FileError::cannot("make", &directory))?;
            run.log.moved_to(&directory);
            run.directory = directory;
            Ok(run)
        });
        if created.is_err() {
            let _ = std::fs::remove_dir_all(&making);
        }
        created
    }

    fn fill(
        directory: &Path,
        mut file: RunFile,
        redactor: Arc<Redactor>,
        lock: Lock,
    ) -> Result<OpenRun, OpenError> {
        let mut log = RunLog::open(directory)?;
        file.redact(&redactor);
        let position = Position::created(file.max_iterations, file.review());
        for entry in &file.history {
            file.log_seq = log.append(change_line(None, &position, entry, &redactor))?;
        }
        file.save(directory)?;
        let directory = directory.to_path_buf();
        Ok(OpenRun { directory, file, position, log, redactor, _lock: lock })
    }

    /// Opens the run in a directory and adopts a change that is in the log but not in the file.
    ///
    /// # Errors
    /// If another process runs it, or its files cannot be used.
    pub fn open(directory: &Path, redactor: Arc<Redactor>) -> Result<OpenRun, OpenError> {
        // Load first: taking the lock would create the lock file.
        RunFile::load(directory)?;
        let lock = Lock::take(directory)?;
        // Load again: the previous holder of the lock may have changed the file.
        let mut file = RunFile::load(directory)?;
        let mut log = RunLog::open(directory)?;
        log.number_above(file.log_seq);
        if adopt(directory, &mut file)? {
            file.save(directory)?;
        }
        let position = file.position().map_err(|contradiction| LoadError::Contradictory {
            path: directory.join(super::run_files::FILE_NAME),
            contradiction,
        })?;
        let directory = directory.to_path_buf();
        Ok(OpenRun { directory, file, position, log, redactor, _lock: lock })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn id(&self) -> &str {
        &self.file.oneshot_id
    }

    /// The contents of its file.
    pub fn file(&self) -> &RunFile {
        &self.file
    }

    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The position after an event, without applying it, so that an agent can be started before its
    /// process is passed to [`OpenRun::apply`].
    ///
    /// # Errors
    /// If the state does not accept the event.
    pub fn look_ahead(&self, event: &RunEvent) -> Result<(Position, Action), Invalid> {
        step(&self.position, event)
    }

    /// Applies an event: writes the log, then the file. `process` is the agent that the event
    /// starts, if any.
    ///
    /// # Errors
    /// If the state does not accept the event, or a file cannot be written.
    pub fn apply(
        &mut self,
        event: &RunEvent,
        process: Option<Identity>,
        now: Now,
    ) -> Result<Action, ApplyError> {
        let (next, action) = step(&self.position, event)?;
        if action == Action::ReadVerdict {
            return Ok(action);
        }
        self.enter(next, process, now)?;
        Ok(action)
    }

    fn enter(
        &mut self,
        next: Position,
        process: Option<Identity>,
        now: Now,
    ) -> Result<(), ApplyError> {
        let from = self.position.state();
        let mut entry = Entry::new(&next, process, now);
        if let Some(Reason::Feedback(line)) = &mut entry.basis.reason {
            *line = self.redactor.redact(line).into_owned();
        }
        let worker_ended = matches!(from, RunState::WorkerExecuting | RunState::RecoveryPending);
        let is_built_on = matches!(
            entry.state,
            RunState::CheckPending | RunState::AuditPending | RunState::ReiterationPending
        );
        if worker_ended && is_built_on {
            entry.basis.relies_on = self.log.last_result().cloned();
        }
        let log_seq = self.log.append(change_line(Some(from), &next, &entry, &self.redactor))?;
        let mut file = self.file.clone();
        file.log_seq = log_seq;
        file.add(&next, entry);
        // The change is logged, so this is the run's position even if the file cannot be saved.
        self.position = next;
        self.file = file;
        self.save()
    }

    fn save(&self) -> Result<(), ApplyError> {
        Ok(self.file.save(&self.directory)?)
    }

    /// Checks that the log contains the lines that the file relies on.
    ///
    /// # Errors
    /// If they contradict each other.
    pub(crate) fn check_log(&self) -> Result<(), LogCheckError> {
        log::check(&self.directory, &self.file)
    }

    /// Prepares to resume the run; returns the event to apply next, if any.
    ///
    /// # Errors
    /// If its state is final.
    pub fn resume(
        &mut self,
        maximum: Option<NonZeroU32>,
    ) -> Result<Option<RunEvent>, NotResumable> {
        let (position, event) = resume(&self.position, maximum)?;
        self.file.max_iterations = position.maximum;
        self.position = position;
        Ok(event)
    }

    /// Changes the file, except its states, redacts its texts again, and saves it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn update(&mut self, change: impl FnOnce(&mut RunFile)) -> Result<(), ApplyError> {
        change(&mut self.file);
        self.position.review = self.file.review();
        self.file.redact(&self.redactor);
        self.save()
    }

    /// Redacts a line's data, writes the line to the log, and returns its number.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note(
        &mut self,
        kind: LineKind,
        origin: Origin,
        data: Value,
        now: Now,
    ) -> Result<u64, FileError> {
        self.log.append(NewLine {
            ts: now.unix_seconds(),
            kind,
            origin,
            data: Redacted::new(data, &self.redactor),
        })
    }
}

/// The log's line for a new entry of the history.
fn change_line(
    from: Option<RunState>,
    to: &Position,
    entry: &Entry,
    redactor: &Redactor,
) -> NewLine {
    let change = StateChange {
        from,
        to: entry.state,
        max_iterations: Some(to.maximum),
        basis: entry.basis.clone(),
    };
    NewLine {
        ts: entry.ts,
        kind: LineKind::StateChange,
        origin: Origin {
            iteration: (to.iteration > 0).then_some(to.iteration),
            ..Origin::default()
        },
        data: Redacted::new(json!(change), redactor),
    }
}

/// Adds the change that is in the log but not in the file. Returns whether there was one; since
/// each save follows its line, there is at most one.
fn adopt(directory: &Path, file: &mut RunFile) -> Result<bool, OpenError> {
    let path = directory.join(super::log::FILE_NAME);
    let known = file.log_seq;
    let newest = log_reader::newest(directory, LineKind::StateChange, u64::MAX)
        .map_err(FileError::cannot("read", &path))?;
    let Some(line) = newest.filter(|line| line.seq > known) else {
        return Ok(false);
    };
    let contradictory =
        |contradiction| LoadError::Contradictory { path: path.clone(), contradiction };
    let Some(change) = line.state_change() else {
        return Ok(false);
    };
    let position = file.position().map_err(contradictory)?;
    let unreplayable = Unreplayable { entry: file.history.len(), state: change.to };
    let mut next = position
        .then(change.to, change.basis.reason.as_ref())
        .ok_or_else(|| contradictory(unreplayable.into()))?;
    next.maximum = change.max_iterations.unwrap_or(next.maximum);
    file.add(&next, change.entry(line.ts));
    file.log_seq = line.seq;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::agent::executor::Executors;
    use crate::arbitrary;
    use crate::base::clock::{Clock, FakeClock};
    use crate::oneshot::recovery::{RecoveryContext, recover_last_worker};
    use crate::oneshot::sessions;

    /// Recorded files of a finished run and of an unfinished one.
    const FILE: &str = include_str!("../../tests/fuzz/seeds/sessions/run");
    const OPEN_FILE: &str = r#"{
        "version": 1,
        "oneshot_id": "451308e9-d375-4f63-989d-50d7955275ae",
        "state": "WORKER_EXECUTING",
        "iteration_count": 1,
        "max_iterations": 5,
        "created_at": "2026-11-22T07:37:16.990Z",
        "updated_at": "2026-11-22T07:37:17.053Z",
        "history": [
            {"state": "CREATED", "ts": 1795333036.9908445},
            {"state": "WORKER_EXECUTING", "ts": 1795333037.053452, "pid": 2147483647,
             "pid_started": 2932420}
        ],
        "log_seq": 2,
        "prompt": "mend it",
        "directory": "/home/somebody/project",
        "executor": "echo",
        "auditor": "echo",
        "options": {"inactivity": 300.0},
        "agent_sessions": [{"role": "worker", "iteration": 1, "executor": "echo", "id": "x"}]
    }"#;
    const LOG: &str = include_str!("../../tests/fuzz/seeds/sessions/log");

    /// A directory with these files.
    fn directory(file: &str, log: &[u8]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &[u8]| std::fs::write(directory.path().join(name), text);
        put(super::super::run_files::FILE_NAME, file.as_bytes()).unwrap();
        put(super::super::log::FILE_NAME, log).unwrap();
        directory
    }

    fn open(directory: &Path) -> Result<OpenRun, OpenError> {
        OpenRun::open(directory, Arc::new(Redactor::default()))
    }

    proptest! {
        // Each case syncs to disk several times.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_files_of_a_run_are_refused_or_can_be_continued(
            file in arbitrary::damaged(&format!("{FILE}{OPEN_FILE}")),
            lines in prop::collection::vec(arbitrary::damaged(LOG), 0..6),
            torn in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut log: Vec<u8> = lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
            log.extend(torn);
            let directory = directory(&file.to_string(), &log);
            let Ok(mut run) = open(directory.path()) else {
                return Ok(());
            };
            let executors = Executors::new(&[]).unwrap();
            for name in executors.names() {
                let context = RecoveryContext { home: directory.path(), environment: &[] };
                let executor = executors.find(name).unwrap();
                let _ = recover_last_worker(directory.path(), run.file(), executor, context);
            }
            let _ = run.resume(None);
            let now = FakeClock::default().now();
            for event in [RunEvent::Start, RunEvent::Cancel] {
                match run.apply(&event, None, now) {
                    Ok(_) | Err(ApplyError::Invalid(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            let state = run.position().state();
            drop(run);
            let view = sessions::view(directory.path()).unwrap();
            prop_assert_eq!(view.file.state, state);
            view.is_resumable();
            prop_assert!(open(directory.path()).is_ok());
        }
    }

    #[test]
    fn a_log_at_the_largest_line_number_can_be_continued() {
        let log = LOG.replacen("\"seq\":1,", &format!("\"seq\":{},", u64::MAX), 1);
        assert_ne!(log, LOG);
        let first = log.lines().next().unwrap();
        let directory = directory(FILE, format!("{first}\n").as_bytes());
        let mut log = RunLog::open(directory.path()).unwrap();
        let line = NewLine {
            ts: 1.0,
            kind: LineKind::Prompt,
            origin: Origin::default(),
            data: Redacted::new(Value::Null, &Redactor::default()),
        };
        assert_eq!(log.append(line).unwrap(), u64::MAX);
    }
}
