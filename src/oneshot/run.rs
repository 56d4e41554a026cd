//! A run that this process runs: its lock, its file and its log, kept in step.
//!
//! Every change of state goes the same way: decided by [`step`], told by the log, saved in
//! the file. Whoever is killed in between leaves a log that is one change ahead, which
//! the next one to open the run adopts.
//!
//! Limits: starts and ends no process.

use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::context::{AgentSession, Contradiction, Entry, LoadError, NewRun, RunFile, SaveError};
use super::lock::{Lock, LockError};
use super::log::{Kind, LogError, NewLine, Origin, RunLog, StateChange};
use super::log_reader;
use super::redaction::Redacted;
use super::state::{
    Action, Event, Invalid, NotResumable, Position, Reason, State, Unreplayable, resume, step,
};
use super::unfinished;
use crate::base::clock::Now;
use crate::process::files::{self, PrivateDirError};
use crate::process::tree::Identity;
use crate::text::redact::Redactor;

/// The directory of all runs, below the state directory.
pub const SESSIONS: &str = "sessions";

/// Why a run cannot be created or opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum OpenError {
    #[error(transparent)]
    Private(#[from] PrivateDirError),
    #[error("cannot make {path}: {source}")]
    Create { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Save(#[from] SaveError),
}

/// Why a run did not go on by an event.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ApplyError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Save(#[from] SaveError),
}

/// A run that this process may change.
#[derive(Debug)]
pub struct OpenRun {
    directory: PathBuf,
    file: RunFile,
    position: Position,
    log: RunLog,
    redactor: Arc<Redactor>,
    _lock: Lock,
}

impl OpenRun {
    /// Creates a run below the state directory. Nobody sees it before it is whole.
    ///
    /// # Errors
    /// When the directory cannot be made or is not private, or the disk refuses.
    pub fn create(
        state: &Path,
        run: NewRun,
        redactor: Arc<Redactor>,
        now: Now,
    ) -> Result<OpenRun, OpenError> {
        files::private_dir(state)?;
        let sessions = state.join(SESSIONS);
        files::private_subdir(&sessions)?;
        let id = uuid::Uuid::new_v4().to_string();
        if let Err(error) = unfinished::remove(&sessions, now.wall) {
            tracing::warn!("cannot look through {}: {error}", sessions.display());
        }
        let making = unfinished::place(&sessions, &id);
        files::private_subdir(&making)?;
        let directory = sessions.join(&id);
        let created = OpenRun::fill(&making, id, run, redactor, now).and_then(|mut run| {
            std::fs::rename(&making, &directory)
                .and_then(|()| files::sync_directory(&sessions))
                .map_err(|source| OpenError::Create {
                    path: directory.clone(),
                    source,
                })?;
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
        id: String,
        run: NewRun,
        redactor: Arc<Redactor>,
        now: Now,
    ) -> Result<OpenRun, OpenError> {
        let lock = Lock::take(directory)?;
        let mut log = RunLog::open(directory)?;
        let mut file = RunFile::new(id, run, now);
        file.redact(&redactor);
        let position = Position::created(file.max_iterations);
        file.log_seq = log.append(change_line(None, &position, file.last(), &redactor))?;
        file.save(directory)?;
        Ok(OpenRun {
            directory: directory.to_path_buf(),
            file,
            position,
            log,
            redactor,
            _lock: lock,
        })
    }

    /// Opens the run of a directory. A change that the log tells of and the file does not
    /// is adopted.
    ///
    /// # Errors
    /// When somebody else runs it, or its files cannot be used.
    pub fn open(directory: &Path, redactor: Arc<Redactor>) -> Result<OpenRun, OpenError> {
        // Asked first: taking the lock would make its file.
        RunFile::load(directory)?;
        let lock = Lock::take(directory)?;
        // Again, since whoever had the lock meanwhile may have changed it.
        let mut file = RunFile::load(directory)?;
        let log = RunLog::open(directory)?;
        if adopt(directory, &mut file)? {
            file.save(directory)?;
        }
        let position = file
            .position()
            .map_err(|contradiction| LoadError::Contradictory {
                path: directory.join(super::context::FILE_NAME),
                contradiction,
            })?;
        Ok(OpenRun {
            directory: directory.to_path_buf(),
            file,
            position,
            log,
            redactor,
            _lock: lock,
        })
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.file.oneshot_id
    }

    /// What its file says.
    pub fn file(&self) -> &RunFile {
        &self.file
    }

    /// Where it is.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// What takes secrets out of what is written here.
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// Where an event would lead; nothing changes. For what has to be done on the way,
    /// such as starting the agent whose process [`OpenRun::apply`] is told.
    ///
    /// # Errors
    /// When the state does not take the event.
    pub fn look_ahead(&self, event: &Event) -> Result<(Position, Action), Invalid> {
        step(&self.position, event)
    }

    /// Takes the run on by an event: the log is written, then the file. `process` is the
    /// agent that runs from now on, if one does.
    ///
    /// # Errors
    /// When the state does not take the event, or the disk refuses.
    pub fn apply(
        &mut self,
        event: &Event,
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
        let mut file = self.file.clone();
        file.enter(&next, process, now);
        if let Some(Entry {
            reason: Some(Reason::Feedback(line)),
            ..
        }) = file.history.last_mut()
        {
            *line = self.redactor.redact(line).into_owned();
        }
        let from = Some(self.position.state());
        let line = change_line(from, &next, file.last(), &self.redactor);
        file.log_seq = self.log.append(line)?;
        // The log tells of it: whatever becomes of the file, this is where the run is.
        self.position = next;
        self.file = file;
        self.save()
    }

    fn save(&self) -> Result<(), ApplyError> {
        Ok(self.file.save(&self.directory)?)
    }

    /// How the run is taken up again: [`resume`], with the event to be applied next.
    ///
    /// # Errors
    /// When its state is final.
    pub fn resume(&mut self, maximum: Option<NonZeroU32>) -> Result<Option<Event>, NotResumable> {
        let (position, event) = resume(&self.position, maximum)?;
        self.file.max_iterations = position.maximum;
        self.position = position;
        Ok(event)
    }

    /// Changes what the file says besides its states, and saves it. The prompt and the
    /// feedback are redacted again.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn update(&mut self, change: impl FnOnce(&mut Details<'_>)) -> Result<(), ApplyError> {
        change(&mut Details {
            feedback: &mut self.file.feedback,
            agent_sessions: &mut self.file.agent_sessions,
            options: &mut self.file.options,
            model: &mut self.file.model,
            auditor_model: &mut self.file.auditor_model,
            executor: &mut self.file.executor,
            auditor: &mut self.file.auditor,
        });
        self.file.redact(&self.redactor);
        self.save()
    }

    /// Writes a line to the log, its data redacted; its number.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn note(
        &mut self,
        kind: Kind,
        origin: Origin,
        data: Value,
        now: Now,
    ) -> Result<u64, LogError> {
        self.log.append(NewLine {
            ts: now.unix_seconds(),
            kind,
            origin,
            data: Redacted::new(data, &self.redactor),
        })
    }

    /// The log, for the pipeline of an agent's output.
    pub fn log(&mut self) -> &mut RunLog {
        &mut self.log
    }
}

/// What of a run's file may change beside its states.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Details<'a> {
    pub feedback: &'a mut Option<String>,
    pub agent_sessions: &'a mut Vec<AgentSession>,
    pub options: &'a mut super::context::RunOptions,
    pub model: &'a mut Option<String>,
    pub auditor_model: &'a mut Option<String>,
    pub executor: &'a mut String,
    pub auditor: &'a mut String,
}

