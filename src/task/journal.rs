//! The state directory: a server's spools and a small file per task, which says what the task is,
//! its status, and where its output is. Other processes read it: `zsh-tool tasks`, `zsh-tool log`,
//! the monitor.
//!
//! A task's file is written soon after its start and its end, and after probes that found something
//! new. The caller's text is redacted first. Times are Unix seconds. The status of a running task
//! depends on when it is read: [`Entry::status`] computes it.
//!
//! Each server has a directory of its own, locked while it lives; [`tombstone`](super::tombstone)
//! says what happens to it afterwards.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::live::{End, Facts, Input, LiveState, LiveTask, ShownMark};
use super::output::spool::{Spool, SpoolWriter};
use super::request::{Detached, StartError};
use crate::process::files::{self, FileLock, PrivateDirError};
use crate::process::probe::Identity;
use crate::progress::condition::Condition;
use crate::progress::status_forecast::{BlockedOn, Status, StatusForecast};
use crate::progress::tracker::{ActivityDelta, ChangeKind};
use crate::progress::tree_state::TreeState;
use crate::progress::waiting::Waiting;
use crate::shell::outcome::Outcome;
use crate::text::foreign::ShowPath;
use crate::text::redact::Redactor;

const SERVERS: &str = "servers";
pub(super) const LOCK: &str = "lock";
/// The process that started a server.
const CLIENT: &str = "client";
/// The socket of a living server, by which other processes reach its tasks.
pub(crate) const CONTROL_SOCKET: &str = "control.sock";
/// The prefix of a shim's instance name, and so of its directory.
pub(crate) const SHIM_PREFIX: &str = "shim-";
/// How long a task's id is.
const ID_DIGITS: usize = 8;
/// A task's file is written this long after its start: most commands have ended by then, and the
/// other processes that read the file can wait.
pub(super) const AFTER_START: Duration = Duration::from_millis(5);
/// A task's file is written this long after its end: the client waits for the answer, which gets
/// the processor first.
pub(super) const AFTER_END: Duration = Duration::from_millis(1);
/// A task's file is written this long after a probe found something or a new output file began, so
/// that changes that come together are written once.
const AFTER_CHANGE: Duration = Duration::from_millis(20);
/// The largest file of a server, apart from the output of its tasks.
pub(super) const MAX_ENTRY_BYTES: u64 = 64 << 20;

/// A server's directory, locked until this is dropped.
#[derive(Debug)]
pub struct ServerDir {
    pub(crate) path: PathBuf,
    _lock: FileLock,
}

/// Why a server has no directory.
#[derive(Debug, thiserror::Error)]
pub enum ServerDirError {
    /// Other users could read it.
    #[error(transparent)]
    Private(#[from] PrivateDirError),
    #[error("cannot use {}: {source}", .path.shown())]
    Io { path: PathBuf, source: io::Error },
}

impl ServerDir {
    /// Creates the directory of server `instance`, which `client` has started, below the state
    /// directory.
    ///
    /// # Errors
    /// The directory cannot be created or is not private, or the disk is full.
    pub fn create(
        state: &Path,
        instance: &str,
        client: Option<Identity>,
    ) -> Result<ServerDir, ServerDirError> {
        files::private_dir(state)?;
        let servers = state.join(SERVERS);
        files::private_subdir(&servers)?;
        // Created under another name, locked, then renamed: no process sees it without its lock.
        let temporary = servers.join(format!("{instance}.new"));
        files::private_subdir(&temporary)?;
        let path = servers.join(instance);
        let made = lock_directory(&temporary, client).and_then(|lock| {
            std::fs::rename(&temporary, &path).map_err(failed(&path))?;
            Ok(ServerDir { path, _lock: lock })
        });
        if made.is_err() {
            let _ = std::fs::remove_dir_all(&temporary);
        }
        made
    }

    /// The path of a task's spool files, without their number.
    pub fn spool_base(&self, task: &str) -> PathBuf {
        self.path.join(task)
    }

