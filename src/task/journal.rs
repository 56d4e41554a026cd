//! The state directory: where a server's spools lie, and a small file per task that
//! other processes read (`zsh-tool tasks`, `zsh-tool log`, the monitor).
//!
//! A task's file is written soon after its start and its end, and after looks at it that
//! have found something new.
//!
//! Each server has a directory of its own, locked while it lives. It goes with the
//! server; what a killed server left is removed at the next start. Command lines are
//! redacted before they are written.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

pub use super::entry::{Entry, RecordedOutcome};
use super::live::LiveTask;
use super::spool::{Spool, SpoolWriter};
use crate::process::files::{self, FileLock, PrivateDirError};
use crate::text::redact::Redactor;

const SERVERS: &str = "servers";
const LOCK: &str = "lock";
/// A task's file is written so long after its start: most commands are over by then, and
/// other processes, which the file is for, can wait.
const AFTER_START: Duration = Duration::from_millis(5);
/// … and so long after its end: the client waits for the answer, which needs the
/// processor first.
const AFTER_END: Duration = Duration::from_millis(1);
/// … and so long after something of its processes was found, or its output went over to
/// another file: there may be more of that in a moment.
const AFTER_FINDING: Duration = Duration::from_millis(20);
/// A directory that is still being made is left alone for so long.
const MAKING: Duration = Duration::from_secs(60);

/// A server's directory, locked for as long as this lives.
#[derive(Debug)]
pub struct ServerDir {
    path: PathBuf,
    _lock: FileLock,
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
        files::private_subdir(&servers)?;
        // Made aside, locked, then shown: nobody sees it without its lock.
        let making = servers.join(format!("{instance}.new"));
        files::private_subdir(&making)?;
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| ServerDirError::Io { path, source }
        };
        let lock_path = making.join(LOCK);
        let lock = FileLock::try_take(&lock_path)
            .map_err(failed(&lock_path))?
            .ok_or_else(|| failed(&lock_path)(io::ErrorKind::WouldBlock.into()))?;
        writeln!(lock.file(), "{}", std::process::id()).map_err(failed(&lock_path))?;
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

/// Removes the directories of servers that are gone. Behind a link they are not ours.
pub fn remove_dead_servers(state: &Path) {
    let servers = state.join(SERVERS);
    if servers.is_symlink() {
        return;
    }
    let Ok(entries) = std::fs::read_dir(servers) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let young = entry
            .metadata()
            .and_then(|found| found.modified())
            .is_ok_and(|made| SystemTime::now().duration_since(made).unwrap_or_default() < MAKING);
        if is_being_made(&path) && young {
            continue;
        }
        // The lock goes with the handle; a living server holds its own.
        if let Ok(Some(_lock)) = FileLock::try_take(&path.join(LOCK)) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Whether a directory is a server's that is not whole yet.
fn is_being_made(path: &Path) -> bool {
    path.extension().is_some()
}

/// Where the directories of all servers are.
pub fn servers_folder(state: &Path) -> PathBuf {
    state.join(SERVERS)
}

/// The directories of all servers, also of those that are gone. One that is being made is
/// left out: whether its lock is held is not to be asked while its server takes it.
pub fn servers(state: &Path) -> Vec<PathBuf> {
    let servers = std::fs::read_dir(state.join(SERVERS));
    let servers = servers.into_iter().flatten().flatten();
    servers
        .map(|server| server.path())
        .filter(|path| !is_being_made(path))
        .collect()
}

/// The tasks of all servers, also of those that are gone, newest first, each with its
/// server's directory.
pub fn read_all(state: &Path) -> Vec<(PathBuf, Entry)> {
    let mut found = Vec::new();
    for server in servers(state) {
        found.extend(
            read_server(&server)
                .into_iter()
                .map(|entry| (server.clone(), entry)),
        );
    }
    found.sort_by(|(_, a), (_, b)| b.started.total_cmp(&a.started));
    found
}

/// The tasks of the server of this directory, in no order.
pub fn read_server(server: &Path) -> Vec<Entry> {
    let files = std::fs::read_dir(server).into_iter().flatten().flatten();
    let is_entry = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    };
    files
        .map(|file| file.path())
        .filter(is_entry)
        .filter_map(|path| serde_json::from_slice(&std::fs::read(path).ok()?).ok())
        .collect()
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
    /// Files of output that were begun at the last look.
    segments: u64,
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
            segments: 1,
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

    /// A look at whether the task gets on was taken.
    pub fn note_look(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// A look at its processes has found something else than the last one, or the same.
    pub fn note_findings(&mut self, changed: bool, now: Instant) {
        if changed {
            self.due.get_or_insert(now + AFTER_FINDING);
        }
    }

    /// Writes what is due. That another file of output was begun is worth writing soon:
    /// readers know of the first alone where it begins.
    pub fn keep_up(&mut self, task: &LiveTask, spool: &SpoolWriter) {
        let now = Instant::now();
        let begun = spool.segments_begun();
        self.note_findings(begun > self.segments, now);
        self.segments = self.segments.max(begun);
        if self.due.is_some_and(|due| now >= due) {
            self.write(task);
        }
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
        let text = serde_json::to_vec(&Entry::of(task, &self.spool, &self.redactor))
            .map_err(io::Error::from);
        let written = match text {
            Ok(text) if text == self.written => return,
            Ok(text) => files::replace_private(path, &text).map(|()| self.written = text),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::warn!("cannot write {}: {error}", path.display());
        }
    }
}

/// Removes a task's file.
pub fn remove_entry(directory: &ServerDir, task: &str) {
    let _ = std::fs::remove_file(entry_path(&directory.path, task));
}