/// The line that tells of a new entry of the history.
fn change_line(
    from: Option<State>,
    to: &Position,
    entry: Option<&Entry>,
    redactor: &Redactor,
) -> NewLine {
    let change = StateChange {
        from,
        to: to.state(),
        pid: entry.and_then(|entry| entry.pid),
        pid_started: entry.and_then(|entry| entry.pid_started),
        reason: entry.and_then(|entry| entry.reason.clone()),
        max_iterations: Some(to.maximum),
    };
    NewLine {
        ts: entry.map_or(0.0, |entry| entry.ts),
        kind: Kind::StateChange,
        origin: Origin {
            iteration: (to.iteration > 0).then_some(to.iteration),
            ..Origin::default()
        },
        data: Redacted::new(serde_json::to_value(change).unwrap_or_default(), redactor),
    }
}

/// Adds the changes that the log tells of beyond the file's last one; whether there were
/// any. Each save follows its line, so there is one at most.
fn adopt(directory: &Path, file: &mut RunFile) -> Result<bool, OpenError> {
    let known = file.log_seq;
    let newest =
        log_reader::newest(directory, Kind::StateChange, u64::MAX).map_err(|source| LogError {
            doing: "read",
            path: directory.join(super::log::FILE_NAME),
            source,
        })?;
    let Some(line) = newest.filter(|line| line.seq > known) else {
        return Ok(false);
    };
    let contradictory = |contradiction| {
        OpenError::Load(LoadError::Contradictory {
            path: directory.join(super::log::FILE_NAME),
            contradiction,
        })
    };
    let Some(change) = line.state_change() else {
        return Ok(false);
    };
    let position = file.position().map_err(contradictory)?;
    let mut next = position
        .then(change.to, change.reason.as_ref())
        .ok_or_else(|| {
            contradictory(Contradiction::History(Unreplayable {
                entry: file.history.len(),
                state: change.to,
            }))
        })?;
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
    use crate::oneshot::salvage::{Surroundings, salvage};
    use crate::oneshot::sessions;

    /// The files of runs as they were written, one over and one not.
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

    /// A directory with such files of a run.
    fn directory(file: &str, log: &[u8]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &[u8]| std::fs::write(directory.path().join(name), text);
        put(super::super::context::FILE_NAME, file.as_bytes()).unwrap();
        put(super::super::log::FILE_NAME, log).unwrap();
        directory
    }

    fn open(directory: &Path) -> Result<OpenRun, OpenError> {
        OpenRun::open(directory, Arc::new(Redactor::default()))
    }

    proptest! {
        // Each case is synced to the disk a few times.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_a_runs_files_hold_it_is_refused_or_can_be_gone_on_with(
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
                let around = Surroundings { home: directory.path(), environment: &[] };
                let executor = executors.find(name).unwrap();
                let _ = salvage(directory.path(), run.file(), executor, around);
            }
            let _ = run.resume(None);
            let now = FakeClock::default().now();
            for event in [Event::Start, Event::Cancel] {
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
    fn a_log_whose_numbers_have_come_to_their_end_is_gone_on_with() {
        let log = LOG.replacen("\"seq\":1,", &format!("\"seq\":{},", u64::MAX), 1);
        assert_ne!(log, LOG);
        let first = log.lines().next().unwrap();
        let directory = directory(FILE, format!("{first}\n").as_bytes());
        let mut log = RunLog::open(directory.path()).unwrap();
        let line = NewLine {
            ts: 1.0,
            kind: Kind::Prompt,
            origin: Origin::default(),
            data: Redacted::new(Value::Null, &Redactor::default()),
        };
        assert_eq!(log.append(line).unwrap(), u64::MAX);
    }
}