    /// Removes the directory with its content.
    pub fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Takes the lock of a new server's directory, and records its pid and the process that has started
/// it.
fn lock_directory(directory: &Path, client: Option<Identity>) -> Result<FileLock, ServerDirError> {
    let path = directory.join(LOCK);
    let lock = FileLock::try_take(&path)
        .map_err(failed(&path))?
        .ok_or_else(|| failed(&path)(io::ErrorKind::WouldBlock.into()))?;
    writeln!(lock.file(), "{}", std::process::id()).map_err(failed(&path))?;
    if let Some(client) = client {
        let text = format!("{} {}\n", client.pid, client.started);
        let path = directory.join(CLIENT);
        files::replace_private(&path, text.as_bytes()).map_err(failed(&path))?;
    }
    Ok(lock)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ServerDirError {
    let path = path.to_path_buf();
    move |source| ServerDirError::Io { path, source }
}

/// Whether a server is still creating this directory.
pub(super) fn is_being_created(path: &Path) -> bool {
    path.extension().is_some()
}

/// The directories of shims, including ended ones.
pub(crate) fn shims(state: &Path) -> Vec<PathBuf> {
    servers(state).into_iter().filter(|directory| is_shim(directory)).collect()
}

/// Whether a server's directory is that of a shim.
pub(super) fn is_shim(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(SHIM_PREFIX))
}

/// Whether a text from outside is a task's id, and so may become the name of a file.
pub(crate) fn is_task_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The parent of all servers' directories.
pub(crate) fn servers_folder(state: &Path) -> PathBuf {
    state.join(SERVERS)
}

/// The directories of all servers, including ended ones. Leaves out those that a server is still
/// creating: their locks must not be tested while the server takes them.
pub(crate) fn servers(state: &Path) -> Vec<PathBuf> {
    let servers = files::entries(&servers_folder(state));
    servers.map(|server| server.path()).filter(|path| !is_being_created(path)).collect()
}

/// The tasks of all servers, including ended ones, newest first, each with its server's
/// directory.
pub(crate) fn read_all(state: &Path) -> Vec<(PathBuf, Entry)> {
    let mut found = Vec::new();
    for server in servers(state) {
        found.extend(read_server(&server).into_iter().map(|entry| (server.clone(), entry)));
    }
    found.sort_by(|(_, a), (_, b)| b.started.total_cmp(&a.started));
    found
}

/// The tasks of one server, in no order.
pub(crate) fn read_server(server: &Path) -> Vec<Entry> {
    let is_entry = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let paths = files::entries(server).map(|file| file.path());
    paths.filter(is_entry).filter_map(|path| read_entry(&path)).collect()
}

/// One task of a server.
pub(crate) fn read(directory: &Path, task: &str) -> Option<Entry> {
    read_entry(&entry_path(directory, task))
}

fn read_entry(path: &Path) -> Option<Entry> {
    let text = files::read_private(path, MAX_ENTRY_BYTES).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Whether the server of this directory is alive.
pub(crate) fn server_lives(directory: &Path) -> bool {
    files::is_locked(&directory.join(LOCK))
}

/// The pid of the server of this directory. It is meaningful while the server lives, and in its
/// PID namespace.
pub(crate) fn server_pid(directory: &Path) -> Option<i32> {
    let text = files::read_private(&directory.join(LOCK), MAX_ENTRY_BYTES).ok()?;
    str::from_utf8(&text).ok()?.trim().parse().ok()
}

/// The process that started the server of this directory. It is meaningful while the server
/// lives, and in its PID namespace.
pub(crate) fn server_client(directory: &Path) -> Option<Identity> {
    let text = files::read_private(&directory.join(CLIENT), MAX_ENTRY_BYTES).ok()?;
    let (pid, started) = str::from_utf8(&text).ok()?.trim().split_once(' ')?;
    Some(Identity { pid: pid.parse().ok()?, started: started.parse().ok()? })
}

/// The files that now hold a task's output, by number, in order. Missing numbers were dropped for
/// the quota.
pub(crate) fn output_files(directory: &Path, task: &str) -> Vec<(u64, PathBuf)> {
    let mut found: Vec<(u64, PathBuf)> = files::entries(directory)
        .filter_map(|file| {
            let path = file.path();
            let number = path.extension()?.to_str()?.parse().ok()?;
            (path.file_stem()? == task).then_some((number, path))
        })
        .collect();
    found.sort();
    found
}

pub(super) fn entry_path(directory: &Path, task: &str) -> PathBuf {
    directory.join(format!("{task}.json"))
}

/// One task's file; without a directory nothing is written.
pub(crate) struct Journal {
    path: Option<PathBuf>,
    spool: Arc<Spool>,
    redactor: Arc<Redactor>,
    /// The content of the file.
    written: Vec<u8>,
    /// How many output files had been begun at the last check.
    segments: u64,
    due: Option<Instant>,
}

impl Journal {
    pub(crate) fn new(
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
            segments: 1,
            due: None,
        }
    }

    /// Schedules the next write after this pause, replacing any earlier schedule.
    pub(crate) fn schedule(&mut self, pause: Duration) {
        self.due = Some(Instant::now() + pause);
    }

    /// Schedules a write soon, if none is scheduled: something has changed.
    pub(crate) fn schedule_soon(&mut self) {
        self.due.get_or_insert(Instant::now() + AFTER_CHANGE);
    }

    /// Writes the file if that is due; returns whether it was. A new output file makes it due soon,
    /// since readers know only where the first one begins.
    pub(crate) fn write_if_due(&mut self, task: &LiveTask, spool: &SpoolWriter) -> bool {
        let begun = spool.segments_begun();
        if begun > self.segments {
            self.segments = begun;
            self.schedule_soon();
        }
        let is_due = self.due.is_some_and(|due| Instant::now() >= due);
        if is_due {
            self.write(task);
        }
        is_due
    }

    /// When the file is to be written next, if anything has changed.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Writes the task's present state, if the file does not hold it yet.
    pub(crate) fn write(&mut self, task: &LiveTask) {
        self.due = None;
        if let (Err(error), Some(path)) = (self.replace(task), &self.path) {
            tracing::warn!("cannot write {}: {error}", path.shown());
        }
    }

    /// Writes the file of a task whose command is about to start, so that the task is listed
    /// whenever this process may be killed.
    ///
    /// # Errors
    /// As [`files::replace_private`].
    pub(crate) fn announce(&mut self, task: &LiveTask) -> Result<(), StartError> {
        self.replace(task).map_err(|error| {
            let path = self.path.as_deref().unwrap_or(Path::new(""));
            StartError::Unlisted(format!("cannot write {}: {error}", path.shown()))
        })
    }

    /// Removes the file of a task whose command was not started.
    pub(crate) fn withdraw(&self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }

    fn replace(&mut self, task: &LiveTask) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let text = serde_json::to_vec(&Entry::of(task, &self.spool, &self.redactor))?;
        if text != self.written {
            files::replace_private(path, &text)?;
            self.written = text;
        }
        Ok(())
    }
}

/// Writes the file of a task that has ended, with what results have shown of it.
///
/// # Errors
/// As [`files::replace_private`].
pub(crate) fn write_last(
    directory: &Path,
    task: &LiveTask,
    spool: &Spool,
    redactor: &Redactor,
) -> io::Result<()> {
    write_json(&entry_path(directory, &task.facts.id), &Entry::of(task, spool, redactor))
}

/// Records how much results have shown, in the file of a task whose owner is gone.
pub(crate) fn write_shown(directory: &Path, task: &str, shown: ShownMark) -> io::Result<()> {
    let path = entry_path(directory, task);
    let mut entry: Entry = serde_json::from_slice(&files::read_private(&path, MAX_ENTRY_BYTES)?)?;
    entry.shown = Some(shown);
    write_json(&path, &entry)
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    files::replace_private(path, &serde_json::to_vec(value)?)
}

/// A task as the state directory describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// 8 lower-case hex digits.
    pub id: String,
    /// The command line, with secrets redacted.
    pub command: String,
    /// What it is for, in the caller's words.
    pub description: Option<String>,
    /// The agent run or other session that it belongs to, if any.
    #[serde(default)]
    pub part_of: Option<String>,
    /// `None` if it ends with its server.
    #[serde(default)]
    pub detached: Option<Detached>,
    /// How much results have shown; only for detached tasks.
    #[serde(default)]
    pub shown: Option<ShownMark>,
    pub directory: String,
    pub pid: i32,
    /// Unix seconds.
    pub started: f64,
    pub pty: bool,
    /// `None` while it runs.
    pub outcome: Option<Outcome>,
    pub exit_code: Option<i32>,
    /// The command's own time in milliseconds.
    pub duration_ms: Option<u64>,
    /// See [`End::pipestatus`](super::live::End).
    #[serde(default)]
    pub pipestatus: Vec<i32>,
    /// See [`End::moved_to`](super::live::End).
    #[serde(default)]
    pub moved_to: Option<String>,
    /// Processes that outlive it.
    pub leftovers: Vec<i32>,
    /// The files that hold its output.
    pub output: Vec<PathBuf>,
    /// Where the output in each of them begins, by the file's number; earlier files may be gone.
    #[serde(default)]
    pub segments: Vec<(u64, u64)>,
    /// The line in which each of them begins, in the same order.
    #[serde(default)]
    pub first_lines: Vec<u64>,
    /// The width of its terminal.
    #[serde(default)]
    pub columns: Option<u16>,
    /// When the last output came.
    #[serde(default)]
    pub last_output: Option<f64>,
    /// The process that waits for input, with the prompt redacted.
    #[serde(default)]
    pub waiting: Option<Waiting>,
    /// Whether a person is attached to it, and may type.
    #[serde(default)]
    pub attached: bool,
    /// States of its processes that are worth knowing.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Its progress; `None` before the first probe.
    #[serde(default)]
    pub progress: Option<Progress>,
}

