//! Lists, finds and stops the agent runs of a state directory.
//!
//! Limits: reads the runs' files without locking them; [`super::run::OpenRun`] makes changes.

use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::run::{ApplyError, OpenError, OpenRun, SESSIONS};
use super::run_files::{self, LoadError, RunFile};
use super::state::{self, Position, RunEvent, RunState, Stage};
use crate::base::clock::Now;
use crate::process::descriptors::{Interest, Poller};
use crate::process::directory_watch::DirectoryWatch;
use crate::process::kill::{Handle, Undelivered};
use crate::process::signals::Signal;
use crate::process::survivors::SurvivorQuery;
use crate::process::tree::Identity;
use crate::text::foreign::ShowPath;
use crate::text::redact::Redactor;

/// The word for the most recently changed run, usable instead of its id.
pub(crate) const LATEST: &str = "latest";

/// The environment variable that marks every process of a run's agents.
pub(crate) const ID_VARIABLE: &str = "ONESHOT_ID";

/// How long a runner may take to stop; it gives its agents half a second.
const STOP_PATIENCE: Duration = Duration::from_secs(15);

/// A run, seen from outside.
#[derive(Debug, Clone)]
pub(crate) struct RunView {
    /// The directory of its files.
    pub(crate) directory: PathBuf,
    /// The contents of its file.
    pub(crate) file: RunFile,
    /// Whether a process runs it.
    pub(crate) live: bool,
    /// The process that runs it, if it is visible.
    pub(crate) runner: Option<Identity>,
}

impl RunView {
    pub(crate) fn id(&self) -> &str {
        &self.file.oneshot_id
    }

    /// Whether it can be resumed with its current settings.
    pub(crate) fn is_resumable(&self) -> bool {
        let position = self.file.position();
        !self.live && position.is_ok_and(|position| state::resume(&position, None).is_ok())
    }

    /// Whether it has ended, and no larger number of iterations would continue it.
    fn is_over(&self) -> bool {
        let position = self.file.position();
        let is_over = |at: Position| {
            matches!(at.stage, Stage::GivenUp { .. })
                || state::resume(&at, Some(NonZeroU32::MAX)).is_err()
        };
        !self.live && position.is_ok_and(is_over)
    }

    /// When it last changed, in Unix seconds.
    fn changed(&self) -> f64 {
        self.file.last().map_or(0.0, |entry| entry.ts)
    }
}

/// Reads the run in a directory.
///
/// # Errors
/// If its file cannot be used.
pub(crate) fn view(directory: &Path) -> Result<RunView, LoadError> {
    // Check the lock first: a runner saves the file before it releases the lock.
    let mut live = run_files::is_held(directory);
    let file = RunFile::load(directory)?;
    // Another process may have resumed the run in between.
    live |= !file.state.is_terminal() && run_files::is_held(directory);
    Ok(RunView {
        runner: live.then(|| run_files::runner(directory)).flatten(),
        live,
        file,
        directory: directory.to_path_buf(),
    })
}

/// All runs, and the errors of unusable ones.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The most recently changed run first.
    pub(crate) runs: Vec<RunView>,
    /// Why the other runs cannot be used.
    pub(crate) unusable: Vec<LoadError>,
}

/// Lists the runs of a state directory.
pub(crate) fn list(state: &Path) -> Listing {
    let mut listing = Listing::default();
    for directory in directories(state) {
        match view(&directory) {
            Ok(run) => listing.runs.push(run),
            Err(error) => listing.unusable.push(error),
        }
    }
    listing.runs.sort_by(|a, b| b.changed().total_cmp(&a.changed()));
    listing
}

/// Removes runs that ended longer than `keep` ago, except runs that can be resumed or whose file
/// cannot be used.
pub(crate) fn prune(state: &Path, keep: Duration, now: Now) {
    let before = now.unix_seconds() - keep.as_secs_f64();
    let runs = list(state).runs.into_iter();
    for run in runs.filter(|run| run.changed() < before && run.is_over()) {
        // Rename it first, so that a partly removed run is not listed.
        let gone = run_files::unfinished(&state.join(SESSIONS), run.id());
        let removed =
            std::fs::rename(&run.directory, &gone).and_then(|()| std::fs::remove_dir_all(&gone));
        if let Err(error) = removed {
            tracing::warn!("cannot remove {}: {error}", run.directory.shown());
        }
    }
}

/// The directories whose names are ids of runs.
fn directories(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state.join(SESSIONS));
    entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| id_of(path).is_some_and(|name| uuid::Uuid::try_parse(name).is_ok()))
        .collect()
}

fn id_of(directory: &Path) -> Option<&str> {
    directory.file_name()?.to_str()
}

/// Why a run was not found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindError {
    /// No run has this id.
    #[error("no run's id begins with {0:?}: `zsh-tool oneshot list` lists them")]
    Unknown(String),
    /// There are no runs.
    #[error("there is no run yet")]
    None,
    /// Several runs have ids with this prefix.
    #[error("{} runs' ids begin with {wanted:?}, give more of it: {}", .ids.len(), .ids.join(", "))]
    Ambiguous {
        /// The prefix.
        wanted: String,
        /// The ids that match.
        ids: Vec<String>,
    },
    /// Its file cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// The run with this id or with the only id that has this prefix, or the [`LATEST`].
