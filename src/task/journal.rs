//! The state directory: a server's spools and a small file per task, which says what the task is,
//! its status, and where its output is. Other processes read it: `zsh-tool tasks`, `zsh-tool log`,
//! the monitor.
//!
//! A task's file is a [`Snapshot`], written soon after its start and its end, and after probes that
//! found something new. The caller's text is redacted first.
//!
//! Each server has a directory of its own, locked while it lives; [`tombstone`](super::tombstone)
//! says what happens to it afterwards.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::earlier;
use super::live::LiveTask;
use super::output::spool::{SpoolWriter, Spools};
use super::request::StartError;
use super::snapshot::Snapshot;
use super::stream::StreamName;
use super::told::ShownMark;
use crate::process::files::{self, FileLock, PrivateDirError};
use crate::process::probe::Identity;
use crate::process::removal;
use crate::text::foreign::ShowPath;
use crate::text::redact::Redactor;

pub(super) const SERVERS: &str = "servers";
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

    /// The path of the spool files of a task's stream, without their number.
    pub fn spool_base(&self, task: &str, stream: StreamName) -> PathBuf {
        self.path.join(spool_name(task, stream))
    }

    /// Removes the directory with its content.
    pub fn remove(&self) {
        let _ = removal::remove_tree(&self.path);
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
pub(crate) fn read_all(state: &Path) -> Vec<(PathBuf, Snapshot)> {
    let mut found = Vec::new();
    for server in servers(state) {
        found.extend(read_server(&server).into_iter().map(|entry| (server.clone(), entry)));
    }
    found.sort_by(|(_, a), (_, b)| b.started().total_cmp(&a.started()));
    found
}

/// The tasks of one server, in no order.
pub(crate) fn read_server(server: &Path) -> Vec<Snapshot> {
    let is_entry = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let paths = files::entries(server).map(|file| file.path());
    paths.filter(is_entry).filter_map(|path| read_entry(&path)).collect()
}

/// One task of a server.
pub(crate) fn read(directory: &Path, task: &str) -> Option<Snapshot> {
    read_entry(&entry_path(directory, task))
}

fn read_entry(path: &Path) -> Option<Snapshot> {
    let text = files::read_private(path, MAX_ENTRY_BYTES).ok()?;
    serde_json::from_slice(&text).ok().or_else(|| earlier::snapshot(&text))
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

fn spool_name(task: &str, stream: StreamName) -> String {
    match stream {
        StreamName::Output => task.to_owned(),
        StreamName::Errors => format!("{task}-stderr"),
    }
}

/// The files that now hold a task's stream, by number, in order. Missing numbers were dropped for
/// the quota.
pub(crate) fn output_files(
    directory: &Path,
    task: &str,
    stream: StreamName,
) -> Vec<(u64, PathBuf)> {
    let name = spool_name(task, stream);
    let mut found: Vec<(u64, PathBuf)> = files::entries(directory)
        .filter_map(|file| {
            let path = file.path();
            let number = path.extension()?.to_str()?.parse().ok()?;
            (path.file_stem()?.to_str()? == name).then_some((number, path))
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
    spools: Spools,
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
        spools: Spools,
        redactor: Arc<Redactor>,
    ) -> Journal {
        Journal {
            path: directory.map(|directory| entry_path(&directory.path, task)),
            spools,
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
        let text = serde_json::to_vec(&Snapshot::for_others(task, &self.spools, &self.redactor))?;
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
    spools: &Spools,
    redactor: &Redactor,
) -> io::Result<()> {
    write_json(
        &entry_path(directory, &task.facts.id),
        &Snapshot::for_others(task, spools, redactor),
    )
}

/// Records how much results have shown, in the file of a task whose owner is gone.
pub(crate) fn write_shown(directory: &Path, task: &str, shown: ShownMark) -> io::Result<()> {
    let path = entry_path(directory, task);
    let mut snapshot: Snapshot =
        serde_json::from_slice(&files::read_private(&path, MAX_ENTRY_BYTES)?)?;
    snapshot.shown = Some(shown);
    write_json(&path, &snapshot)
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    files::replace_private(path, &serde_json::to_vec(value)?)
}