/// The findings of a task's probes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// How many signs of life there were.
    pub heartbeats: u64,
    /// How many state changes there were.
    pub state_changes: u64,
    /// The newest state change, and when it was.
    pub last_change: Option<(ChangeKind, f64)>,
    /// The status as time passes.
    pub outlook: StatusForecast<f64>,
    /// Between the last two probes, without the time between them.
    pub delta: ActivityDelta,
    /// What its processes do, if that is visible, and since when.
    #[serde(default)]
    pub tree_state: Option<(TreeState, f64)>,
    /// A process that is stuck beside others that are not.
    #[serde(default)]
    pub stuck_part: Option<TreeState>,
    /// The summary with which a runner's output has ended, although the task still waits.
    #[serde(default)]
    pub finished: Option<String>,
    /// The line that it prints again and again, and the address of this machine that the line names
    /// if nothing listens there.
    #[serde(default)]
    pub repeated: Option<(String, Option<String>)>,
    /// Whether some of what its processes read and write is not visible.
    pub degraded: bool,
}

impl Entry {
    /// The present state of a task of this process.
    pub fn of(task: &LiveTask, spool: &Spool, redactor: &Redactor) -> Entry {
        let facts = &task.facts;
        let redact = |text: &str| redactor.redact(text).into_owned();
        let output = spool.files();
        let (segments, first_lines) = spool.starts().into_iter().unzip();
        let command = redact(&facts.command);
        let description = facts.description.as_deref().map(redact);
        let state = task.state();
        let end = state.ended.as_ref();
        let millis = |end: &End| u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX);
        let mut entry = Entry {
            id: facts.id.clone(),
            command,
            description,
            part_of: facts.part_of.clone(),
            detached: facts.detached.clone(),
            shown: facts.detached.as_ref().map(|_| state.shown_mark()),
            directory: facts.directory.to_string_lossy().into_owned(),
            pid: facts.shell.pid,
            started: facts.started.unix_seconds(),
            pty: facts.input == Input::Terminal,
            outcome: end.map(|end| end.outcome),
            exit_code: end.map(|end| end.exit.code()),
            duration_ms: end.map(millis),
            pipestatus: end.map(|end| end.pipestatus.clone()).unwrap_or_default(),
            moved_to: end
                .and_then(|end| end.moved_to.as_ref())
                .map(|directory| directory.to_string_lossy().into_owned()),
            leftovers: state.leftovers.iter().map(|left| left.pid).collect(),
            output,
            segments,
            first_lines,
            columns: state.columns,
            last_output: state.last_output.map(|at| unix_seconds(facts, at)),
            waiting: state.waiting.clone(),
            attached: state.people.is_some(),
            conditions: state.conditions.clone(),
            progress: progress(&state, facts),
        };
        // Not under the task's lock: redaction may take long.
        drop(state);
        if let Some(waiting) = &mut entry.waiting {
            waiting.prompt = redact(&waiting.prompt);
        }
        entry
    }

    /// Whether the task has ended, and everything that it left.
    pub fn is_over(&self) -> bool {
        self.outcome.is_some() && self.leftovers.is_empty()
    }

    /// Its status at this time (Unix seconds); `None` if it runs and was not probed yet.
    pub fn status(&self, now: f64) -> Option<Status> {
        let blocked_on = match (&self.waiting, &self.progress) {
            _ if self.outcome.is_some() => return Some(Status::Ended),
            (_, Some(progress)) => return Some(progress.outlook.status(now)),
            (Some(_), None) => BlockedOn::Input,
            (None, None) if self.conditions.iter().any(Condition::holds_up) => BlockedOn::Stop,
            (None, None) => return None,
        };
        Some(Status::Blocked(blocked_on))
    }

    /// Whether it runs and is alive. Before the first probe it counts as alive.
    pub fn alive(&self, now: f64) -> bool {
        let lives = |progress: &Progress| progress.outlook.alive(now);
        self.outcome.is_none() && self.progress.as_ref().is_none_or(lives)
    }

    /// Whether it is stuck: its processes wait for each other, or it only repeats itself.
    pub fn stuck(&self, now: f64) -> bool {
        let stuck = |progress: &Progress| progress.outlook.stuck(now);
        self.outcome.is_none() && self.progress.as_ref().is_some_and(stuck)
    }
}