///
/// # Errors
/// If no run or several runs match, or its file cannot be used.
pub(crate) fn find(state: &Path, wanted: &str) -> Result<RunView, FindError> {
    if wanted == LATEST {
        return list(state).runs.into_iter().next().ok_or(FindError::None);
    }
    let lower = wanted.to_ascii_lowercase();
    let mut found: Vec<PathBuf> = directories(state)
        .into_iter()
        .filter(|path| id_of(path).is_some_and(|id| id.starts_with(&lower)))
        .collect();
    // An empty prefix would match every run.
    match (lower.is_empty(), found.len()) {
        (true, _) | (_, 0) => Err(FindError::Unknown(wanted.to_owned())),
        (_, 1) => Ok(view(&found.remove(0))?),
        _ => Err(FindError::Ambiguous {
            wanted: wanted.to_owned(),
            ids: found.iter().filter_map(|path| id_of(path).map(str::to_owned)).collect(),
        }),
    }
}

/// How a run was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopOutcome {
    /// Its runner stopped it.
    ByRunner {
        /// The state in which it stopped.
        state: RunState,
    },
    /// No process ran it. This process stopped it and killed processes that had outlived a killed
    /// runner.
    Here {
        /// How many processes were killed.
        survivors: usize,
    },
}

/// Why a run was not stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StopError {
    /// It has already ended.
    #[error("the run is already {0}")]
    Over(RunState),
    /// Its runner is not visible from this process.
    #[error("the run's runner is not visible from here: it may be in another container")]
    OutOfSight,
    /// Its runner belongs to another user.
    #[error("the run's runner, pid {0}, belongs to another user")]
    NotPermitted(i32),
    /// Its runner did not stop in time.
    #[error(
        "the run's runner, pid {pid}, did not stop it within {} s: \
         `kill -9 {pid}` ends it, the run remains resumable",
        STOP_PATIENCE.as_secs()
    )]
    StillLive {
        /// The runner.
        pid: i32,
    },
    /// Its file cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It cannot be changed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// Ends a run permanently: sends SIGUSR1 to its runner, or ends it here if it has no runner.
/// Returns when the run has ended.
///
/// # Errors
/// If the run has already ended, or its runner cannot be signalled or does not stop.
pub(crate) fn stop(
    directory: &Path,
    redactor: Arc<Redactor>,
    now: Now,
) -> Result<StopOutcome, StopError> {
    let run = view(directory)?;
    if run.file.state.is_terminal() {
        return Err(StopError::Over(run.file.state));
    }
    match (run.live, run.runner) {
        (true, Some(runner)) => match signal_runner(directory, runner)? {
            state if state.is_terminal() => Ok(StopOutcome::ByRunner { state }),
            // The runner ended before it could stop the run.
            _ => stop_here(directory, redactor, now),
        },
        (true, None) => Err(StopError::OutOfSight),
        (false, _) => stop_here(directory, redactor, now),
    }
}

/// Signals the runner, waits for it, and returns the run's state afterwards.
fn signal_runner(directory: &Path, runner: Identity) -> Result<RunState, StopError> {
    // Watch before sending the signal, so that no change is missed.
    let watch = DirectoryWatch::new(directory).ok();
    let handle = Handle::open(runner).ok();
    let sent = handle.as_ref().map(|handle| handle.signal(Signal::Usr1));
    if sent == Some(Err(Undelivered::NotPermitted)) {
        return Err(StopError::NotPermitted(runner.pid));
    }
    let deadline = Instant::now() + STOP_PATIENCE;
    loop {
        if let Some(watch) = &watch {
            watch.drain();
        }
        let run = view(directory)?;
        // The runner releases the lock when its agents have ended.
        if !run.live {
            return Ok(run.file.state);
        }
        let patience = deadline.saturating_duration_since(Instant::now());
        if patience.is_zero() {
            return if run.file.state.is_terminal() {
                Ok(run.file.state)
            } else {
                Err(StopError::StillLive { pid: runner.pid })
            };
        }
        wait_for_change(watch.as_ref(), handle.as_ref(), Some(patience));
    }
}

/// Waits until the run's files change or its runner ends, for at most `patience`.
pub(crate) fn wait_for_change(
    watch: Option<&DirectoryWatch>,
    runner: Option<&Handle>,
    patience: Option<Duration>,
) {
    let mut poller = Poller::default();
    if let Some(watch) = watch {
        poller.watch(watch.as_fd(), Interest::Read);
    }
    if let Some(end) = runner.and_then(Handle::ended) {
        poller.watch(end, Interest::Read);
    }
    poller.wait(patience);
}

fn stop_here(
    directory: &Path,
    redactor: Arc<Redactor>,
    now: Now,
) -> Result<StopOutcome, StopError> {
    let mut run = OpenRun::open(directory, redactor)?;
    let state = run.position().state();
    if state.is_terminal() {
        return Err(StopError::Over(state));
    }
    run.apply(&RunEvent::Cancel, None, now)?;
    let survivors = end_survivors(&run).len();
    Ok(StopOutcome::Here { survivors })
}

/// Kills the processes of an agent whose runner was killed, and returns them. Only the process that
/// has opened the run may call this.
pub(crate) fn end_survivors(run: &OpenRun) -> Vec<Identity> {
    let leader = run
        .file()
        .history
        .iter()
        .rev()
        .find(|entry| entry.state.is_executing())
        .and_then(|entry| entry.process());
    let marks = SurvivorQuery { leader, variable: (ID_VARIABLE, run.id()) };
    marks.end().iter().map(|process| process.id).collect()
}