fn progress(state: &LiveState, facts: &Facts) -> Option<Progress> {
    let found = state.progress.as_ref()?;
    let unix = |at: Instant| unix_seconds(facts, at);
    Some(Progress {
        heartbeats: found.tracker.heartbeat_count,
        state_changes: found.tracker.change_count,
        last_change: found.tracker.last_change.map(|change| (change.kind, unix(change.at))),
        outlook: found.tracker.forecast(state.held_up()).on_clock(unix),
        delta: without_time(*found.tracker.delta()?),
        tree_state: found
            .tree_state
            .clone()
            .map(|tree_state| (tree_state, unix(found.tree_state_since))),
        stuck_part: found.stuck_part.clone(),
        finished: found.finished.clone(),
        repeated: state
            .repetition(Instant::now())
            .map(|repetition| (repetition.line, found.unserved.clone())),
        degraded: found.degraded,
    })
}

/// No reader of the file uses the time between the probes. It differs at each probe, and would have
/// the file of a silent task written anew each time.
fn without_time(delta: ActivityDelta) -> ActivityDelta {
    ActivityDelta { time: Duration::ZERO, ..delta }
}

/// A time of this process's clock as Unix seconds, derived from the task's start.
fn unix_seconds(facts: &Facts, at: Instant) -> f64 {
    let since_start = at.saturating_duration_since(facts.started.mono);
    facts.started.unix_seconds() + since_start.as_secs_f64()
}
